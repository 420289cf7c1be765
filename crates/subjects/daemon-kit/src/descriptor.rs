//! Descriptors that enter the process as bare integers, and descriptors that a runtime watches.
#![expect(
    unsafe_code,
    reason = "system calls return descriptors as bare integers, which have no owner yet"
)]

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::socket::{SockFlag, accept4};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Accepts a connection that waits at a non-blocking listener. The connection is non-blocking and closed on exec.
///
/// # Errors
/// The error of the system call: EAGAIN if no connection waits.
pub fn accept_waiting(listener: impl AsFd) -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let descriptor = accept4(listener.as_fd().as_raw_fd(), flags)?;
    // SAFETY: the kernel has just made this descriptor and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Makes the runtime watch a descriptor, which it then owns. Needs a Tokio runtime with I/O.
///
/// # Errors
/// The system refuses to watch the descriptor: it is a file, or there are too many.
pub fn watch(descriptor: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd is open, and stays the same as long as the AsyncFd keeps it.
    let watched = unsafe { AsyncFd::register_with_interest(descriptor, interest) };
    watched.map_err(io::Error::from)
}

/// Duplicates a descriptor to the lowest free number from `lowest` on.
pub(crate) fn duplicate_above(descriptor: impl AsFd, lowest: i32) -> nix::Result<OwnedFd> {
    let duplicate = fcntl(descriptor.as_fd(), FcntlArg::F_DUPFD_CLOEXEC(lowest))?;
    // SAFETY: fcntl made this descriptor just now; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(duplicate) })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::{UnixListener, UnixStream};

    use nix::errno::Errno;
    use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};

    use super::*;

    #[test]
    fn an_accepted_connection_neither_blocks_nor_survives_exec() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        assert_eq!(accept_waiting(&listener).unwrap_err(), Errno::EAGAIN);
        let _client = UnixStream::connect(&path).unwrap();
        let accepted = accept_waiting(&listener).unwrap();
        let flags = |argument| fcntl(&accepted, argument).unwrap();
        assert!(OFlag::from_bits_retain(flags(FcntlArg::F_GETFL)).contains(OFlag::O_NONBLOCK));
        assert!(FdFlag::from_bits_retain(flags(FcntlArg::F_GETFD)).contains(FdFlag::FD_CLOEXEC));
    }

    #[tokio::test]
    async fn a_watched_descriptor_tells_when_it_is_readable() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let watched = watch(theirs.into(), Interest::READABLE).unwrap();
        ours.write_all(b"x").unwrap();
        watched.readable().await.unwrap().retain_ready();
    }
}
