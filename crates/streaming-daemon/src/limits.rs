//! The limit of open files.

use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};

use anyhow::Context;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::eventfd::EventFd;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the soft limit of open files to the hard limit and returns it.
///
/// # Errors
/// The system refused, which it does not do within the hard limit.
pub fn raise_open_files() -> anyhow::Result<u64> {
    let (soft, hard) = open_files()?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
            .context("cannot raise the limit of open files to the hard limit")?;
    }
    Ok(hard)
}

/// Returns the soft and the hard limit of open files.
pub(crate) fn open_files() -> anyhow::Result<(u64, u64)> {
    getrlimit(Resource::RLIMIT_NOFILE).context("cannot read the limit of open files")
}

/// Grows this process's descriptor table for `files` descriptors in advance.
///
/// The kernel doubles a full table, and with several threads each doubling waits for an RCU grace period: the thread
/// that opens a descriptor stalls. At 1,024, 2,048, 4,096 … streams that took 8 to 17 ms, which alone was the p99 of
/// the first byte. An entry takes 8 bytes of kernel memory. A failure only loses this optimization.
pub(crate) fn preallocate_fd_table(files: u64) {
    let last = i32::try_from(files.saturating_sub(1)).unwrap_or(i32::MAX);
    let Ok(any) = EventFd::new() else { return };
    if let Ok(descriptor) = fcntl(any.as_fd(), FcntlArg::F_DUPFD_CLOEXEC(last)) {
        drop(own(descriptor));
    }
}

#[expect(unsafe_code, reason = "nix returns a duplicate as a raw descriptor")]
fn own(descriptor: i32) -> OwnedFd {
    // SAFETY: fcntl made this descriptor just now; nothing else owns it.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
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
        let (soft, _) = open_files().unwrap();
        let wanted = (4 * table()).min(soft);
        preallocate_fd_table(wanted);
        assert!(table() >= wanted);
        // Beyond the limit it has no effect.
        preallocate_fd_table(u64::MAX);
    }
}
