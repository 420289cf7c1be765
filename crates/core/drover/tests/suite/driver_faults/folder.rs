//! Folders of results that cannot be written, or that are removed under load.

use std::fs;

use harness_testing::program::ended_with;
use nix::sys::signal::{Signal, kill};

use super::{Mount, folders, is_saved_elsewhere, on_each, wait_until_under_way};
use crate::support::Started;

#[test]
fn read_only_folder_is_refused_before_the_run() {
    on_each(|driver| {
        let (folder, run) = folders();
        let Some(_mount) = Mount::create(&["-t", "tmpfs", "-o", "ro", "none"], folder.path())
        else {
            return;
        };
        let words = [
            "--into",
            "Read-only file system",
            "name a folder that can be created",
        ];
        ended_with(&driver.call(&run).output().unwrap(), 2, &words, driver);
    });
}

#[test]
fn folder_that_is_removed_under_load_costs_no_result() {
    on_each(|driver| {
        let (folder, run) = folders();
        let elsewhere = tempfile::tempdir().unwrap();
        driver.with_server(|address| {
            let started = Started::spawn(
                driver
                    .call_on(&run, address)
                    .env("TMPDIR", elsewhere.path()),
            );
            wait_until_under_way(&run);
            fs::remove_dir_all(folder.path()).unwrap();
            kill(started.pid, Signal::SIGTERM).unwrap();
            let output = started.end();
            is_saved_elsewhere(
                driver,
                &output,
                elsewhere.path(),
                "No such file or directory",
            );
        });
    });
}
