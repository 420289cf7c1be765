//! One suite at a time on a machine: two disturb each other's figures.
//!
//! The lock is a listening socket in the abstract namespace: it has no file that could stay behind, goes with its process
//! however that ends, and tells the process and the user of its owner to whoever connects. Every user may take any name
//! there, so that there are several of them: only the caller's own processes and root's keep a suite from beginning, and
//! one of another user is remarked on.

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
/// Names that there are: as many users may hold one each before a suite begins without a lock.
const NAMES: usize = 32;
/// Looks at a name that is taken and has no owner: its process is between taking it and listening.
const LOOKS: u32 = 20;
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Held for as long as a suite runs.
#[derive(Debug)]
pub(crate) struct Alone {
    /// Absent where other users hold all names.
    listener: Option<UnixListener>,
    /// What disturbs the suite, and does not keep it from beginning.
    pub(crate) remarks: Vec<String>,
}

/// Why a suite is not alone.
#[derive(Debug, thiserror::Error)]
#[error(
    "another drover run is at work on this machine (pid {pid}): two suites at once disturb each other's figures\n  \
     wait until it has ended, or add --force to go on all the same"
)]
pub(crate) struct Busy {
    pid: i32,
}

impl Alone {
    /// Takes the machine.
    ///
    /// # Errors
    /// [`Busy`] where another suite of this user, or of root, has it.
    pub(crate) fn on_this_machine() -> anyhow::Result<Self> {
        let own = geteuid().as_raw();
        Self::by_the_name(NAME, |user| user == own || user == 0)
    }

    /// Only processes of users that `counts` keep others out.
    fn by_the_name(name: &str, counts: impl Fn(u32) -> bool) -> anyhow::Result<Self> {
        let names = (0..NAMES).map(|number| format!("{name}-{number}"));
        let mut alone = Self {
            listener: None,
            remarks: Vec::new(),
        };
        // All names are looked at: whoever held a lower one when the owner began may have left since.
        for name in names {
            let owner = match alone.listener {
                Some(_) => owner(&name)?,
                None => match take(&name)? {
                    Taken::Free(listener) => {
                        alone.listener = Some(listener);
                        continue;
                    }
                    Taken::By(owner) => owner,
                },
            };
            match owner {
                Some(owner) if counts(owner.uid()) => return Err(Busy { pid: owner.pid() }.into()),
                Some(owner) => alone.remarks.push(format!(
                    "User {} holds the lock of suites too (pid {}): if that is a suite, both disturb each other's figures.",
                    owner.uid(),
                    owner.pid()
                )),
                None => {}
            }
        }
        Ok(alone)
    }
}

#[derive(Debug)]
enum Taken {
    Free(UnixListener),
    /// Absent where the owner does not listen.
    By(Option<UnixCredentials>),
}

fn take(name: &str) -> io::Result<Taken> {
    let address = SocketAddr::from_abstract_name(name)?;
    for _ in 0..LOOKS {
        match UnixListener::bind_addr(&address) {
            Ok(listener) => return Ok(Taken::Free(listener)),
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => return Err(error),
            Err(_) => {}
        }
        let owner = owner(name)?;
        if owner.is_some() {
            return Ok(Taken::By(owner));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(Taken::By(None))
}

/// Returns who listens by a name. Waits for nobody: a queue that another user has filled is as one that is not there.
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
    fn the_second_is_told_who_the_first_is_until_that_has_ended() {
        let name = format!("drover-test-{}", std::process::id());
        let alone = || Alone::by_the_name(&name, |user| user == geteuid().as_raw());
        let first = alone().unwrap();
        let error = alone().unwrap_err().to_string();
        assert!(
            error.contains(&format!("pid {}", std::process::id())) && error.contains("--force"),
            "{error}"
        );
        drop(first);
        assert_eq!(alone().unwrap().remarks, Vec::<String>::new());
    }

    #[test]
    fn another_user_holds_nobody_up_and_is_remarked_on() {
        let name = format!("drover-others-{}", std::process::id());
        // To whom all of these belong: this user stands in for the other.
        let of_others = |_| false;
        let others: Vec<Alone> = (0..3)
            .map(|_| Alone::by_the_name(&name, of_others).unwrap())
            .collect();
        let alone = Alone::by_the_name(&name, of_others).unwrap();
        assert!(alone.listener.is_some());
        assert_eq!(alone.remarks.len(), others.len());
        let pid = format!("pid {}", std::process::id());
        assert!(alone.remarks[0].contains(&pid), "{:?}", alone.remarks);
        // One that is no higher than the others is found all the same once they have left.
        drop(others);
        Alone::by_the_name(&name, |_| true).unwrap_err();
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
        let alone = Alone::by_the_name(&name, |_| false).unwrap();
        assert!(alone.listener.is_none());
        assert_eq!(alone.remarks.len(), held.len());
    }
}
