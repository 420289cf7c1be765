//! Drivers that get no more memory.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use harness_testing::processes::{is_running, wait_until};
use harness_testing::program::CompletedRun;
use harness_testing::result;
use nix::sys::signal::{Signal, kill};

use super::{folders, on_each, wait_until_under_way};
use crate::support::Started;

#[test]
fn without_more_memory_a_run_ends_whole_or_has_no_result() {
    on_each(|driver| {
        let (folder, run) = folders();
        driver.with_server(|address| {
            let started = Started::spawn(&mut driver.call_on(&run, address));
            wait_until_under_way(&run);
            let limit = Command::new("prlimit")
                .args(["--as=1", "--pid", &started.pid.to_string()])
                .status();
            assert!(limit.unwrap().success());
            wait_until("the next second, or the end", || {
                result::live_seconds(&run).len() > 2 || !is_running(started.pid.as_raw())
            });
            // It may have ended.
            let _ = kill(started.pid, Signal::SIGTERM);
            let output = started.end();
            if output.status.code().is_some() {
                return CompletedRun::read(&output, folder.path()).result.adds_up();
            }
            // An allocation failed, or a stack could not grow.
            let signals = [Signal::SIGABRT, Signal::SIGSEGV].map(|signal| Some(signal as i32));
            assert!(
                signals.contains(&output.status.signal()),
                "{driver:?}: {output:?}"
            );
            assert!(!run.join("result.json").exists(), "{driver:?}");
        });
    });
}
