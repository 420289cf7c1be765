//! The client's socket: non-blocking writes, writes with a timeout, detection of a client that left, and a close that
//! loses nothing.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use daemon_kit::watch;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, Shutdown, recv, send, shutdown};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Semaphore;
use tokio::time::timeout;

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

/// Time for a client to read the end of its response and to close.
const LINGER: Duration = Duration::from_secs(2);

/// Returns true if the client has sent data that nobody has read. A close would then be a reset, with which the client
/// may lose the end of its response.
pub(crate) fn has_unread(client: &OwnedFd) -> bool {
    let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
    recv(client.as_raw_fd(), &mut [0], flags).is_ok_and(|length| length > 0)
}

/// Shuts down the sending side, and closes when the client has closed or its time is over. Received data is dropped.
/// Without a permit it closes at once.
pub(crate) async fn linger(client: OwnedFd, permits: &Semaphore) {
    let Ok(_permit) = permits.try_acquire() else {
        return;
    };
    let _ = shutdown(client.as_raw_fd(), Shutdown::Write);
    if let Ok(client) = watch(client, Interest::READABLE) {
        let _ = timeout(LINGER, read_to_end(&client)).await;
    }
}

async fn read_to_end(client: &AsyncFd<OwnedFd>) {
    let mut dropped = [0; 4096];
    while let Ok(mut event) = client.readable().await {
        match recv(client.as_raw_fd(), &mut dropped, MsgFlags::MSG_DONTWAIT) {
            Ok(1..) => {}
            Err(Errno::EAGAIN) => event.clear_ready(),
            Ok(0) | Err(_) => return,
        }
    }
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
