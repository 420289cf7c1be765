//! The limit of open files.

use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};

use anyhow::Context as _;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::eventfd::EventFd;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Descriptors that are kept for other things than connections: the standard ones, listeners, runtimes, files that are
/// being read, scrapers.
const RESERVED: u64 = 128;

/// Raises the soft limit of open files to the hard one, and says how many connections it leaves room for.
pub(crate) fn room() -> anyhow::Result<u64> {
    let (soft, hard) =
        getrlimit(Resource::RLIMIT_NOFILE).context("reading the limit of open files")?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
            .context("raising the limit of open files to the hard limit")?;
    }
    Ok(hard.saturating_sub(RESERVED).max(1))
}

/// Has the kernel make room for so many connections in this process's table of descriptors now.
///
/// It doubles a table that is full, and with several threads each doubling waits for a grace period of RCU: the thread
/// that accepts stands still for 8 to 17 ms. An entry takes 8 bytes of the kernel's memory. Where it fails, only this
/// is lost.
pub(crate) fn make_room(connections: u64) {
    let last = i32::try_from(connections).unwrap_or(i32::MAX);
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
