//! Servers that a test plays, and proxies that change what a server says. They end with the test program.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// Listens on a free port of 127.0.0.1, and calls a function with each connection, in a thread of its own. Returns the
/// address.
pub fn serve<T>(act: impl Fn(TcpStream) -> T + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let act = Arc::new(act);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let act = Arc::clone(&act);
            thread::spawn(move || {
                act(stream);
            });
        }
    });
    address
}

/// Starts a proxy to a server at this port of 127.0.0.1. It forwards what a client sends; `answer` gets both ends, the
/// server's first, and forwards what the server sends until one of them closes. Returns the address of the proxy.
pub fn proxy(
    server: u16,
    answer: impl Fn(&mut TcpStream, &mut TcpStream) + Send + Sync + 'static,
) -> SocketAddr {
    serve(move |mut client| {
        let mut server = TcpStream::connect(("127.0.0.1", server)).ok()?;
        let (mut from_client, mut to_server) = (client.try_clone().ok()?, server.try_clone().ok()?);
        let there = thread::spawn(move || {
            let _ = io::copy(&mut from_client, &mut to_server);
            let _ = to_server.shutdown(Shutdown::Both);
        });
        answer(&mut server, &mut client);
        let _ = client.shutdown(Shutdown::Both);
        there.join().ok()
    })
}
