//! The client's socket: writing at once, writing with patience, and noticing that it left.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};
use tokio::io::unix::AsyncFd;

use crate::failure::StreamFailure;

/// Sends what the socket takes at once. `MSG_DONTWAIT` and not `O_NONBLOCK`, because that flag
/// belongs to the open file, which the client's previous owner shares.
pub(crate) fn send_now(client: &OwnedFd, bytes: &[u8]) -> Result<usize, StreamFailure> {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    match send(client.as_raw_fd(), bytes, flags) {
        Ok(sent) => Ok(sent),
        Err(Errno::EAGAIN | Errno::EINTR) => Ok(0),
        Err(errno) => Err(errno.into()),
    }
}

/// Writes all of `left`, waiting for the client. Dropped or failed, it has moved `left` on to what
/// was not sent.
pub(crate) async fn write_all(
    client: &AsyncFd<OwnedFd>,
    left: &mut &[u8],
) -> Result<(), StreamFailure> {
    while !left.is_empty() {
        match send_now(client.get_ref(), left)? {
            // Cleared before the next try, so that no room that is made meanwhile is missed.
            0 => client
                .writable()
                .await
                .map_err(|_| StreamFailure::Other)?
                .clear_ready(),
            sent => *left = &left[sent..],
        }
    }
    Ok(())
}

/// Waits until the client has closed its end, or at least will send nothing more: over TCP the two
/// look the same. What it sends is left unread.
pub(crate) async fn gone(client: &AsyncFd<OwnedFd>) {
    while let Ok(mut event) = client.readable().await {
        if event.ready().is_read_closed() {
            return;
        }
        event.clear_ready();
    }
}
