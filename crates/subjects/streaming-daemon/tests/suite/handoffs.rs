//! Tests of correct and faulty senders.

use std::os::fd::AsRawFd;

use streaming_daemon::{Peers, SocketType};

use test_kit::wait_until;

use crate::support::{BOTH_TYPES, PAYLOAD, client, is_hung_up, pass, read_all, start};

#[test]
fn half_a_payload_gets_the_defaults_once_its_sender_closes() {
    let daemon = start(|config| config.socket_type = SocketType::Stream);
    assert!(daemon.ask(&PAYLOAD[..20]).contains("User ID: 0"));
    assert_eq!(daemon.handoff_errors("invalid_json"), 1);
}

#[test]
fn a_sender_that_falls_silent_is_given_up_after_five_seconds() {
    let daemon = start(|config| config.socket_type = SocketType::Stream);
    let silent = daemon.connect();
    let (halting, (ours, theirs)) = (daemon.connect(), client());
    pass(&halting, &PAYLOAD[..20], &[theirs.as_raw_fd()]);
    drop(theirs);
    // They delay nobody else.
    assert!(daemon.ask(PAYLOAD).contains("User ID: 1"));
    wait_until("two waiting alone", || {
        daemon.metric("daemon_active_connections") == 2
    });
    assert!(is_hung_up(&silent) && is_hung_up(&halting));
    assert!(read_all(ours).contains("User ID: 0"));
    assert_eq!(daemon.handoff_errors("timeout"), 1);
}

#[test]
fn a_message_that_comes_late_is_taken() {
    for socket_type in BOTH_TYPES {
        let daemon = start(|config| config.socket_type = socket_type);
        let (sender, (ours, theirs)) = (daemon.connect(), client());
        wait_until("the accept", || {
            daemon.metric("daemon_connections_total") == 1
        });
        pass(&sender, PAYLOAD, &[theirs.as_raw_fd()]);
        drop(theirs);
        assert!(read_all(ours).contains("User ID: 1"));
    }
}

/// The kernel can report the end of a SEQPACKET connection while a message is queued. An empty record looks the same to
/// the daemon, at a time that the test chooses.
#[test]
fn after_a_first_end_the_message_is_looked_for_once_more() {
    let daemon = start(|_| {});
    let (sender, (ours, theirs)) = (daemon.connect(), client());
    pass(&sender, b"", &[]);
    pass(&sender, PAYLOAD, &[theirs.as_raw_fd()]);
    drop(theirs);
    assert_eq!(read_all(ours).len(), 1226);
    assert_eq!(daemon.handoff_errors("empty"), 0);
}

#[test]
fn a_sender_that_is_not_listed_is_hung_up_on_and_counted() {
    for socket_type in BOTH_TYPES {
        let daemon = start(|config| {
            config.socket_type = socket_type;
            config.peers = Peers {
                users: vec![nix::unistd::geteuid().as_raw() + 1],
                groups: Vec::new(),
            };
        });
        let (sender, (ours, theirs)) = (daemon.connect(), client());
        pass(&sender, PAYLOAD, &[theirs.as_raw_fd()]);
        drop(theirs);
        assert_eq!(read_all(ours), "");
        assert!(is_hung_up(&sender));
        wait_until("the count", || daemon.handoff_errors("peer_refused") == 1);
        assert_eq!(daemon.metric("daemon_active_connections"), 0);
        assert_eq!(daemon.metric("daemon_handoffs_total"), 0);
    }
}
