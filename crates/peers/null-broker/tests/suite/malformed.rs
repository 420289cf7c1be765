//! Malformed frames end their connection, and no other.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use null_broker::{NullBroker, Script};

/// A frame on channel 1 (AMQP 0-9-1, 4.2.3).
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len())
        .expect("a short payload")
        .to_be_bytes();
    [&[kind, 0, 1], &length[..], payload, &[0xce]].concat()
}

/// Connects, and waits for `connection.start`.
fn connect(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the broker listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a socket takes a timeout");
    stream
        .write_all(b"AMQP\0\0\x09\x01")
        .expect("the header is sent");
    stream.read_exact(&mut [0; 7]).expect("the broker answers");
    stream
}

#[test]
fn a_malformed_frame_ends_its_connection_only() {
    let broker = NullBroker::start(Script::default()).unwrap();
    let uri = broker.uri();
    let address = uri.split('@').nth(1).unwrap().trim_end_matches('/');
    let open = frame(1, &[0, 20, 0, 10, 0]);
    let publish = frame(1, &[0, 60, 0, 40, 0, 0, 0, 0, 0]);
    let header = frame(2, &[0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]);
    for malformed in [
        [publish.clone(), frame(2, &[0, 60, 0, 0, 0])].concat(),
        [publish, header, frame(3, b"two")].concat(),
        frame(1, &[0, 60, 0, 80, 0]),
    ] {
        let mut stream = connect(address);
        stream
            .write_all(&[open.clone(), malformed].concat())
            .unwrap();
        // Whether the end is clean or a reset depends on what the broker had read.
        let mut rest = Vec::new();
        let end = stream.read_to_end(&mut rest);
        let timed_out = end.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        assert!(!timed_out, "the connection is still open");
        connect(address);
    }
}
