//! Tests of clients that leave, do not read, or are too many.

use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};

use test_kit::wait_until;

use crate::support::{PAYLOAD, Running, client, pass, read_all, start};

/// Enough events to fill the smallest socket buffer many times over.
const MANY: u32 = 2_000;

/// Hands over a client whose socket buffer is as small as the kernel allows. The socket is blocking, as sockets are by
/// default.
fn hand_over_narrow_client(daemon: &Running) -> UnixStream {
    let (ours, theirs) = client();
    setsockopt(&theirs, sockopt::SndBuf, &0).unwrap();
    pass(&daemon.connect(), PAYLOAD, &[theirs.as_raw_fd()]);
    ours
}

#[test]
fn a_client_that_leaves_is_counted_and_its_place_becomes_free() {
    let daemon = start(|config| config.message_delay = Duration::from_millis(20));
    let mut client = daemon.hand_over(PAYLOAD);
    client.read_exact(&mut [0; 200]).unwrap();
    assert_eq!(daemon.metric("daemon_active_streams"), 1);
    drop(client);
    wait_until("the count", || {
        daemon.stream_errors("client_disconnected") == 1
    });
    assert_eq!(daemon.metric("daemon_active_streams"), 0);
    assert_eq!(daemon.metric("daemon_active_connections"), 0);
    let summary = daemon.stop();
    assert_eq!(
        (summary.started, summary.completed, summary.failed),
        (1, 0, 1)
    );
}

#[test]
fn a_client_that_never_reads_runs_into_the_write_timeout_while_others_go_on() {
    let daemon = start(|config| {
        config.message_count = MANY;
        config.message_delay = Duration::from_nanos(1);
        config.write_timeout = Duration::from_millis(300);
    });
    let idle: Vec<_> = (0..50).map(|_| hand_over_narrow_client(&daemon)).collect();
    for _ in 0..50 {
        assert!(daemon.ask(PAYLOAD).ends_with("data: [DONE]\n\n"));
    }
    wait_until("the timeouts", || daemon.stream_errors("timeout") == 50);
    assert_eq!(daemon.metric("daemon_active_streams"), 0);
    drop(idle);
    assert_eq!(daemon.stop().completed, 50);
}

#[test]
fn a_slow_reader_gets_every_byte() {
    let daemon = start(|config| {
        config.message_count = MANY;
        config.message_delay = Duration::from_nanos(1);
    });
    let expected = daemon.ask(PAYLOAD);
    let mut client = hand_over_narrow_client(&daemon);
    let mut all = Vec::new();
    let mut buffer = [0; 777];
    loop {
        match client.read(&mut buffer).unwrap() {
            0 => break,
            count => all.extend_from_slice(&buffer[..count]),
        }
    }
    assert_eq!(String::from_utf8(all).unwrap(), expected);
    // Each event once, including those that were written in pieces.
    let events = 2 * u64::from(MANY);
    assert_eq!(daemon.metric("daemon_chunks_sent_total"), events);
    let bytes = 2 * expected.len() as u64;
    assert_eq!(daemon.stop().bytes, bytes);
}

#[test]
fn a_client_that_leaves_while_it_blocks_is_counted() {
    let daemon = start(|config| {
        config.message_count = MANY;
        config.message_delay = Duration::from_nanos(1);
    });
    let client = hand_over_narrow_client(&daemon);
    wait_until("an event", || daemon.metric("daemon_chunks_sent_total") > 0);
    drop(client);
    wait_until("the count", || {
        daemon.stream_errors("client_disconnected") == 1
    });
}

#[test]
fn above_the_limit_clients_are_answered_503_until_a_place_is_free() {
    let refusal = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n\
        Content-Length: 0\r\n\r\n";
    let daemon = start(|config| {
        config.max_connections = 2;
        config.message_delay = Duration::from_millis(20);
    });
    let mut held = [daemon.hand_over(PAYLOAD), daemon.hand_over(PAYLOAD)];
    for client in &mut held {
        client.read_exact(&mut [0; 119]).unwrap();
    }
    assert_eq!(daemon.ask(PAYLOAD), refusal);
    assert_eq!(daemon.ask(PAYLOAD), refusal);
    assert_eq!(daemon.metric("daemon_connections_rejected_total"), 2);
    let rest: Vec<_> = held.into_iter().map(read_all).collect();
    assert!(rest.iter().all(|rest| rest.len() == 1226 - 119));
    assert_eq!(daemon.ask(PAYLOAD).len(), 1226);
    let summary = daemon.stop();
    assert_eq!(
        (summary.peak_concurrent, summary.started, summary.completed),
        (2, 3, 3)
    );
}
