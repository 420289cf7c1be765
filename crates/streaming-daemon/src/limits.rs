//! The limit of open files.

use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};

use anyhow::Context;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::eventfd::EventFd;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the soft limit of open files to the hard one and returns it.
///
/// # Errors
/// When the system refuses, which it does not within the hard limit.
pub fn raise_open_files() -> anyhow::Result<u64> {
    let (soft, hard) = open_files()?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
            .context("raising the limit of open files to the hard limit")?;
    }
    Ok(hard)
}

/// The soft and the hard limit of open files.
pub(crate) fn open_files() -> anyhow::Result<(u64, u64)> {
    getrlimit(Resource::RLIMIT_NOFILE).context("reading the limit of open files")
}

/// Has the kernel make room for `files` descriptors in this process's table now.
///
/// It doubles a table that is full, and with several threads each doubling waits for a grace period of RCU: the thread
/// that opens stands still. At 1,024, 2,048, 4,096 … streams that was 8 to 17 ms, which alone was the p99 of the first
/// byte. An entry takes 8 bytes of the kernel's memory. Where it fails, only this is lost.
pub(crate) fn make_room(files: u64) {
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

    /// The size of this process's table of descriptors (proc(5), `FDSize`).
    fn table() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let size = status.lines().find_map(|line| line.strip_prefix("FDSize:"));
        size.unwrap().trim().parse().unwrap()
    }

    #[test]
    fn the_table_of_descriptors_has_room_before_they_come() {
        let (soft, _) = open_files().unwrap();
        let wanted = (4 * table()).min(soft);
        make_room(wanted);
        assert!(table() >= wanted);
        // Beyond the limit nothing happens.
        make_room(u64::MAX);
    }
}
