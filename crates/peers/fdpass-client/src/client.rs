//! Single clients, outside the hot loop: hands them over, and reads with deadlines.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::time::Duration;

use anyhow::{Context as _, bail};
use load::clock;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::read;

use crate::handoff::{ClientKind, Clients, pass};

/// Bytes per read.
const PIECE: usize = 64 * 1024;

/// A reason why nothing was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// The deadline has passed.
    #[error("nothing more came in time")]
    TimeOver,
    /// A system call failed.
    #[error("reading: {0}")]
    System(#[from] Errno),
}

/// Returns the instant that is `duration` from now, in nanoseconds of the clock.
pub fn after(duration: Duration) -> u64 {
    clock::now().saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// Creates a client and hands it over; returns our end.
pub fn hand_over(handoff: &OwnedFd, kind: ClientKind, payload: &[u8]) -> anyhow::Result<OwnedFd> {
    let client = Clients::new(kind)?.open();
    let (ours, theirs) = client.context("creating a client")?;
    pass(handoff, payload, theirs.as_raw_fd()).context("handing over a client")?;
    Ok(ours)
}

/// Reads the next bytes of a socket or pipe; none at the end.
pub fn read_some(descriptor: &OwnedFd, until: u64) -> Result<Vec<u8>, Unread> {
    loop {
        // Rounded up, so that it does not give up too early.
        let left_ms = until.saturating_sub(clock::now()).div_ceil(1_000_000);
        let timeout = PollTimeout::try_from(left_ms).unwrap_or(PollTimeout::MAX);
        let mut polled = [PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, timeout) {
            Ok(0) if clock::now() >= until => return Err(Unread::TimeOver),
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => {
                let mut piece = vec![0; PIECE];
                let length = read(descriptor, &mut piece)?;
                piece.truncate(length);
                return Ok(piece);
            }
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Reads a whole answer, up to its end. Each piece moves the deadline as `prolong` does. The error shows how far it
/// came.
pub fn read_to_end(
    descriptor: &OwnedFd,
    until: &mut u64,
    prolong: impl Fn(&mut u64),
) -> anyhow::Result<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        match read_some(descriptor, *until) {
            Ok(piece) if piece.is_empty() => return Ok(all),
            Ok(piece) => {
                all.extend(piece);
                prolong(until);
            }
            Err(unread) if all.is_empty() => {
                bail!("the client received neither an answer nor its end: {unread}")
            }
            Err(unread) => bail!(
                "the answer has no end: {unread} after {} bytes, which end in \"{}\"",
                all.len(),
                all[all.len().saturating_sub(80)..].escape_ascii()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn everything_is_read_up_to_the_end_and_a_silent_peer_is_given_up() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let ours = OwnedFd::from(ours);
        theirs.write_all(b"abc").unwrap();
        let given_up = read_to_end(&ours, &mut (clock::now() + 1_000_000), |_| {}).unwrap_err();
        assert_eq!(
            given_up.to_string(),
            "the answer has no end: nothing more came in time after 3 bytes, which end in \"abc\""
        );
        theirs.write_all(b"def").unwrap();
        drop(theirs);
        let mut far = after(Duration::from_secs(60));
        assert_eq!(read_to_end(&ours, &mut far, |_| {}).unwrap(), b"def");
    }
}
