//! The end of the server.

use std::thread;
use std::time::Duration;

use socketio_server::ServerConfig;

use crate::support::{TestServer, config};

#[test]
fn clients_are_told_to_connect_again() {
    let mut server = TestServer::start(config());
    let mut client = server.join();
    let session = server.poll();
    let (address, path) = (server.address, session.path());
    let poll = thread::spawn(move || crate::support::http(address, "GET", &path, b""));
    // It would be refused after the end has begun.
    server.wait_for_polls(1);
    server.ask_to_stop();
    // Official clients do not connect again after a packet that disconnects them from a namespace.
    assert_eq!(client.close_code(), Some(1001));
    assert_eq!(poll.join().unwrap(), (200, "1".to_owned()));
    server.wait();
}

#[test]
fn the_server_does_not_wait_longer_than_the_grace_time() {
    let mut server = TestServer::start(ServerConfig {
        shutdown_grace: Duration::from_millis(300),
        ..config()
    });
    // It neither reads nor answers.
    let _client = server.join();
    let _idle = crate::support::stream(server.address);
    server.wait();
}

#[test]
fn the_health_page_says_that_the_server_serves() {
    let server = TestServer::start(config());
    assert_eq!(server.get("/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(server.get("/other").0, 404);
}
