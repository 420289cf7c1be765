//! Asks the kernel for sockets, as `ss` does (sock_diag(7)).

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_sock_diag::SockDiagMessage;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt, socket,
    sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike as _};

/// Size of the packets in a kernel dump.
const PACKET: usize = 32 << 10;
/// Time limit of an answer. The kernel answers within the call that asks.
const TIMEOUT_MS: i64 = 100;

/// A connection to the kernel.
#[derive(Debug)]
pub(super) struct SockDiag {
    netlink: OwnedFd,
    buffer: Vec<u8>,
}

impl SockDiag {
    /// Opens a connection.
    ///
    /// # Errors
    /// A kernel without sock_diag, or a sandbox that blocks it.
    pub(super) fn new() -> io::Result<Self> {
        let netlink = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkSockDiag,
        )?;
        setsockopt(
            &netlink,
            sockopt::ReceiveTimeout,
            &TimeVal::milliseconds(TIMEOUT_MS),
        )?;
        Ok(Self {
            netlink,
            buffer: vec![0; PACKET],
        })
    }

    /// Returns all sockets that match a request.
    ///
    /// # Errors
    /// The kernel's error.
    pub(super) fn list(&mut self, request: SockDiagMessage) -> io::Result<Vec<SockDiagMessage>> {
        self.send(request, NLM_F_DUMP)?;
        let mut found = Vec::new();
        while !self.receive(&mut found)? {}
        Ok(found)
    }

    /// Returns the one socket that a request names.
    ///
    /// # Errors
    /// The kernel's error; there may be no such socket.
    pub(super) fn one(&mut self, request: SockDiagMessage) -> io::Result<Option<SockDiagMessage>> {
        self.send(request, 0)?;
        let mut found = Vec::new();
        self.receive(&mut found)?;
        Ok(found.pop())
    }

    fn send(&mut self, request: SockDiagMessage, flags: u16) -> io::Result<()> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        let mut message = NetlinkMessage::new(header, request.into());
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        send(self.netlink.as_raw_fd(), &bytes, MsgFlags::empty())?;
        Ok(())
    }

    /// Receives one packet. Returns true if the last message of an answer is in it.
    fn receive(&mut self, found: &mut Vec<SockDiagMessage>) -> io::Result<bool> {
        let length = recv(
            self.netlink.as_raw_fd(),
            &mut self.buffer,
            MsgFlags::empty(),
        )?;
        let mut packet = &self.buffer[..length];
        while !packet.is_empty() {
            let message = NetlinkMessage::<SockDiagMessage>::deserialize(packet)
                .map_err(|error| io::Error::other(error.to_string()))?;
            match message.payload {
                NetlinkPayload::Done(_) => return Ok(true),
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                NetlinkPayload::InnerMessage(answer) => found.push(answer),
                _ => {}
            }
            // Messages begin at multiples of four (netlink(7)).
            let length = (message.header.length as usize).next_multiple_of(4);
            packet = packet.get(length.max(4)..).unwrap_or_default();
        }
        Ok(false)
    }
}
