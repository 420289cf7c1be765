//! Socket activation: a listening socket passed to the process at start, as sd_listen_fds(3) describes it.
//!
//! `LISTEN_PID` names the process that the sockets are for, `LISTEN_FDS` their number. They are the descriptors from 3
//! on. The daemon's socket is the first of them.
#![expect(
    unsafe_code,
    reason = "descriptors that a process is started with are bare integers"
)]

use std::env;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::process;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::socket::{SockType, UnixAddr, getsockname, getsockopt, sockopt};

/// The first passed descriptor: SD_LISTEN_FDS_START.
const FIRST: RawFd = 3;
const PID: &str = "LISTEN_PID";
const COUNT: &str = "LISTEN_FDS";

/// A listening Unix socket that was passed to the process.
#[derive(Debug)]
pub struct PassedSocket {
    /// The socket.
    pub socket: OwnedFd,
    /// Its type: `SOCK_STREAM` or `SOCK_SEQPACKET`.
    pub kind: SockType,
}

impl PassedSocket {
    /// Checks that a descriptor is a listening Unix socket of either type.
    ///
    /// # Errors
    /// The kind of descriptor that it is instead, and the remedy.
    pub fn new(socket: OwnedFd) -> Result<Self, String> {
        let wrong = |what: &str| {
            Err(format!(
                "{COUNT}: the passed descriptor {what}: pass a listening Unix socket of type \
                seqpacket or stream, or unset {COUNT} to create one"
            ))
        };
        let kind = match getsockopt(&socket, sockopt::SockType) {
            Ok(kind @ (SockType::SeqPacket | SockType::Stream)) => kind,
            Ok(other) => return wrong(&format!("is a socket of type {other:?}")),
            Err(_) => return wrong("is not a socket"),
        };
        if getsockname::<UnixAddr>(socket.as_raw_fd()).is_err() {
            return wrong("is not a Unix socket");
        }
        if !getsockopt(&socket, sockopt::AcceptConn).unwrap_or(false) {
            return wrong("is not listening");
        }
        Ok(Self { socket, kind })
    }
}

/// Returns the listening socket that was passed to this process; `None` if there is none. Further sockets are closed.
///
/// Must be called once, before anything else opens a descriptor: the numbers are trusted.
///
/// # Errors
/// An invalid variable or descriptor, and the remedy.
pub fn passed_socket() -> Result<Option<PassedSocket>, String> {
    let count = passed(|name| env::var(name).ok(), process::id())?;
    let sockets = (FIRST..).take(count).map(own);
    let sockets: Vec<OwnedFd> = sockets.collect::<Result<_, _>>()?;
    let first = sockets.into_iter().next();
    first.map(PassedSocket::new).transpose()
}

/// Returns the number of descriptors that were passed to the process `own_pid`.
///
/// Variables for another process are not an error: a child inherits its parent's.
fn passed(variable: impl Fn(&str) -> Option<String>, own_pid: u32) -> Result<usize, String> {
    let (Some(pid), Some(count)) = (variable(PID), variable(COUNT)) else {
        return Ok(0);
    };
    let pid: u32 = pid.parse().map_err(|_| {
        format!(
            "{PID} is `{pid}`: set it to the id of this process, or unset it to create a socket"
        )
    })?;
    if pid != own_pid {
        return Ok(0);
    }
    match count.parse() {
        Ok(count @ 1..) => Ok(count),
        _ => Err(format!(
            "{COUNT} is `{count}`: set it to the number of passed sockets, which is 1, or unset it to create a socket"
        )),
    }
}

/// Takes ownership of the descriptor `number`, and marks it close-on-exec.
fn own(number: RawFd) -> Result<OwnedFd, String> {
    // SAFETY: the number is used to ask whether it is open, and dropped.
    let looked_at = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl(looked_at, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).map_err(|errno| {
        format!(
            "{COUNT} promises descriptor {number}, which cannot be used ({errno}): pass the \
            listening socket as descriptor {FIRST}, or unset {COUNT}"
        )
    })?;
    // SAFETY: it is open, and by the protocol it is this function's: whoever started the process
    // opened it, and nothing in the process has opened a descriptor before.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::net::TcpListener;
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

    use super::*;

    fn count(pid: Option<&str>, count: Option<&str>) -> Result<usize, String> {
        let variable = |name: &str| match name {
            PID => pid.map(str::to_owned),
            _ => count.map(str::to_owned),
        };
        passed(variable, 7)
    }

    #[test]
    fn sockets_are_passed_if_both_variables_say_so_to_this_process() {
        assert_eq!(count(Some("7"), Some("2")), Ok(2));
        assert_eq!(count(Some("8"), Some("2")), Ok(0));
        assert_eq!(count(None, Some("2")), Ok(0));
        assert_eq!(count(Some("7"), None), Ok(0));
    }

    #[test]
    fn only_a_listening_unix_socket_will_do() {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("s")).unwrap();
        let passed = PassedSocket::new(listener.into()).unwrap();
        assert_eq!(passed.kind, SockType::Stream);
        let (unconnected, _) = UnixDatagram::pair().unwrap();
        for (descriptor, word) in [
            (File::open("/dev/null").unwrap().into(), "not a socket"),
            (unconnected.into(), "Datagram"),
            (UnixStream::pair().unwrap().0.into(), "not listening"),
            (
                TcpListener::bind("127.0.0.1:0").unwrap().into(),
                "not a Unix socket",
            ),
        ] {
            let error = PassedSocket::new(descriptor).unwrap_err();
            assert!(error.contains(word) && error.contains("unset"), "{error}");
        }
    }

    #[test]
    fn wrong_values_are_named_with_the_remedy() {
        for (pid, number, name) in [
            ("me", "1", PID),
            ("", "1", PID),
            ("7", "0", COUNT),
            ("7", "-1", COUNT),
            ("7", "one", COUNT),
        ] {
            let error = count(Some(pid), Some(number)).unwrap_err();
            assert!(
                error.starts_with(name) && error.contains("unset"),
                "{error}"
            );
        }
    }
}
