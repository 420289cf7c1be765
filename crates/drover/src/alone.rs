//! One suite at a time on a machine: two disturb each other's figures.
//!
//! The lock is a listening socket in the abstract namespace: it has no file that could stay behind, goes with its process
//! however that ends, holds across users, and tells the process id of its owner to whoever connects.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

const NAME: &str = "drover-suite";

/// Held for as long as a suite runs.
#[derive(Debug)]
pub(crate) struct Alone {
    _listener: UnixListener,
}

/// Why a suite is not alone.
#[derive(Debug, thiserror::Error)]
#[error(
    "another drover run is at work on this machine ({}): two suites at once disturb each other's figures\n  \
     wait until it has ended, or add --force to go on all the same", .pid.map_or("its pid is not known".to_owned(), |pid| format!("pid {pid}"))
)]
pub(crate) struct Busy {
    pid: Option<i32>,
}

impl Alone {
    /// Takes the machine.
    ///
    /// # Errors
    /// [`Busy`] where another suite has it.
    pub(crate) fn on_this_machine() -> anyhow::Result<Self> {
        Self::by_the_name(NAME)
    }

    fn by_the_name(name: &str) -> anyhow::Result<Self> {
        let address = SocketAddr::from_abstract_name(name)?;
        match UnixListener::bind_addr(&address) {
            Ok(listener) => Ok(Self {
                _listener: listener,
            }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(Busy {
                pid: owner(&address),
            }
            .into()),
            Err(error) => Err(error.into()),
        }
    }
}

fn owner(address: &SocketAddr) -> Option<i32> {
    let stream = UnixStream::connect_addr(address).ok()?;
    let credentials = getsockopt(&stream, PeerCredentials).ok()?;
    Some(credentials.pid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_the_first_is_until_that_has_ended() {
        let name = format!("drover-test-{}", std::process::id());
        let first = Alone::by_the_name(&name).unwrap();
        let error = Alone::by_the_name(&name).unwrap_err().to_string();
        assert!(
            error.contains(&format!("pid {}", std::process::id())) && error.contains("--force"),
            "{error}"
        );
        drop(first);
        Alone::by_the_name(&name).unwrap();
    }
}
