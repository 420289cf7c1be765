//! Processes: waiting for them, observing, signalling and limiting them.

use std::path::Path;
use std::process::Child;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

pub use test_kit::{children, limit_open_files, wait_until, wait_until_within};

/// Returns true if there is such a process that is not a zombie.
#[must_use]
pub fn is_running(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Returns the process ids that a script has written to a file, once there are `count` of them.
#[must_use]
pub fn wait_for_pids(file: &Path, count: usize) -> Vec<i32> {
    let mut pids = Vec::new();
    wait_until("the script writes the ids of its processes", || {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        // A line without its end may be half a number.
        pids = text
            .split_inclusive('\n')
            .filter_map(|line| line.strip_suffix('\n')?.trim().parse().ok())
            .collect();
        pids.len() >= count
    });
    pids
}

/// Sends a signal to a child.
pub fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
}

/// Stops a child for a time, and continues it. The time counts from when all of its threads are stopped: a thread that
/// waits for a processor stops once it has one.
pub fn stop_for(child: &Child, time: Duration) {
    send(child, Signal::SIGSTOP);
    wait_until("all threads are stopped", || all_threads_are(child, 'T'));
    // The time is what the caller tests: a stopped process publishes nothing.
    std::thread::sleep(time);
    send(child, Signal::SIGCONT);
}

/// Returns true if all threads of a child are in a state: `S` while they wait, `T` while they are stopped (`proc(5)`).
#[must_use]
pub fn all_threads_are(child: &Child, state: char) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_none_or(|(_, rest)| rest.starts_with(state))
    })
}
