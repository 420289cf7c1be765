//! A socket with TLS in an edge-triggered loop, against a server of rustls.

use std::io::{ErrorKind, Read as _, Write as _};
use std::sync::Arc;

use harness_testing::certificate::Certificate;
use harness_testing::peer;
use load::clock;
use load::net::dial::{Peer, dial};
use load::net::sources::Sources;
use load::net::write_buffer::WriteBuffer;
use load::reactor::Reactor;
use rustls::{ServerConnection, StreamOwned};
use tls_client::{Socket, TlsClient, TlsOptions};

/// More than the kernel and TLS take at once.
const SIZE: usize = 3_000_000;

/// Starts a server that reads this many bytes and sends them back.
fn serve(length: usize) -> Peer {
    let config = Arc::new(Certificate::new("localhost", false).server(None));
    let address = peer::serve(move |tcp| {
        let tls = ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = StreamOwned::new(tls, tcp);
        let mut bytes = vec![0; length];
        stream.read_exact(&mut bytes).unwrap();
        stream.write_all(&bytes).unwrap();
        stream.flush().unwrap();
    });
    Peer::Tcp(address)
}

/// Connects, writes all of `sent` before the handshake, and returns what comes back until the end.
fn echo(peer: &Peer, sent: &[u8]) -> Vec<u8> {
    let options = TlsOptions {
        insecure: true,
        ..TlsOptions::default()
    };
    let tls = TlsClient::new("localhost", &options, &[]).unwrap();
    let mut reactor = Reactor::new(None).unwrap();
    let socket = dial(peer, &mut Sources::none()).unwrap();
    let mut socket = Socket::new(socket, Some(&tls)).unwrap();
    reactor.watch_edges(&socket, 0).unwrap();
    let mut unsent = WriteBuffer::default();
    unsent.append(sent);
    let (mut received, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    let deadline = clock::now() + 30_000_000_000;
    while clock::now() < deadline {
        reactor.wait(deadline, clock::now()).unwrap();
        loop {
            match socket.read(&mut buffer) {
                Ok(0) => return received,
                Ok(length) => received.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        unsent.flush(&mut socket).unwrap();
        socket.flush().unwrap();
    }
    panic!("{} of {} bytes came", received.len(), sent.len())
}

#[test]
fn all_bytes_come_through_tls_in_order() {
    for length in [1, SIZE] {
        let sent: Vec<u8> = (0..length).map(|at| (at / 7) as u8).collect();
        assert!(echo(&serve(length), &sent) == sent, "{length} bytes differ");
    }
}
