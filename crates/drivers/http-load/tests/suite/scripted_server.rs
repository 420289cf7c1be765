//! Tests of the scripted server: it executes and counts the steps of its script.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::scripted::{Counts, Scripted, Step};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\ncontent-length: 5\r\n\r\nhello";

fn connect(server: &Scripted) -> TcpStream {
    let stream = TcpStream::connect(server.address()).expect("it listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("60 s is a time");
    stream
}

fn read(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).expect("so many bytes come");
    bytes
}

#[test]
fn requests_are_answered_and_counted_on_each_connection() {
    let server = Scripted::start(vec![Step::Expect, Step::Send(b"yes".to_vec()), Step::Again]);
    let mut clients = [connect(&server), connect(&server)];
    for client in &mut clients {
        client.write_all(&[REQUEST, POST].concat()).unwrap();
        assert_eq!(read(client, 6), b"yesyes");
        client.write_all(&POST[..20]).unwrap();
        client.write_all(&POST[20..]).unwrap();
        assert_eq!(read(client, 3), b"yes");
    }
    let counts = Counts {
        connections: 2,
        requests: 6,
        received: 2 * (REQUEST.len() + 2 * POST.len()) as u64,
        sent: 18,
    };
    let now = server.counts();
    let sent = now.sent;
    assert_eq!(now, Counts { sent, ..counts });
    assert_eq!(server.finish(), counts);
}

#[test]
fn the_end_of_a_script_closes_though_a_request_was_not_read() {
    let server = Scripted::start(vec![Step::Send(b"bye".to_vec())]);
    let mut client = connect(&server);
    client.write_all(REQUEST).unwrap();
    let mut all = Vec::new();
    client.read_to_end(&mut all).unwrap();
    assert_eq!(all, b"bye");
    drop(client);
    assert_eq!(server.finish().requests, 0);
}

#[test]
fn a_reset_is_one_and_scripts_go_by_the_number_of_the_connection() {
    let server = Scripted::start_each(|number| match number {
        0 => vec![Step::Expect, Step::Reset],
        _ => vec![Step::Expect, Step::Close],
    });
    let mut first = connect(&server);
    first.write_all(REQUEST).unwrap();
    let error = first.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let mut second = connect(&server);
    second.write_all(REQUEST).unwrap();
    assert_eq!(second.read(&mut [0]).unwrap(), 0);
}

#[test]
fn slow_pieces_arrive_whole() {
    let pieces = Step::SendSlowly(b"slowly".to_vec(), 1, Duration::from_millis(1));
    let server = Scripted::start(vec![Step::Expect, pieces]);
    let mut client = connect(&server);
    client.write_all(REQUEST).unwrap();
    let mut all = Vec::new();
    client.read_to_end(&mut all).unwrap();
    assert_eq!(all, b"slowly");
}

#[test]
fn a_stalled_connection_gets_nothing_and_ends_with_the_server() {
    let server = Scripted::start(vec![Step::Expect, Step::Stall]);
    let mut client = connect(&server);
    client.write_all(&[REQUEST, REQUEST].concat()).unwrap();
    drop(server);
    assert_eq!(client.read(&mut [0]).unwrap_or(0), 0);
}
