//! Tests of the sink, in one process and in several.

use std::thread;

use crate::support::Daemon;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n";

#[test]
fn every_head_is_answered_whatever_pieces_it_comes_in() {
    let mut daemon = Daemon::start("--sink --sink-body 100 --workers 1");
    let mut client = daemon.connect();
    for piece in REQUEST.chunks(1) {
        client.send(piece);
    }
    let answer = client.answer();
    assert_eq!((answer.status(), answer.body), (200, vec![0; 100]));
    // A thousand requests at once, and the beginning of one more.
    let mut many = REQUEST.repeat(1000);
    many.extend_from_slice(&REQUEST[..10]);
    let mut other = client.0.try_clone().unwrap();
    let sending = thread::spawn(move || std::io::Write::write_all(&mut other, &many).unwrap());
    for _ in 0..1000 {
        assert_eq!(client.answer().body.len(), 100);
    }
    sending.join().unwrap();
    client.send(&REQUEST[10..]);
    assert_eq!(client.answer().status(), 200);
    assert_eq!(daemon.metric("http_requests_total{class=\"2xx\"}"), 1002);
    assert!(daemon.stop().success());
}

#[test]
fn several_processes_share_the_connections_and_one_page_counts_them() {
    let mut daemon = Daemon::start("--sink --processes 3 --workers 2");
    assert_eq!(daemon.children().len(), 3);
    let mut clients: Vec<_> = (0..300).map(|_| daemon.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.send(REQUEST).answer().body.len(), 1024);
    }
    assert_eq!(daemon.metric("http_connections_open"), 300);
    assert_eq!(daemon.metric("http_requests_total{class=\"2xx\"}"), 300);
    assert!(daemon.stop().success(), "{}", daemon.stderr());
}
