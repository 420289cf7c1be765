//! The stop signal of a process for its workers, whatever loop they run.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use daemon_kit::watch;
use nix::sys::eventfd::{EfdFlags, EventFd};
use tokio::io::Interest;

/// A descriptor that becomes readable when the process is asked to stop. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Stop(Arc<EventFd>);

impl Stop {
    pub(crate) fn new() -> nix::Result<Self> {
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Self(Arc::new(event)))
    }

    pub(crate) fn request(&self) {
        // A write only fails if the counter would overflow, and then the descriptor is readable too.
        let _ = self.0.write(1);
    }

    /// Waits until a stop was requested. Needs a runtime with I/O; may be dropped.
    pub(crate) async fn requested(&self) -> io::Result<()> {
        let descriptor: OwnedFd = self.as_fd().try_clone_to_owned()?;
        watch(descriptor, Interest::READABLE)?
            .readable()
            .await?
            .retain_ready();
        Ok(())
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
