//! The client's socket: non-blocking writes, writes with a timeout, and detection of a client that left.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};
use tokio::io::unix::AsyncFd;

use crate::failure::StreamFailure;

/// Sends as much as the socket accepts at once. Uses `MSG_DONTWAIT` and not `O_NONBLOCK`, because that flag belongs to
/// the open file description, which the client's previous owner shares.
pub(crate) fn send_now(client: &OwnedFd, bytes: &[u8]) -> Result<usize, StreamFailure> {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    match send(client.as_raw_fd(), bytes, flags) {
        Ok(sent) => Ok(sent),
        Err(Errno::EAGAIN | Errno::EINTR) => Ok(0),
        Err(errno) => Err(errno.into()),
    }
}

/// Writes all of `left`, waiting for the client. When it is dropped or fails, `left` is what was not sent.
pub(crate) async fn write_all(
    client: &AsyncFd<OwnedFd>,
    left: &mut &[u8],
) -> Result<(), StreamFailure> {
    while !left.is_empty() {
        match send_now(client.get_ref(), left)? {
            // Cleared before the next try, so that no readiness is missed meanwhile.
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

/// Waits until the client has closed its end, or at least will send nothing more: over TCP the two look the same.
/// Received data is left unread.
pub(crate) async fn disconnected(client: &AsyncFd<OwnedFd>) {
    while let Ok(mut event) = client.readable().await {
        if event.ready().is_read_closed() {
            return;
        }
        event.clear_ready();
    }
}
