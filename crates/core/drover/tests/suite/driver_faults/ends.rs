//! Drivers that are asked to end, or are killed, under load.

use std::path::Path;

use harness_testing::processes::{children, is_running, wait_until};
use harness_testing::program::CompletedRun;
use nix::sys::signal::{Signal, kill};

use super::{Driver, folders, on_each, wait_until_under_way};
use crate::support::Started;

/// Starts a run that launches its daemon, and ends it under load by a signal. Returns once none of its processes is
/// left.
fn end_by(signal: Signal, driver: &Driver, run: &Path, temporary: &Path) -> std::process::Output {
    // An earlier run that was killed has left its seconds.
    let _ = std::fs::remove_file(run.join("live.jsonl"));
    let started = Started::spawn(driver.call(run).env("TMPDIR", temporary));
    wait_until_under_way(run);
    let mut pids = children(started.pid);
    let mut index = 0;
    while index < pids.len() {
        pids.extend(children(pids[index]));
        index += 1;
    }
    assert!(!pids.is_empty(), "{driver:?} has launched nothing");
    kill(started.pid, signal).unwrap();
    let output = started.end();
    wait_until("nothing is left", || {
        let is_empty = std::fs::read_dir(temporary).unwrap().next().is_none();
        is_empty && !pids.iter().any(|pid| is_running(*pid))
    });
    output
}

#[test]
fn sigterm_leaves_a_result_and_no_process() {
    on_each(|driver| {
        let (folder, run) = folders();
        let temporary = tempfile::tempdir().unwrap();
        let output = end_by(Signal::SIGTERM, driver, &run, temporary.path());
        let ran = CompletedRun::read(&output, folder.path());
        assert_eq!(ran.code, 3, "{driver:?}: {}", ran.stderr);
        assert!(ran.result.warning("Interrupted").is_some(), "{driver:?}");
        assert!(ran.result.operations("ok") > 0, "{driver:?}");
        ran.result.adds_up();
    });
}

#[test]
fn sigkill_leaves_no_process_and_the_next_run_takes_the_folder() {
    on_each(|driver| {
        let (folder, run) = folders();
        let temporary = tempfile::tempdir().unwrap();
        end_by(Signal::SIGKILL, driver, &run, temporary.path());
        assert!(!run.join("result.json").exists(), "{driver:?}");
        let output = end_by(Signal::SIGTERM, driver, &run, temporary.path());
        let ran = CompletedRun::read(&output, folder.path());
        assert_eq!(ran.code, 3, "{driver:?}: {}", ran.stderr);
    });
}
