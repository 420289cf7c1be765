//! A recvmsg that loses no descriptor, which nix does not offer.
#![expect(
    unsafe_code,
    reason = "descriptors enter the process here, as bare integers"
)]

use std::mem;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;

/// Space for the 253 descriptors that Linux allows in one message (SCM_MAX_FD), in words because a control message is
/// aligned to words: 16 bytes of header and 253 × 4 of descriptors, rounded up.
pub(crate) const CONTROL_WORDS: usize = 129;

/// The result of one recvmsg.
#[derive(Debug, Default)]
pub(crate) struct Message {
    /// Number of payload bytes; 0 is the end of the connection.
    pub(crate) bytes: usize,
    /// The first descriptor of the message.
    pub(crate) descriptor: Option<OwnedFd>,
    /// Number of further descriptors; they are already closed.
    pub(crate) surplus: usize,
    /// True if the record was longer than the buffer.
    pub(crate) payload_cut: bool,
    /// True if control data was lost: no space for it, or no free descriptor in this process.
    pub(crate) control_cut: bool,
}

/// Receives available data without waiting, and takes ownership of every descriptor in it.
///
/// `nix::sys::socket::recvmsg` does not list the descriptors of a message with truncated control data. The kernel has
/// opened some of them nevertheless, and they would stay open forever.
pub(crate) fn receive(
    connection: impl AsFd,
    payload: &mut [u8],
    control: &mut [u64],
) -> nix::Result<Message> {
    let mut part = libc::iovec {
        iov_base: payload.as_mut_ptr().cast(),
        iov_len: payload.len(),
    };
    // SAFETY: a msghdr of zeroes is an empty one.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = mem::size_of_val(control);
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: header points at `part` and `control`, which outlive the call and have the stated sizes.
    let bytes = unsafe { libc::recvmsg(connection.as_fd().as_raw_fd(), &raw mut header, flags) };
    let mut message = Message {
        bytes: usize::try_from(Errno::result(bytes)?).unwrap_or(0),
        payload_cut: header.msg_flags & libc::MSG_TRUNC != 0,
        control_cut: header.msg_flags & libc::MSG_CTRUNC != 0,
        ..Message::default()
    };
    // SAFETY: the kernel has filled the header of a successful recvmsg.
    unsafe { own_descriptors(&header, &mut message) };
    Ok(message)
}

/// Walks over the control messages, keeps the first descriptor and closes the others.
///
/// # Safety
/// `header` must come from a successful recvmsg, and its control buffer must be alive. Must be called once: the
/// descriptors change owners.
unsafe fn own_descriptors(header: &libc::msghdr, message: &mut Message) {
    // SAFETY: this and the other CMSG calls stay within the control buffer, as its length says.
    let mut control = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !control.is_null() {
        // SAFETY: not null, so a whole control header lies here, aligned to a word.
        let part = unsafe { &*control };
        if part.cmsg_level == libc::SOL_SOCKET && part.cmsg_type == libc::SCM_RIGHTS {
            // SAFETY: CMSG_LEN(0) only computes the size of a header.
            let bytes = part.cmsg_len - unsafe { libc::CMSG_LEN(0) } as usize;
            // SAFETY: `control` is a whole header, whose data follows it.
            let data: *const i32 = unsafe { libc::CMSG_DATA(control) }.cast();
            for index in 0..bytes / size_of::<i32>() {
                // SAFETY: the kernel wrote that many descriptors here, each new to this process.
                let descriptor = unsafe { OwnedFd::from_raw_fd(data.add(index).read_unaligned()) };
                match message.descriptor {
                    None => message.descriptor = Some(descriptor),
                    Some(_) => message.surplus += 1,
                }
            }
        }
        // SAFETY: as CMSG_FIRSTHDR; `control` is a message of the same header.
        control = unsafe { libc::CMSG_NXTHDR(header, control) };
    }
}

#[cfg(test)]
mod tests {
    use std::io::{IoSlice, Read};
    use std::os::unix::net::UnixStream;

    use nix::sys::socket::{AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType};
    use nix::sys::socket::{sendmsg, socketpair};

    use super::*;

    fn pass(descriptors: usize, control_words: usize) -> (Message, Vec<UnixStream>) {
        let kind = SockType::SeqPacket;
        let (ours, theirs) =
            socketpair(AddressFamily::Unix, kind, None, SockFlag::SOCK_CLOEXEC).unwrap();
        let pairs: Vec<_> = (0..descriptors)
            .map(|_| UnixStream::pair().unwrap())
            .collect();
        let passed: Vec<_> = pairs.iter().map(|pair| pair.0.as_raw_fd()).collect();
        sendmsg::<()>(
            ours.as_raw_fd(),
            &[IoSlice::new(b"payload")],
            &[ControlMessage::ScmRights(&passed)],
            MsgFlags::empty(),
            None,
        )
        .unwrap();
        let kept = pairs.into_iter().map(|pair| pair.1).collect();
        let mut control = vec![0; control_words];
        (receive(&theirs, &mut [0; 64], &mut control).unwrap(), kept)
    }

    fn is_closed(mut client: &UnixStream) -> bool {
        client.set_nonblocking(true).unwrap();
        matches!(client.read(&mut [0]), Ok(0))
    }

    #[test]
    fn of_the_most_descriptors_that_fit_the_first_is_kept_and_the_rest_are_closed() {
        let (message, clients) = pass(253, CONTROL_WORDS);
        assert_eq!((message.bytes, message.surplus), (7, 252));
        assert!(!message.control_cut);
        assert!(!is_closed(&clients[0]));
        assert!(clients[1..].iter().all(is_closed));
        drop(message);
        assert!(is_closed(&clients[0]));
    }

    #[test]
    fn cut_control_data_is_reported_and_what_did_arrive_is_closed_with_the_message() {
        let (message, clients) = pass(5, 4);
        assert!(message.control_cut);
        assert_eq!(message.surplus, 3);
        drop(message);
        assert!(clients.iter().all(is_closed));
    }

    #[test]
    fn received_descriptors_are_closed_on_exec() {
        let (message, _clients) = pass(1, CONTROL_WORDS);
        let flags = nix::fcntl::fcntl(message.descriptor.unwrap(), nix::fcntl::FcntlArg::F_GETFD);
        assert_eq!(flags.unwrap() & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
    }
}
