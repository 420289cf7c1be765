//! A daemon's end of handoffs: sockets of either type, and the descriptors that come over them.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, accept_with, recvmsg,
};

/// Listens on a path that is not there yet.
pub(crate) fn listening(path: &Path, kind: SockType, flags: SockFlag) -> OwnedFd {
    let flags = flags | SockFlag::SOCK_CLOEXEC;
    let listener = socket(AddressFamily::Unix, kind, flags, None).unwrap();
    bind(listener.as_raw_fd(), &UnixAddr::new(path).unwrap()).unwrap();
    listen(&listener, Backlog::MAXCONN).unwrap();
    listener
}

/// Returns the next connection; `None` if the listener does not block and none waits.
pub(crate) fn accepted(listener: &OwnedFd) -> Option<OwnedFd> {
    accept_with(listener, SocketFlags::CLOEXEC).ok()
}

/// Returns the payload and every descriptor.
pub(crate) fn received(connection: &OwnedFd) -> (Vec<u8>, Vec<OwnedFd>) {
    let mut payload = vec![0; 256 * 1024];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let pieces = &mut [IoSliceMut::new(&mut payload)];
    let message = recvmsg(connection, pieces, &mut control, RecvFlags::CMSG_CLOEXEC);
    payload.truncate(message.map_or(0, |message| message.bytes));
    let mut clients = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            clients.extend(descriptors);
        }
    }
    (payload, clients)
}
