//! The limit of open files.

use std::fmt::Display;
use std::process::Command;

/// Sets the soft limit of open files of a running process.
///
/// # Panics
/// The process has ended, or its hard limit is lower.
#[track_caller]
pub fn limit_open_files(pid: impl Display, files: u64) {
    let mut prlimit = Command::new("prlimit");
    prlimit.args([format!("--pid={pid}"), format!("--nofile={files}:")]);
    assert!(
        prlimit.status().is_ok_and(|status| status.success()),
        "{prlimit:?}"
    );
}
