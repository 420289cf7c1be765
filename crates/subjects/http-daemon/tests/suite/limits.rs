//! Tests of clients that are slow, too many, or too large; and of a lack of descriptors.

use std::io::Read as _;
use std::process::Command;
use std::thread;

use nix::sys::resource::{Resource, setrlimit};
use test_kit::limit_open_files;

use crate::support::{Client, Daemon};

#[test]
fn a_head_that_does_not_come_to_its_end_is_answered_with_408() {
    let daemon = Daemon::start("--workers 1 --connection-timeout 1");
    let mut client = daemon.connect();
    client.send(b"GET /1kb.txt HTTP/1.1\r\nHost: te");
    assert_eq!(client.answer().status(), 408);
    assert!(client.rest().is_empty());
    // The same for a client that sends single bytes slowly, and for the second request of a connection.
    let mut client = daemon.connect();
    assert_eq!(client.get("/1kb.txt").status(), 200);
    let drips = drip(&client);
    assert_eq!(client.answer().status(), 408);
    drop(client);
    drips.join().unwrap();
    assert_eq!(daemon.metric("http_timeouts_total"), 2);
    // A body that does not arrive.
    let mut client = daemon.connect();
    client.send(b"POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nhell");
    assert_eq!(client.answer().status(), 408);
    // One that arrives in single bytes is ended after the same time.
    let mut client = daemon.connect();
    client.send(b"POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 1000000\r\n\r\n");
    let drips = drip(&client);
    assert_eq!(client.answer().status(), 408);
    drop(client);
    drips.join().unwrap();
}

/// Sends single bytes slowly until the other side has closed.
fn drip(client: &Client) -> thread::JoinHandle<()> {
    let mut dripping = client.0.try_clone().unwrap();
    thread::spawn(move || {
        while std::io::Write::write_all(&mut dripping, b"x").is_ok() {
            // The slowness of this client: far more often than its time of a second, far too slow for its body.
            thread::sleep(std::time::Duration::from_millis(50));
        }
    })
}

#[test]
fn an_idle_connection_is_closed_after_its_time_and_a_busy_one_is_not() {
    let daemon = Daemon::start("--workers 1 --keep-alive-timeout 2 --connection-timeout 1");
    let mut fresh = daemon.connect();
    let mut used = daemon.connect();
    let mut busy = daemon.connect();
    assert_eq!(used.get("/1kb.txt").status(), 200);
    assert_eq!(busy.get("/fault/delay?ms=3500").status(), 200);
    assert!(fresh.rest().is_empty());
    assert!(used.rest().is_empty());
}

#[test]
fn a_client_that_does_not_read_is_given_up() {
    let daemon = Daemon::start("--workers 1 --connection-timeout 1");
    let large = std::fs::File::create(daemon.www().join("large")).unwrap();
    large.set_len(1_000_000_000).unwrap();
    let mut clients = [daemon.connect(), daemon.connect()];
    for (client, path) in clients
        .iter_mut()
        .zip(["fault/chunked?chunks=1000&size=1000000", "large"])
    {
        client.send(format!("GET /{path} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes());
    }
    daemon.await_metric("http_connections_accepted_total", |count| count == 2);
    daemon.await_metric("http_connections_open", |count| count == 0);
    assert_eq!(daemon.metric("http_timeouts_total"), 2);
}

#[test]
fn a_head_that_is_too_long_is_answered_with_431_although_the_client_goes_on() {
    let daemon = Daemon::start("--workers 1");
    let mut client = daemon.connect();
    let mut head = b"GET /1kb.txt HTTP/1.1\r\nHost: test\r\nX: ".to_vec();
    head.resize(100_000, b'x');
    client.send(&head);
    assert_eq!(client.answer().status(), 431);
    assert!(client.rest().is_empty());
    // A close with unread bytes would reset the connection, and this would fail.
    daemon.await_metric("http_connections_open", |open| open == 0);
    client.send(b"x");
}

#[test]
fn one_connection_too_many_is_answered_with_503() {
    for mode in ["false", "true"] {
        let daemon = Daemon::start(&format!(
            "--max-connections 2 --processes 2 --workers 1 --sink {mode}"
        ));
        let mut held = [daemon.connect(), daemon.connect()];
        for client in &mut held {
            assert_eq!(client.get("/1kb.txt").status(), 200);
        }
        let mut third = daemon.connect();
        assert_eq!(third.answer().status(), 503);
        assert!(third.rest().is_empty());
        let [first, mut second] = held;
        drop(first);
        daemon.await_metric("http_connections_open", |open| open == 1);
        assert_eq!(daemon.get("/1kb.txt").status(), 200);
        assert_eq!(second.get("/1kb.txt").status(), 200);
        assert_eq!(daemon.metric("http_connections_refused_total"), 1);
        assert_eq!(daemon.metric("http_connections_peak"), 2);
    }
}

#[test]
fn without_descriptors_it_serves_who_is_there_and_takes_others_later() {
    for mode in ["false", "true"] {
        let mut daemon = Daemon::start(&format!("--workers 1 --sink {mode} --logging-level warn"));
        let mut first = daemon.connect();
        assert_eq!(first.get("/healthz").status(), 200);
        // The soft limit: from now on accepting fails; open connections stay.
        limit_open_files(daemon.pid(), 4);
        let mut waiting = daemon.connect();
        waiting.send(b"GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n");
        daemon.await_line("cannot accept; retrying in");
        assert_eq!(first.get("/healthz").status(), 200);
        if mode == "false" {
            assert_eq!(first.get("/1kb.txt").status(), 503);
        }
        limit_open_files(daemon.pid(), 256);
        assert_eq!(waiting.answer().status(), 200);
        assert!(daemon.metric("http_accept_errors_total") > 0);
        assert!(daemon.stop().success());
    }
}

#[test]
fn more_connections_than_descriptors_are_refused_and_not_left_waiting() {
    let limit = |command: &mut Command| {
        use std::os::unix::process::CommandExt as _;
        #[expect(
            unsafe_code,
            reason = "what runs between fork and exec must be safe there"
        )]
        // SAFETY: a single system call, which allocates nothing and takes no lock.
        unsafe {
            command.pre_exec(|| Ok(setrlimit(Resource::RLIMIT_NOFILE, 148, 148)?));
        }
    };
    let daemon = Daemon::start_by("--workers 1", limit);
    let mut clients: Vec<Client> = (0..30).map(|_| daemon.connect()).collect();
    let statuses: Vec<u16> = clients
        .iter_mut()
        .map(|client| {
            // A refused client may find the connection closed before the request is sent.
            let _ = std::io::Write::write_all(
                &mut client.0,
                b"GET /1kb.txt HTTP/1.1\r\nHost: test\r\n\r\n",
            );
            client.head().status()
        })
        .collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 20);
    assert_eq!(statuses.iter().filter(|status| **status == 503).count(), 10);
}

#[test]
fn a_client_that_vanishes_costs_nothing() {
    let daemon = Daemon::start("--workers 1");
    let large = std::fs::File::create(daemon.www().join("large")).unwrap();
    large.set_len(1_000_000_000).unwrap();
    for path in ["/100kb.txt", "/large", "/fault/stall", "/fault/slow?ms=1"] {
        let mut client = daemon.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes());
        client.0.set_nonblocking(true).unwrap();
        let _ = client.0.read(&mut [0; 10]);
    }
    daemon.await_metric("http_connections_accepted_total", |count| count == 4);
    daemon.await_metric("http_connections_open", |count| count == 0);
}
