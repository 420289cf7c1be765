//! Other processes.

use std::fmt::Display;
use std::fs;
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

/// Returns the child processes of all threads of a process.
#[must_use]
pub fn children(pid: impl Display) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let lists = threads.map(|thread| fs::read_to_string(thread.path().join("children")));
    // A thread may have ended in between.
    let lists: Vec<String> = lists.map(Result::unwrap_or_default).collect();
    let pids = lists.iter().flat_map(|list| list.split_whitespace());
    pids.map(|pid| pid.parse().expect("the kernel lists numbers"))
        .collect()
}
