//! Answers over plain sockets: their order, and what is not answered.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use null_peer::{Delays, Peer, Serving, Stall};

/// Starts a server for HTTP with these delays in turn, in ms, and connects to it.
fn http(delays: &[u64]) -> (Serving, TcpStream) {
    let delays: Vec<Duration> = delays.iter().copied().map(Duration::from_millis).collect();
    let peer = Peer::http(([127, 0, 0, 1], 0).into()).unwrap();
    let stream = TcpStream::connect(peer.address().unwrap()).unwrap();
    let limit = Some(Duration::from_secs(60));
    stream.set_read_timeout(limit).unwrap();
    (
        peer.start(Delays::new(&delays, Stall::default())).unwrap(),
        stream,
    )
}

#[test]
fn pipelined_requests_are_answered_in_their_order_whatever_their_delays() {
    let (_peer, mut stream) = http(&[50, 0, 20]);
    let requests = [
        "GET /1kb.txt HTTP/1.1\r\n\r\n",
        "POST /nothing HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody",
        "HEAD /10kb.txt HTTP/1.1\r\n\r\n",
        "GET /100kb.txt HTTP/1.1\r\nConnection: close\r\n\r\n",
    ];
    // The last one comes in two pieces.
    let requests = requests.concat();
    let (first, last) = requests.split_at(requests.len() - 10);
    stream.write_all(first.as_bytes()).unwrap();
    stream.write_all(last.as_bytes()).unwrap();
    let mut answers = Vec::new();
    stream.read_to_end(&mut answers).unwrap();
    let answers = String::from_utf8(answers).unwrap();
    let lengths = answers.split("Content-Length: ").skip(1);
    let lengths: Vec<&str> = lengths
        .map(|rest| rest.split('\r').next().unwrap())
        .collect();
    assert_eq!(lengths, ["1024", "0", "10240", "102400"]);
    let heads: usize = answers
        .split("HTTP/1.1")
        .skip(1)
        .map(|rest| rest.find("\r\n\r\n").unwrap() + 12)
        .sum();
    assert_eq!(answers.len() - heads, 1_024 + 102_400);
}

#[test]
fn a_request_that_is_not_of_the_protocol_ends_its_connection_only() {
    let (_peer, mut stream) = http(&[]);
    stream
        .write_all(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        .unwrap();
    assert_eq!(stream.read(&mut [0; 64]).unwrap(), 0);
    let mut other = TcpStream::connect(stream.peer_addr().unwrap()).unwrap();
    other.write_all(b"HEAD / HTTP/1.1\r\n\r\n").unwrap();
    assert!(other.read(&mut [0; 64]).unwrap() > 0);
}

#[test]
fn a_client_that_leaves_before_its_answer_is_not_in_the_record() {
    let (peer, mut stream) = http(&[30]);
    let mut other = TcpStream::connect(stream.peer_addr().unwrap()).unwrap();
    stream.write_all(b"HEAD / HTTP/1.1\r\n\r\n").unwrap();
    drop(stream);
    other.write_all(b"HEAD / HTTP/1.1\r\n\r\n").unwrap();
    assert!(other.read(&mut [0; 64]).unwrap() > 0);
    let held = peer.stop().unwrap();
    assert!(held.to_string().contains("\"count\":1,"), "{held}");
    assert!(held.longest() >= Duration::from_millis(30));
}
