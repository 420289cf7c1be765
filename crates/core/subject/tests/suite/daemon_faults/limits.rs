//! Limits of the process: descriptors and memory.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::thread;

use harness_testing::processes::{all_threads_are, limit_open_files, wait_until};
use nix::sys::signal::Signal;

use super::{Process, on_daemons, on_each_daemon};

#[test]
fn without_descriptors_clients_wait_and_the_log_has_the_reason() {
    let names = ["rust-streaming", "broker-daemon", "issue-daemon"];
    on_daemons(&names, |subject| {
        let process = subject.start();
        // A thread inside of accept4 has its descriptor already: only the client's would be lacking.
        wait_until("it waits for work", || all_threads_are(&process.0, 'S'));
        limit_open_files(process.pid(), 3);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| subject.request());
            wait_until("it logs the reason", || {
                subject.logged().contains("Too many open files")
            });
            limit_open_files(process.pid(), 256);
            waiting.join().unwrap().unwrap();
        });
    });
}

/// The memory that a daemon has already may be enough for all clients.
#[test]
fn without_memory_a_daemon_serves_or_ends_and_keeps_what_was_confirmed() {
    on_each_daemon(|subject| {
        let mut process = subject.start();
        limit_memory(&process, "1");
        let confirmed: u64 = thread::scope(|scope| {
            let clients: Vec<_> = (0..200).map(|_| scope.spawn(|| subject.serves())).collect();
            let served = clients.into_iter().map(|client| client.join().unwrap());
            served.map(u64::from).sum()
        });
        limit_memory(&process, "unlimited");
        let mut status = None;
        wait_until("it serves or has ended", || {
            status = process.0.try_wait().unwrap();
            status.is_some() || subject.serves()
        });
        if let Some(status) = status {
            let log = subject.logged();
            assert_eq!(status.signal(), Some(Signal::SIGABRT as i32), "{status}");
            assert!(log.contains("memory allocation of"), "{log}");
        }
        drop(process);
        let _again = subject.start();
        let stored = subject.request().unwrap();
        let is_kept = stored == 0 || stored > confirmed;
        assert!(is_kept, "{stored} of {confirmed} are stored");
    });
}

fn limit_memory(process: &Process, bytes: &str) {
    let mut prlimit = Command::new("prlimit");
    let pid = format!("--pid={}", process.pid());
    prlimit.args([pid, format!("--as={bytes}:")]);
    // It may have ended.
    let _ = prlimit.status().unwrap();
}
