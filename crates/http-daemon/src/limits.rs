//! The limit of open files.

use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};

use anyhow::Context as _;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::eventfd::EventFd;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Descriptors reserved for other purposes than connections: the standard ones, listeners, runtimes, files that are
/// being read, scrapers.
const RESERVED: u64 = 128;

/// Raises the soft limit of open files to the hard limit; returns the number of connections that it allows.
pub(crate) fn raise_open_files() -> anyhow::Result<u64> {
    let (soft, hard) =
        getrlimit(Resource::RLIMIT_NOFILE).context("reading the limit of open files")?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
            .context("raising the limit of open files to the hard limit")?;
    }
    Ok(hard.saturating_sub(RESERVED).max(1))
}

/// Grows this process's descriptor table for this many connections in advance.
///
/// The kernel doubles a full table, and with several threads each doubling waits for an RCU grace period: the accepting
/// thread stalls for 8 to 17 ms. An entry takes 8 bytes of kernel memory. A failure only loses this optimization.
pub(crate) fn preallocate_fd_table(connections: u64) {
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
