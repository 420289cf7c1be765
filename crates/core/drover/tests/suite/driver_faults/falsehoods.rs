//! Runs whose figures are about the machine or the driver, and not about the daemon: each result says so.
//!
//! The machine is busy with other tests, so a verdict proves nothing: a warning must name the disturbance.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use harness_testing::program::CompletedRun;
use nix::sys::signal::{Signal, kill};
use test_kit::scaled;

use super::{Driver, by, folders, on_each, wait_until_under_way};
use crate::support::Started;

/// Repetitions of a full run.
const TRIES: u64 = 5;

/// Runs each driver on its daemon, disturbed. Expects a warning of one of these kinds that is more than a note.
fn accuses(kinds: &[&str], run: impl Fn(&Driver, &Path, &str) -> Output + Sync) {
    on_each(|driver| {
        for _ in 0..scaled(TRIES) {
            let (folder, into) = folders();
            driver.with_server(|address| {
                let output = run(driver, &into, address);
                let CompletedRun { result, .. } = CompletedRun::read(&output, folder.path());
                let is_named = result.warned().iter().any(|kind| kinds.contains(kind));
                assert!(is_named, "{driver:?}: {}", result["warnings"]);
                assert_ne!(result["verdict"], "VALID", "{driver:?}");
            });
        }
    });
}

/// A program that uses a CPU until it is dropped.
struct BusyLoop(Child);

impl BusyLoop {
    fn start() -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]);
        Self(command.stdin(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for BusyLoop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn driver_that_is_stopped_again_and_again_accuses_itself() {
    accuses(&["Stalled", "GeneratorLate"], |driver, into, address| {
        let started = Started::spawn(&mut driver.call_on(into, address));
        wait_until_under_way(into);
        // The times are the disturbance.
        for _ in 0..15 {
            kill(started.pid, Signal::SIGSTOP).unwrap();
            thread::sleep(Duration::from_millis(80));
            kill(started.pid, Signal::SIGCONT).unwrap();
            thread::sleep(Duration::from_millis(120));
        }
        kill(started.pid, Signal::SIGTERM).unwrap();
        started.end()
    });
}

#[test]
fn driver_of_low_priority_beside_busy_loops_accuses_them() {
    let cpus = thread::available_parallelism().unwrap().get();
    let _others: Vec<_> = (0..cpus).map(|_| BusyLoop::start()).collect();
    accuses(&["OtherWork", "NoisyHost"], |driver, into, address| {
        let call = driver.short_call_on(into, address);
        by(["nice", "-n5"], &call).output().unwrap()
    });
}
