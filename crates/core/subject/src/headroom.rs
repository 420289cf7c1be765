//! Checks before a load that the daemon and this machine can hold it, as far as that can be known.
//!
//! Unknown limits refuse nothing: a daemon of another machine or user, several processes that share the connections of
//! one listener, streams of unknown length.

use std::collections::BTreeSet;
use std::fs;

use measure::units;

use crate::listeners::{Listeners, NotFound};
use crate::usage::stat;
use load::driver::Target;
use load::net::sources::local_ports;

/// Least kernel memory of one end of an idle connection, bytes: half of the growth of the unreclaimable slab with each
/// of 9,500 TCP connections on loopback (5.5 to 5.9 KB) and with each of 9,500 pairs of Unix sockets (2.8 KB).
const TCP_END: u64 = 2_700;
const UNIX_END: u64 = 1_400;

/// An error: the daemon or the machine can't hold the load. It names the limit, the need, and remedies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CannotHold {
    /// The daemon may not open enough files.
    #[error(
        "the daemon (process {pid}) may open {limit} files at most and has {open} open, but this load needs {need} more (its limit RLIMIT_NOFILE)\n\
         any of these helps:\n  sudo prlimit --pid {pid} --nofile={enough}:{enough}    # for the running daemon\n  \
         start it with a higher limit (ulimit -n {enough}, or LimitNOFILE={enough} in its unit)\n  lower the number of connections",
        enough = open + need
    )]
    Files {
        /// The daemon's process.
        pid: u32,
        /// Files that it may open.
        limit: u64,
        /// Files that it has open.
        open: u64,
        /// Further files that the load makes it open.
        need: u64,
    },
    /// The machine has too little memory.
    #[error(
        "{connections} connections take at least {} of kernel memory, but only {} are available (MemAvailable)\n\
         lower the number of connections, or free memory",
        units::bytes(*need), units::bytes(*available)
    )]
    Memory {
        /// Connections of the load.
        connections: u64,
        /// Bytes that they take at least.
        need: u64,
        /// Bytes that are available.
        available: u64,
    },
    /// The kernel has too few ports to connect from.
    #[error(
        "{connections} connections to {peers} address(es) need {connections} local ports, but the kernel offers {ports} for each address (net.ipv4.ip_local_port_range)\n\
         any of these helps:\n  sudo sysctl -w net.ipv4.ip_local_port_range='1024 65535'\n  let the daemon listen on several addresses or ports\n  lower the number of connections"
    )]
    Ports {
        /// Connections of the load.
        connections: u64,
        /// Addresses that they connect to.
        peers: u64,
        /// Ports for each address.
        ports: u64,
    },
}

/// Checks that there are ports for `connections` connections to `peers` addresses, if the kernel chooses the ports.
///
/// # Errors
/// There are too few ports.
pub fn require_ports(connections: u64, peers: u64) -> Result<(), CannotHold> {
    let (first, last) = local_ports();
    let ports = last + 1 - first;
    if connections <= ports.saturating_mul(peers) {
        return Ok(());
    }
    Err(CannotHold::Ports {
        connections,
        peers,
        ports,
    })
}

/// Checks that the daemons and the memory of this machine can hold `connections`, spread evenly over the target.
/// `found` has what [listens](crate::listeners::find) at each address.
///
/// # Errors
/// The limit that is too low, with remedies.
pub fn require(
    target: &Target,
    connections: u64,
    found: &[Result<Listeners, NotFound>],
) -> Result<(), CannotHold> {
    require_memory(target, connections, found)?;
    let each = connections / (target.addresses.len() as u64).max(1);
    let listening = found.iter().flatten();
    let only = listening.filter_map(|listeners| {
        let mut holders = listeners.holders.iter().copied();
        // Several processes may share the connections.
        match (holders.next(), holders.next()) {
            (Some(pid), None) => Some(pid),
            _ => None,
        }
    });
    only.collect::<BTreeSet<u32>>()
        .into_iter()
        .try_for_each(|pid| require_files(pid, each))
}

fn require_files(pid: u32, need: u64) -> Result<(), CannotHold> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    let Some(limit) = open_files(&limits) else {
        return Ok(());
    };
    // The files of another user's process can't be counted, and neither can the processes that share its socket.
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return Ok(());
    };
    let open = files.count() as u64;
    if open + need <= limit {
        return Ok(());
    }
    Err(CannotHold::Files {
        pid,
        limit,
        open,
        need,
    })
}

fn require_memory(
    target: &Target,
    connections: u64,
    found: &[Result<Listeners, NotFound>],
) -> Result<(), CannotHold> {
    let available = stat::meminfo_bytes("MemAvailable");
    let is_remote = |found: &Result<_, _>| matches!(found, Err(NotFound::OtherMachine(_)));
    let ends = if found.iter().any(is_remote) { 1 } else { 2 };
    let end = if target.sockets().is_empty() {
        TCP_END
    } else {
        UNIX_END
    };
    let need = connections.saturating_mul(ends * end);
    if available == 0 || need <= available {
        return Ok(());
    }
    Err(CannotHold::Memory {
        connections,
        need,
        available,
    })
}

/// Returns the soft limit of open files in `/proc/<pid>/limits`, or `None` if there is none.
fn open_files(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use harness_testing::assert_contains;
    use std::net::TcpListener;

    use super::*;
    use crate::listeners;

    fn check(target: &Target, connections: u64) -> Result<(), CannotHold> {
        require(target, connections, &listeners::find(target))
    }

    #[test]
    fn the_limit_of_the_process_that_listens_is_known() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let target = Target::of_urls(vec![format!("http://{address}/")]);
        let limit = load::limits::nofile().unwrap().soft;
        assert_eq!(check(&target, 1), Ok(()));
        let error = check(&target, limit).unwrap_err();
        assert!(
            matches!(error, CannotHold::Files { pid, need, .. } if pid == std::process::id() && need == limit),
            "{error}"
        );
        let text = error.to_string();
        for part in [
            &format!("open {limit} files"),
            "prlimit --pid",
            "LimitNOFILE",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn an_unknown_target_refuses_nothing() {
        for url in [
            "http://192.0.2.1/",
            "amqp://192.0.2.1/",
            "http://127.0.0.1:1/",
            "x",
        ] {
            let target = Target::of_urls(vec![url.to_owned()]);
            assert_eq!(check(&target, 100_000), Ok(()), "{url}");
        }
        let target = Target::at("/nowhere".into());
        assert_eq!(check(&target, 100_000), Ok(()));
        let shared = Listeners {
            holders: BTreeSet::from([1, std::process::id()]),
            ..Listeners::default()
        };
        let checked = require(&target, 100_000, &[Ok(shared)]);
        assert_eq!(checked, Ok(()), "two processes share what comes");
    }

    #[test]
    fn memory_and_ports_that_nobody_has_are_refused_with_limit_and_need() {
        let target = Target::at("/nowhere".into());
        let error = check(&target, 1 << 50).unwrap_err();
        assert!(matches!(error, CannotHold::Memory { .. }), "{error}");
        assert_eq!(require_ports(1, 1), Ok(()));
        let error = require_ports(131_073, 2).unwrap_err().to_string();
        assert_contains(&error, &["131073", "port_range"]);
    }

    #[test]
    fn the_limit_is_the_soft_one() {
        let limits = "Limit    Soft Limit  Hard Limit  Units\nMax open files            60      4096      files\n";
        assert_eq!(open_files(limits), Some(60));
        assert_eq!(
            open_files("Max open files  unlimited  unlimited files\n"),
            None
        );
    }
}
