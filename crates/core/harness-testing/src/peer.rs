//! Servers that a test plays, and proxies that change what a server says. They end with the test program.

use std::io::{self, Read as _, Write as _};
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

/// Returns the bytes of a text with the escapes of byte strings: `\x8a\0\r\n`.
#[must_use]
pub fn bytes(text: &str) -> Vec<u8> {
    let text = text.replace('"', "\\\"").replace(r"\0", r"\x00");
    let json = format!("\"{}\"", text.replace(r"\x", r"\u00"));
    let text: String = serde_json::from_str(&json).unwrap();
    text.chars().map(|it| u8::try_from(it).unwrap()).collect()
}

/// Starts a proxy to a server at this port of 127.0.0.1 that sends the [`bytes`] of `to` instead of as many of `from`, so
/// that the answers are wrong. Returns the address of the proxy.
pub fn proxy(server: u16, from: &str, to: &str) -> SocketAddr {
    let (from, to) = (bytes(from), bytes(to));
    serve(move |mut client| {
        let mut server = TcpStream::connect(("127.0.0.1", server)).ok()?;
        let (mut from_client, mut to_server) = (client.try_clone().ok()?, server.try_clone().ok()?);
        let there = thread::spawn(move || {
            let _ = io::copy(&mut from_client, &mut to_server);
            let _ = to_server.shutdown(Shutdown::Both);
        });
        let mut buffer = vec![0; 65_536];
        while let Ok(count @ 1..) = server.read(&mut buffer) {
            replace(&mut buffer[..count], &from, &to);
            if client.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = client.shutdown(Shutdown::Both);
        there.join().ok()
    })
}

fn replace(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    assert_eq!(from.len(), to.len());
    let mut start = 0;
    while let Some(offset) = bytes[start..]
        .windows(from.len())
        .position(|window| window == from)
    {
        bytes[start + offset..][..to.len()].copy_from_slice(to);
        start += offset + to.len();
    }
}

/// Serves metrics pages on a free port of 127.0.0.1 until the test program ends; returns the port. `answer` gets the
/// port and the text of each request, and returns the status and the page.
pub fn serve_page(
    mut answer: impl FnMut(u16, &str) -> (&'static str, String) + Send + 'static,
) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 1024];
            let length = stream.read(&mut request).unwrap_or(0);
            let (status, body) = answer(port, &String::from_utf8_lossy(&request[..length]));
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n");
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    port
}
