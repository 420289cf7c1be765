//! Checks before a load that the daemon and this machine can hold it, as far as that can be known.
//!
//! Unknown limits refuse nothing: a daemon of another machine or user, several processes that share the connections of
//! one listener, streams of unknown length.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};

use hyper::Uri;
use measure::units;

use crate::usage::stat;
use load::driver::{Address, Target};
use load::net::sources::local_ports;

/// State "listening" in `/proc/net/tcp` (proc_pid_net(5)).
const LISTENING: &str = "0A";
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

/// Checks that the daemons and the memory of this machine can hold `connections`, spread evenly over the target. The
/// process `pid` listens on its Unix socket, if it is known.
///
/// # Errors
/// The limit that is too low, with remedies.
pub fn require(target: &Target, connections: u64, pid: Option<u32>) -> Result<(), CannotHold> {
    require_memory(target, connections)?;
    let each = connections / (target.addresses.len() as u64).max(1);
    let listening = target.addresses.iter().filter_map(|address| match address {
        Address::Socket(_) => pid.filter(|pid| !has_children(*pid)),
        // Several processes may share the connections.
        Address::Url(url) => match listeners(local(url)?).as_slice() {
            [pid] => Some(*pid),
            _ => None,
        },
    });
    listening
        .collect::<BTreeSet<u32>>()
        .into_iter()
        .try_for_each(|pid| require_files(pid, each))
}

fn require_files(pid: u32, need: u64) -> Result<(), CannotHold> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    let Some(limit) = open_files(&limits) else {
        return Ok(());
    };
    // The files of another user's process can't be counted.
    let open = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |files| files.count() as u64);
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

fn require_memory(target: &Target, connections: u64) -> Result<(), CannotHold> {
    let available = stat::meminfo_bytes("MemAvailable");
    let on_this_machine = |address: &Address| match address {
        Address::Socket(_) => true,
        Address::Url(url) => local(url).is_some(),
    };
    let ends = if target.addresses.iter().all(on_this_machine) {
        2
    } else {
        1
    };
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

/// Returns true if a process has children, which may serve the connections that it takes.
fn has_children(pid: u32) -> bool {
    stat::all().any(|process| process.parent.cast_unsigned() == pid && !process.is_zombie())
}

/// Returns the address of a URL, if it is a loopback address.
fn local(url: &str) -> Option<SocketAddr> {
    let uri: Uri = url.parse().ok()?;
    let usual = match uri.scheme_str()? {
        "http" => 80,
        "https" => 443,
        "amqp" => 5672,
        "amqps" => 5671,
        _ => return None,
    };
    let host = uri.host()?.trim_matches(['[', ']']);
    let port = uri.port_u16().unwrap_or(usual);
    let address = match host.parse::<IpAddr>() {
        Ok(ip) => SocketAddr::new(ip, port),
        // Other names are not resolved, because that may take long.
        Err(_) if host == "localhost" => (host, port).to_socket_addrs().ok()?.next()?,
        Err(_) => return None,
    };
    address.ip().is_loopback().then_some(address)
}

/// Returns the processes that listen at an address of this machine. Like `ss -tlp`, it finds them by the inode of the
/// listener. Processes of other users are not seen.
#[must_use]
pub fn listeners(address: SocketAddr) -> Vec<u32> {
    let Some(inode) = listening_inode(address) else {
        return Vec::new();
    };
    let socket = format!("socket:[{inode}]");
    let holds = |process: &fs::DirEntry| {
        let descriptors = fs::read_dir(process.path().join("fd"));
        let mut links = descriptors.into_iter().flatten().flatten();
        links.any(|link| fs::read_link(link.path()).is_ok_and(|to| to.as_os_str() == &*socket))
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter(holds)
        .filter_map(|process| process.file_name().to_str()?.parse().ok())
        .collect()
}

fn listening_inode(address: SocketAddr) -> Option<u64> {
    let port = format!(":{:04X}", address.port());
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
    tables.into_iter().flatten().find_map(|table| {
        let mut rows = table.lines().map(|row| row.split_whitespace());
        rows.find_map(|mut row| {
            let listens = row.nth(1)?.ends_with(&port) && row.nth(1)? == LISTENING;
            row.nth(5)?.parse().ok().filter(|_| listens)
        })
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_process_that_listens_is_found_and_its_limit_is_known() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(listeners(address), [std::process::id()]);
        let target = Target::of_urls(vec![format!("http://{address}/")]);
        let limit = load::limits::nofile().unwrap().soft;
        assert_eq!(require(&target, 1, None), Ok(()));
        let error = require(&target, limit, None).unwrap_err();
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
    fn what_is_not_known_refuses_nothing() {
        for url in [
            "http://192.0.2.1/",
            "amqp://broker/",
            "http://127.0.0.1:1/",
            "x",
        ] {
            let target = Target::of_urls(vec![url.to_owned()]);
            assert_eq!(require(&target, 100_000, None), Ok(()), "{url}");
        }
        let target = Target::at("/nowhere".into());
        assert_eq!(require(&target, 100_000, None), Ok(()));
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let shares = require(&target, 100_000, Some(std::process::id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(shares, Ok(()), "a child may serve what this process takes");
    }

    #[test]
    fn memory_and_ports_that_nobody_has_are_refused_with_limit_and_need() {
        let target = Target::at("/nowhere".into());
        let error = require(&target, 1 << 50, None).unwrap_err();
        assert!(matches!(error, CannotHold::Memory { .. }), "{error}");
        assert_eq!(require_ports(1, 1), Ok(()));
        let error = require_ports(131_073, 2).unwrap_err().to_string();
        assert!(
            error.contains("131073") && error.contains("port_range"),
            "{error}"
        );
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
