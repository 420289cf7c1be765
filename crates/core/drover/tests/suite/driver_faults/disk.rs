//! Disks below the results that are full, fail or stand still.

use std::fs;
use std::path::Path;

use harness_testing::processes::wait_until;
use harness_testing::program::{CompletedRun, ended_with};
use harness_testing::skip;
use nix::unistd::Pid;

use super::{
    Mount, by, can_trace, folders, is_saved_elsewhere, is_undisturbed, on_each, succeeds,
    wait_until_under_way,
};
use crate::support::{Started, shown};

#[test]
fn full_disk_costs_no_result() {
    on_each(|driver| {
        let (folder, run) = folders();
        let elsewhere = tempfile::tempdir().unwrap();
        let tmpfs = ["-t", "tmpfs", "-o", "size=8k", "none"];
        let Some(_mount) = Mount::create(&tmpfs, folder.path()) else {
            return;
        };
        driver.with_server(|address| {
            let mut call = driver.short_call_on(&run, address);
            let output = call.env("TMPDIR", elsewhere.path()).output().unwrap();
            is_saved_elsewhere(driver, &output, elsewhere.path(), "No space left");
            // Without any space, nothing begins.
            fs::write(folder.path().join("rest"), [0; 8192]).unwrap_err();
            let mut call = driver.short_call_on(&folder.path().join("next"), address);
            let words = ["can't write to", "free space there", "No space left"];
            ended_with(&call.output().unwrap(), 1, &words, driver);
        });
    });
}

/// A limit for the size of files (`ulimit -f`) holds everywhere: only the report has the result.
#[test]
fn limit_of_file_sizes_is_an_error_with_the_report() {
    on_each(|driver| {
        let (_folder, run) = folders();
        driver.with_server(|address| {
            let call = driver.short_call_on(&run, address);
            let output = by(["prlimit", "--fsize=8192"], &call).output().unwrap();
            let words = ["only the report shows it", "File too large"];
            ended_with(&output, 1, &words, driver);
            assert!(
                shown(&output).contains(&driver.name()),
                "{}",
                shown(&output)
            );
        });
    });
}

#[test]
fn failing_disk_costs_no_result() {
    if !can_trace() {
        return;
    }
    on_each(|driver| {
        let (_folder, run) = folders();
        let elsewhere = tempfile::tempdir().unwrap();
        let strace = "strace -f -qq -o /dev/null -e trace=fsync -e inject=fsync:error=EIO:when=1";
        // Issue-stress has synced the folder before the load, to time it.
        driver.with_server(|address| {
            let call = driver.short_call_on(&run, address);
            let output = by(strace.split(' '), &call)
                .env("TMPDIR", elsewhere.path())
                .output()
                .unwrap();
            is_saved_elsewhere(driver, &output, elsewhere.path(), "Input/output error");
        });
    });
}

/// A disk on which nobody can write. It is thawed at the end, without which its writers could not be killed.
struct Frozen<'a>(&'a Path);

impl<'a> Frozen<'a> {
    fn freeze(path: &'a Path) -> Self {
        assert!(succeeds("fsfreeze", &["-f", path.to_str().unwrap()]));
        Self(path)
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        succeeds("fsfreeze", &["-u", self.0.to_str().unwrap()]);
    }
}

/// Returns true while a process has a thread that drives load.
fn has_workers(pid: Pid) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let mut names = threads.flat_map(|thread| fs::read_to_string(thread.path().join("comm")));
    names.any(|name| name.starts_with("worker-"))
}

#[test]
fn disk_that_stands_still_delays_no_operation_and_costs_no_result() {
    on_each(|driver| {
        let (folder, run) = folders();
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(16 << 20).unwrap();
        let path = image.path().to_str().unwrap();
        if !succeeds("mkfs.ext4", &["-q", path]) {
            return skip("mkfs.ext4, of the package e2fsprogs");
        }
        let Some(_mount) = Mount::create(&["-o", "loop", path], folder.path()) else {
            return;
        };
        driver.with_server(|address| {
            let started = Started::spawn(&mut driver.short_call_on(&run, address));
            wait_until_under_way(&run);
            let frozen = Frozen::freeze(folder.path());
            wait_until("the load has ended", || !has_workers(started.pid));
            drop(frozen);
            is_undisturbed(driver, &CompletedRun::read(&started.end(), folder.path()));
        });
    });
}
