//! Tests of correct and faulty senders.

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use nix::sys::socket::{self, MsgFlags};
use streaming_daemon::{Peers, SocketType};

use test_kit::wait_until;

use crate::support::{BOTH_TYPES, PAYLOAD, client, is_hung_up, pass, read_all, start};

/// Builds a payload of exactly this many bytes.
fn payload_of(length: usize) -> Vec<u8> {
    let (start, end) = (r#"{"user_id":1,"prompt":""#, r#""}"#);
    let prompt = "p".repeat(length - start.len() - end.len());
    format!("{start}{prompt}{end}").into_bytes()
}

#[test]
fn the_sender_sees_the_connection_closed_and_not_a_byte_on_it() {
    for socket_type in BOTH_TYPES {
        let daemon = start(|config| {
            config.socket_type = socket_type;
            config.message_delay = Duration::from_secs(3600);
        });
        let (sender, (_ours, theirs)) = (daemon.connect(), client());
        pass(&sender, PAYLOAD, &[theirs.as_raw_fd()]);
        // The sender keeps its end open: the daemon closes, long before the stream ends.
        assert!(is_hung_up(&sender));
    }
}

#[test]
fn payloads_up_to_128_kib_arrive_whole_on_both_socket_types() {
    for socket_type in BOTH_TYPES {
        let daemon = start(|config| config.socket_type = socket_type);
        for length in [10_000, 64 * 1024, 100_000, 128 * 1024] {
            let answer = daemon.ask(&payload_of(length));
            assert!(answer.contains("Prompt: ppppp"), "{length}");
            assert!(answer.ends_with("data: [DONE]\n\n"), "{length}");
        }
        assert_eq!(daemon.handoff_errors("invalid_json"), 0);
    }
}

#[test]
fn a_longer_payload_is_refused_and_its_client_closed() {
    for socket_type in BOTH_TYPES {
        let daemon = start(|config| config.socket_type = socket_type);
        for length in [128 * 1024 + 1, 150_000] {
            assert_eq!(daemon.ask(&payload_of(length)), "", "{length}");
        }
        wait_until("the count", || daemon.handoff_errors("too_large") == 2);
        assert_eq!(daemon.metric("daemon_active_connections"), 0);
    }
}

#[test]
fn a_payload_in_pieces_is_put_together_on_a_stream_socket() {
    let daemon = start(|config| config.socket_type = SocketType::Stream);
    let (sender, (ours, theirs)) = (daemon.connect(), client());
    let (first, rest) = PAYLOAD.split_at(5);
    pass(&sender, first, &[theirs.as_raw_fd()]);
    drop(theirs);
    // The first piece has been read once the connection is awaited.
    wait_until("the handoff", || {
        daemon.metric("daemon_connections_total") == 1
    });
    for piece in rest.chunks(7) {
        socket::send(sender.as_raw_fd(), piece, MsgFlags::empty()).unwrap();
    }
    assert!(is_hung_up(&sender));
    assert!(read_all(ours).contains("Prompt: benchmark test"));
}

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

#[test]
fn of_two_descriptors_the_first_is_used_and_the_second_closed() {
    for socket_type in BOTH_TYPES {
        let daemon = start(|config| config.socket_type = socket_type);
        let ((first, their_first), (second, their_second)) = (client(), client());
        let both = [their_first.as_raw_fd(), their_second.as_raw_fd()];
        pass(&daemon.connect(), PAYLOAD, &both);
        drop((their_first, their_second));
        assert_eq!(read_all(second), "");
        assert_eq!(read_all(first).len(), 1226);
        assert_eq!(daemon.handoff_errors("surplus_descriptors"), 1);
    }
}

#[test]
fn descriptors_other_than_stream_sockets_are_refused() {
    let daemon = start(|_| {});
    let file = File::open("/dev/null").unwrap();
    let (datagram, _other) = UnixDatagram::pair().unwrap();
    for descriptor in [file.as_raw_fd(), datagram.as_raw_fd()] {
        let sender = daemon.connect();
        pass(&sender, PAYLOAD, &[descriptor]);
        assert!(is_hung_up(&sender));
    }
    wait_until("the count", || {
        daemon.handoff_errors("not_a_stream_socket") == 2
    });
}

#[test]
fn a_message_without_a_descriptor_is_counted() {
    for socket_type in BOTH_TYPES {
        let daemon = start(|config| config.socket_type = socket_type);
        let sender = daemon.connect();
        pass(&sender, PAYLOAD, &[]);
        assert!(is_hung_up(&sender));
        wait_until("the count", || daemon.handoff_errors("no_descriptor") == 1);
    }
}

#[test]
fn a_probe_that_connects_and_closes_counts_as_empty() {
    for socket_type in BOTH_TYPES {
        let daemon = start(|config| config.socket_type = socket_type);
        drop(daemon.connect());
        wait_until("the count", || daemon.handoff_errors("empty") == 1);
        wait_until("the end", || {
            daemon.metric("daemon_active_connections") == 0
        });
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
fn a_tcp_client_is_served_like_any_other() {
    let daemon = start(|_| {});
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (theirs, _) = listener.accept().unwrap();
    pass(&daemon.connect(), PAYLOAD, &[theirs.as_raw_fd()]);
    drop(theirs);
    let mut all = String::new();
    std::io::Read::read_to_string(&mut ours, &mut all).unwrap();
    assert_eq!(all.len(), 1226);
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
