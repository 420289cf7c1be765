//! System limits: open files and memory.

use std::fs;

use anyhow::Context;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the soft limit of open files to the hard limit and returns it.
///
/// # Errors
/// The system refuses, which it does not within the hard limit.
pub fn raise_open_files() -> anyhow::Result<u64> {
    let (soft, hard) =
        getrlimit(Resource::RLIMIT_NOFILE).context("cannot read the limit of open files")?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
            .context("cannot raise the limit of open files to the hard limit")?;
    }
    Ok(hard)
}

/// Returns how many files this process may have open.
pub(crate) fn open_files() -> usize {
    getrlimit(Resource::RLIMIT_NOFILE)
        .ok()
        .and_then(|(soft, _)| usize::try_from(soft).ok())
        .unwrap_or(usize::MAX)
}

/// Returns the bytes of memory that this process may use: the machine's, or its control group's if that is less.
pub(crate) fn memory() -> Option<usize> {
    let machine = fs::read_to_string("/proc/meminfo").ok()?;
    let machine = machine
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let machine: usize = machine.trim().strip_suffix(" kB")?.parse().ok()?;
    let machine = machine * 1024;
    let group = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let group = group.and_then(|text| text.trim().parse().ok());
    Some(group.map_or(machine, |group: usize| group.min(machine)))
}
