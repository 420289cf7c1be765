//! Signals under load, and a second instance.

use harness_testing::assert_contains;
use harness_testing::daemons::prepared;
use nix::sys::signal::Signal;
use subject::daemon::Options;

use super::{DAEMONS, Subject, on_each_daemon};

/// Ends a daemon by a signal under load, and starts it again at once. Returns its exit code.
fn end_under_load(subject: &Subject, signal: Signal) -> Option<i32> {
    let mut process = subject.start();
    let mut code = None;
    let confirmed = subject.under_load(|| {
        process.signal(signal);
        code = process.ended().code();
    });
    let _again = subject.start();
    let stored = subject.request().unwrap();
    let stores = ["amqp", "issue"].contains(&subject.protocol);
    assert_eq!(
        stored > confirmed,
        stores,
        "{stored} of {confirmed} are stored"
    );
    code
}

#[test]
fn sigterm_under_load_exits_with_0_and_keeps_what_was_confirmed() {
    on_each_daemon(|subject| {
        assert_eq!(
            end_under_load(subject, Signal::SIGTERM),
            Some(0),
            "{}",
            subject.logged()
        );
        assert!(
            !subject.logged().contains("panicked"),
            "{}",
            subject.logged()
        );
    });
}

#[test]
fn sigkill_under_load_leaves_nothing_that_stops_the_next_start_and_keeps_what_was_confirmed() {
    on_each_daemon(|subject| assert_eq!(end_under_load(subject, Signal::SIGKILL), None));
}

/// A closed terminal sends SIGHUP to all processes.
#[tokio::test]
async fn sighup_ends_daemons_of_all_languages_with_0() {
    let others = [
        ("go-http", "http"),
        ("node-http", "http"),
        ("node-presence", "presence"),
        ("python-presence", "presence"),
    ];
    for (name, protocol) in DAEMONS.into_iter().chain(others) {
        let Some(prepared) = prepared(name, protocol) else {
            continue;
        };
        let daemon = prepared.start(&[], &Options::default()).await.unwrap();
        daemon.signal(Signal::SIGHUP);
        let status = daemon.exited().await;
        assert_eq!(
            status,
            "exited with status 0",
            "{name}: {}",
            daemon.last_lines(9)
        );
    }
}

#[test]
fn a_second_instance_exits_with_1_names_what_is_taken_and_the_remedy() {
    on_each_daemon(|subject| {
        let _first = subject.start();
        let status = subject.command(&[]).status().unwrap();
        let log = subject.logged();
        assert_eq!(status.code(), Some(1), "{log}");
        let words = match subject.protocol {
            "fdpass" => ["--metrics-addr", "in use"],
            "amqp" => ["--data-dir", "another"],
            "http" => ["--http-port", "in use"],
            "presence" => ["--port", "in use"],
            _ => ["issues.db", "stop"],
        };
        assert_contains(&log, &words);
        assert!(subject.serves());
    });
}
