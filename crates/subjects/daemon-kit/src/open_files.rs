//! The limit of open files, and the descriptor table of the process.

use anyhow::Context as _;
use nix::sys::eventfd::EventFd;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::descriptor::duplicate_above;

/// Returns the soft limit: the number of files that this process may have open now.
///
/// # Errors
/// The system call fails.
pub fn limit() -> anyhow::Result<u64> {
    Ok(limits()?.0)
}

/// Raises the soft limit to the hard limit and returns it.
///
/// # Errors
/// The system refuses, which it does not do within the hard limit.
pub fn raise_limit() -> anyhow::Result<u64> {
    let (soft, hard) = limits()?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
            .context("cannot raise the limit of open files to the hard limit")?;
    }
    Ok(hard)
}

fn limits() -> anyhow::Result<(u64, u64)> {
    getrlimit(Resource::RLIMIT_NOFILE).context("cannot read the limit of open files")
}

/// Grows this process's descriptor table for `files` descriptors in advance.
///
/// The kernel doubles a full table, and with several threads each doubling waits for an RCU grace period: the thread
/// that opens a descriptor stalls. At 1,024, 2,048, 4,096 … streams that took 8 to 17 ms, which alone was the p99 of
/// the first byte. An entry takes 8 bytes of kernel memory. A failure only loses this optimization.
pub fn preallocate_table(files: u64) {
    let last = i32::try_from(files.saturating_sub(1)).unwrap_or(i32::MAX);
    let Ok(any) = EventFd::new() else { return };
    // The kernel grows the table for it, and does not shrink it again.
    drop(duplicate_above(any, last));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the size of this process's descriptor table (proc(5), `FDSize`).
    fn table() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let size = status.lines().find_map(|line| line.strip_prefix("FDSize:"));
        size.unwrap().trim().parse().unwrap()
    }

    #[test]
    fn the_table_of_descriptors_has_room_before_they_come() {
        let soft = limit().unwrap();
        let wanted = (4 * table()).min(soft);
        preallocate_table(wanted);
        assert!(table() >= wanted);
        // Beyond the limit it has no effect.
        preallocate_table(u64::MAX);
    }

    #[test]
    fn the_raised_limit_is_the_hard_limit() {
        let raised = raise_limit().unwrap();
        assert_eq!(limits().unwrap(), (raised, raised));
    }
}
