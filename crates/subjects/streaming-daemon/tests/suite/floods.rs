//! Tests of many handoffs at once, and of the races that only they cause.

use std::thread;
use std::time::Duration;

use daemon_kit::MetricsPage;
use streaming_daemon::SocketType;
use test_kit::assert_contains;
use test_kit::{scaled, wait_until};

use crate::support::{BOTH_TYPES, PAYLOAD, read_all, start};

/// A daemon that accepts at once and reads at once meets connections whose sender is just between
/// connecting, sending and closing. On SEQPACKET the kernel then reports, once in some ten thousand
/// cases, an end although the message is queued.
#[test]
fn of_thousands_of_handoffs_that_race_with_their_reading_none_is_lost() {
    let each = scaled(3_000);
    for socket_type in BOTH_TYPES {
        let daemon = start(|config| {
            config.socket_type = socket_type;
            config.message_count = 0;
        });
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..each {
                        assert_eq!(daemon.ask(PAYLOAD).len(), 133);
                    }
                });
            }
        });
        assert_eq!(daemon.handoff_errors("empty"), 0);
        assert_eq!(daemon.stop().completed, 3 * each);
    }
}

#[test]
fn connections_in_the_accept_queue_at_shutdown_are_served() {
    for socket_type in [SocketType::Seqpacket, SocketType::Stream] {
        let daemon = start(|config| config.socket_type = socket_type);
        let clients: Vec<_> = (0..500).map(|_| daemon.hand_over(PAYLOAD)).collect();
        let summary = daemon.stop();
        assert_eq!((summary.started, summary.completed), (500, 500));
        for client in clients {
            assert_eq!(read_all(client).len(), 1226);
        }
    }
}

#[test]
fn streams_that_outlast_the_grace_time_are_closed_and_counted() {
    let daemon = start(|config| {
        config.message_delay = Duration::from_secs(3600);
        config.shutdown_grace = Duration::from_millis(50);
    });
    let clients: Vec<_> = (0..10).map(|_| daemon.hand_over(PAYLOAD)).collect();
    let _silent = daemon.connect();
    wait_until("the first event of all streams", || {
        let is_open = daemon.metric("daemon_active_streams") == 10;
        is_open && daemon.metric("daemon_chunks_sent_total") >= 10
    });
    let metrics = daemon.metrics.clone();
    let summary = daemon.stop();
    assert_eq!(
        (summary.started, summary.completed, summary.failed),
        (10, 0, 10)
    );
    for client in clients {
        // The head and the first event, then the end.
        assert_eq!(read_all(client).matches("\"content\"").count(), 1);
    }
    let page = metrics.render(&MetricsPage::new());
    assert_contains(
        &page,
        &["daemon_stream_errors_total{reason=\"canceled\"} 10\n"],
    );
    assert_contains(
        &page,
        &["daemon_handoff_errors_total{reason=\"canceled\"} 1\n"],
    );
    assert!(page.contains("daemon_active_connections 0\n"), "{page}");
}
