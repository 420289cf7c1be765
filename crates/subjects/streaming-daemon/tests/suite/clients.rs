//! Tests of clients that read slowly, or leave before they have read.

use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};

use test_kit::wait_until;

use crate::support::{PAYLOAD, Running, client, pass, start};

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
