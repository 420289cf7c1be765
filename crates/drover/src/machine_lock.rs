//! Allows one suite at a time on a machine, because two suites distort each other's figures.
//!
//! The lock is a listening socket in the abstract namespace. It has no file that could stay behind, disappears with
//! its process however that ends, and reveals the process and the user of its owner to anyone who connects. Every user
//! may take any name there, so that there are several names. Only processes of the caller and of root prevent a suite
//! from starting; a lock of another user is only reported.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, UnixCredentials, connect, getsockopt, socket,
    sockopt::PeerCredentials,
};
use nix::unistd::geteuid;

const NAME: &str = "drover-suite";
/// Number of names. As many other users may hold one each before a suite starts without a lock.
const NAMES: usize = 32;
/// Number of attempts on a name that is taken and has no owner: its process is between taking it and listening.
const ATTEMPTS: u32 = 20;
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// The lock, held for as long as a suite runs.
#[derive(Debug)]
pub(crate) struct MachineLock {
    /// Absent if other users hold all names.
    listener: Option<UnixListener>,
    /// Possible disturbances that do not prevent the suite from starting.
    pub(crate) notes: Vec<String>,
}

/// An error: another suite holds the lock.
#[derive(Debug, thiserror::Error)]
#[error(
    "another drover run is active on this machine (pid {pid}{command}): two suites at once disturb each other's figures\n  \
     wait until it has ended, or add --force to run anyway"
)]
pub(crate) struct Busy {
    pid: i32,
    /// Its command line with a colon before it, if it can be read.
    command: String,
}

impl Busy {
    fn new(pid: i32) -> Self {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        let command = match words.trim() {
            "" => String::new(),
            words => format!(": {words}"),
        };
        Self { pid, command }
    }
}

impl MachineLock {
    /// Takes the lock of this machine.
    ///
    /// # Errors
    /// [`Busy`] if another suite of this user, or of root, holds it.
    pub(crate) fn acquire() -> anyhow::Result<Self> {
        let own = geteuid().as_raw();
        Self::take_name(NAME, |user| user == own || user == 0)
    }

    /// Takes the lock. Only processes of users that `counts` accepts keep others out.
    fn take_name(name: &str, counts: impl Fn(u32) -> bool) -> anyhow::Result<Self> {
        let names = (0..NAMES).map(|number| format!("{name}-{number}"));
        let mut lock = Self {
            listener: None,
            notes: Vec::new(),
        };
        // All names are checked: a lower one may have become free since the owner of a higher one began.
        for name in names {
            let owner = match lock.listener {
                Some(_) => owner(&name)?,
                None => match take(&name)? {
                    Taken::Free(listener) => {
                        lock.listener = Some(listener);
                        continue;
                    }
                    Taken::By(owner) => owner,
                },
            };
            match owner {
                Some(owner) if counts(owner.uid()) => return Err(Busy::new(owner.pid()).into()),
                Some(owner) => lock.notes.push(format!(
                    "User {} also holds a suite lock (pid {}): if it runs a suite, the two disturb each other's figures.",
                    owner.uid(),
                    owner.pid()
                )),
                None => {}
            }
        }
        Ok(lock)
    }
}

#[derive(Debug)]
enum Taken {
    Free(UnixListener),
    /// Absent if the owner does not listen.
    By(Option<UnixCredentials>),
}

fn take(name: &str) -> io::Result<Taken> {
    let address = SocketAddr::from_abstract_name(name)?;
    for _ in 0..ATTEMPTS {
        match UnixListener::bind_addr(&address) {
            Ok(listener) => return Ok(Taken::Free(listener)),
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => return Err(error),
            Err(_) => {}
        }
        let owner = owner(name)?;
        if owner.is_some() {
            return Ok(Taken::By(owner));
        }
        std::thread::sleep(RETRY_INTERVAL);
    }
    Ok(Taken::By(None))
}

/// Returns the process that listens on a name. It never waits: a queue that another user has filled counts as absent.
fn owner(name: &str) -> io::Result<Option<UnixCredentials>> {
    let kind = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let stream: OwnedFd = socket(AddressFamily::Unix, SockType::Stream, kind, None)?;
    let address = UnixAddr::new_abstract(name.as_bytes())?;
    let connected = connect(stream.as_raw_fd(), &address);
    Ok(connected
        .ok()
        .and_then(|()| getsockopt(&stream, PeerCredentials).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_gets_the_pid_of_the_first_until_that_has_ended() {
        let name = format!("drover-test-{}", std::process::id());
        let lock = || MachineLock::take_name(&name, |user| user == geteuid().as_raw());
        let first = lock().unwrap();
        let error = lock().unwrap_err().to_string();
        assert!(
            error.contains(&format!("(pid {}: ", std::process::id())) && error.contains("--force"),
            "{error}"
        );
        drop(first);
        assert_eq!(lock().unwrap().notes, Vec::<String>::new());
    }

    #[test]
    fn another_user_holds_nobody_up_and_is_noted() {
        let name = format!("drover-others-{}", std::process::id());
        // Stands in for another user who owns all of these.
        let of_others = |_| false;
        let others: Vec<MachineLock> = (0..3)
            .map(|_| MachineLock::take_name(&name, of_others).unwrap())
            .collect();
        let lock = MachineLock::take_name(&name, of_others).unwrap();
        assert!(lock.listener.is_some());
        assert_eq!(lock.notes.len(), others.len());
        let pid = format!("pid {}", std::process::id());
        assert!(lock.notes[0].contains(&pid), "{:?}", lock.notes);
        // A lock that is no higher than the others is found once they have left.
        drop(others);
        MachineLock::take_name(&name, |_| true).unwrap_err();
    }

    #[test]
    fn where_others_hold_every_name_the_suite_begins_without_a_lock() {
        let name = format!("drover-all-{}", std::process::id());
        let held: Vec<UnixListener> = (0..NAMES)
            .map(|number| {
                let name = format!("{name}-{number}");
                UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap()
            })
            .collect();
        let lock = MachineLock::take_name(&name, |_| false).unwrap();
        assert!(lock.listener.is_none());
        assert_eq!(lock.notes.len(), held.len());
    }
}
