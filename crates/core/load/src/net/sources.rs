//! Source addresses and ports of connections. A pair of source address and port reaches one server port only once, so
//! more than 64,512 connections need further addresses, and 127.0.0.0/8 has them.
//!
//! If the kernel chooses the port, it searches for a free one; once half of its range is taken, that search takes
//! longer and longer. A socket bound to an explicit address and port with `SO_REUSEADDR` needs no search.
//!
//! A port that is bound on any address, or was within the last minute, is skipped by the kernel's automatic port
//! selection, for every source and destination (`__inet_hash_connect`). If all are bound, no other program of the
//! machine can connect: `EADDRNOTAVAIL`. So the range that the kernel chooses from is left to it.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::net::dial::Peer;
use crate::plan::Invalid;
use crate::schedule::Share;

/// The file with the ports that the kernel chooses from.
const KERNEL_PORTS: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// The range of a usual kernel, where that file can't be read.
const USUAL_PORTS: (u64, u64) = (32_768, 60_999);

/// The first port that needs no privilege.
const FIRST_PORT: u64 = 1_024;
/// The last port.
const LAST_PORT: u64 = 65_535;
/// Maximum number of ports left to the kernel: half of them, if its range is wider.
const MAX_LEFT: u64 = (LAST_PORT + 1 - FIRST_PORT) / 2;
/// Connections that `auto` plans for each address: half of the ports that are always available. A lost connection can
/// then be replaced from another port while its own is in TIME_WAIT.
const PLANNED: u64 = MAX_LEFT / 2;
/// The prefix of the addresses that `auto` takes: away from 127.0.0.1, where others listen.
const AUTO: [u8; 2] = [127, 64];
const FIELD: &str = "driver.source_addresses (--source-addresses)";

/// Returns the first and the last port that the kernel chooses from.
#[must_use]
pub fn local_ports() -> (u64, u64) {
    let range = fs::read_to_string(KERNEL_PORTS).unwrap_or_default();
    let mut range = range.split_whitespace().map(str::parse);
    match (range.next(), range.next()) {
        (Some(Ok(first)), Some(Ok(last))) if first <= last => (first, last),
        _ => USUAL_PORTS,
    }
}

/// Returns the number of server ports to connect to; `None` if one server is a Unix socket, which needs no ports.
pub fn server_ports<'a>(peers: impl IntoIterator<Item = &'a Peer>) -> Option<u64> {
    let mut ports: Vec<&SocketAddr> = Vec::new();
    for peer in peers {
        match peer {
            Peer::Tcp(address) if ports.contains(&address) => {}
            Peer::Tcp(address) => ports.push(address),
            Peer::Unix(_) => return None,
        }
    }
    Some(ports.len() as u64)
}

/// Checks that the addresses that a plan names (`auto`, or a list) have enough source ports for `connections` to a
/// number of server ports.
///
/// # Errors
/// The named addresses, or the kernel's range, have too few ports.
pub fn check_ports(
    named: &[String],
    connections: u64,
    server_ports: Option<u64>,
) -> Result<(), Invalid> {
    let Some(server_ports) = server_ports.filter(|_| !named.iter().any(|word| word == "auto"))
    else {
        return Ok(());
    };
    let each = Ports::of_this_machine().per_address();
    let (ports, whose) = match named {
        [] => (
            local_ports().1 + 1 - local_ports().0,
            "the kernel has".to_owned(),
        ),
        [address] => (each, format!("{address} has")),
        several => {
            let addresses = several.len() as u64;
            (addresses * each, format!("{addresses} addresses have"))
        }
    };
    let most = ports.saturating_mul(server_ports);
    if connections <= most {
        return Ok(());
    }
    let problem = format!(
        "{connections} connections need as many source ports, but {whose} {most} for {server_ports} server port(s): use auto if \
         the server is on this machine, name {} addresses, or lower --connections",
        connections
            .div_ceil(each.saturating_mul(server_ports))
            .max(1)
    );
    Err(Invalid::new(FIELD, problem))
}

/// Returns the addresses that the connections of a run come from, as a plan names them; empty if the kernel chooses.
///
/// # Errors
/// An invalid address, one not assigned to this host, or `auto` for a server on another host.
pub fn addresses<'a>(
    named: &[String],
    connections: u64,
    peers: impl IntoIterator<Item = &'a Peer>,
) -> Result<Vec<IpAddr>, Invalid> {
    if !named.iter().any(|word| word == "auto") {
        return named.iter().map(|text| parse_local(text)).collect();
    }
    if named.len() > 1 {
        return Err(Invalid::new(
            FIELD,
            "auto cannot be combined with addresses: give one or the other",
        ));
    }
    if !peers.into_iter().all(Peer::is_loopback) {
        let problem = "auto uses addresses of 127.0.0.0/8, which cannot reach another machine: name addresses of this machine";
        return Err(Invalid::new(FIELD, problem));
    }
    let [first, second] = AUTO;
    let address = |index: u64| {
        // 127.64.0.1, 127.64.0.2, … leaving out .0 and .255.
        let (third, fourth) = (index / 254, index % 254 + 1);
        IpAddr::V4(Ipv4Addr::new(first, second, third as u8, fourth as u8))
    };
    Ok((0..connections.div_ceil(PLANNED).max(1))
        .map(address)
        .collect())
}

/// Parses an address and checks that this machine has it.
fn parse_local(text: &str) -> Result<IpAddr, Invalid> {
    let wrong = |problem: String| Invalid::new(format!("{FIELD} {text}"), problem);
    let address: IpAddr = text.parse().map_err(|_| {
        wrong("is not an IP address: write auto, or addresses of this machine".to_owned())
    })?;
    std::net::UdpSocket::bind(SocketAddr::new(address, 0))
        .map(|_| address)
        .map_err(|error| {
            wrong(format!(
                "{error}: name an address of this machine (ip address)"
            ))
        })
}

/// The addresses and ports of one worker: every n-th of the whole, where n is the number of workers.
#[derive(Debug)]
pub struct Sources {
    addresses: Vec<IpAddr>,
    ports: Ports,
    share: Share,
    next: u64,
}

/// The usable ports of an address: all but those left to the kernel.
#[derive(Debug, Clone, Copy)]
struct Ports {
    /// The first port left to the kernel.
    left: u64,
    /// The number of ports left to the kernel.
    many: u64,
}

impl Ports {
    /// Returns the ports that are usable on this machine.
    fn of_this_machine() -> Self {
        let (first, last) = local_ports();
        Self::outside(first, last)
    }

    /// Returns the ports outside a range, or outside its upper part if the range is wide.
    fn outside(first: u64, last: u64) -> Self {
        let last = last.min(LAST_PORT);
        let left = first
            .max(FIRST_PORT)
            .max((last + 1).saturating_sub(MAX_LEFT));
        Self {
            left,
            many: (last + 1).saturating_sub(left),
        }
    }

    /// Returns the number of usable ports of each address.
    fn per_address(self) -> u64 {
        LAST_PORT + 1 - FIRST_PORT - self.many
    }

    fn at(self, index: u64) -> u16 {
        let port = FIRST_PORT + index;
        let behind = if port < self.left { 0 } else { self.many };
        (port + behind) as u16
    }
}

impl Sources {
    /// Returns the sources of one worker's share.
    #[must_use]
    pub fn new(addresses: Vec<IpAddr>, share: Share) -> Self {
        Self {
            ports: Ports::of_this_machine(),
            addresses,
            share,
            next: 0,
        }
    }

    /// Returns sources that leave the choice to the kernel.
    #[must_use]
    pub fn none() -> Self {
        Self::new(Vec::new(), Share { index: 0, of: 1 })
    }

    /// Returns the source of the next connection, starting over after the last; `None` if the kernel chooses.
    pub fn next_source(&mut self) -> Option<SocketAddr> {
        let each = self.ports.per_address();
        let all = self.addresses.len() as u64 * each;
        let index = (self.next * self.share.of + self.share.index).checked_rem(all)?;
        self.next += 1;
        let address = self.addresses[(index / each) as usize];
        Some(SocketAddr::new(address, self.ports.at(index % each)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn auto(connections: u64) -> Result<Vec<IpAddr>, Invalid> {
        let peer = Peer::Tcp("127.0.0.1:80".parse().unwrap());
        addresses(&["auto".to_owned()], connections, [&peer])
    }

    #[test]
    fn a_million_connections_have_as_many_places_and_as_many_in_reserve() {
        let addresses = auto(1_000_000).unwrap();
        assert!(addresses.len() as u64 * Ports::of_this_machine().per_address() >= 2_000_000);
        assert_eq!(
            addresses.iter().collect::<BTreeSet<_>>().len(),
            addresses.len()
        );
        let shares = (0..7).map(|index| Share { index, of: 7 });
        let mut seen = BTreeSet::new();
        for share in shares {
            let mut sources = Sources::new(addresses.clone(), share);
            for _ in 0..20_000 {
                let source = sources.next_source().unwrap();
                assert!(source.port() >= 1_024);
                assert!(seen.insert(source), "{source} twice");
            }
        }
    }

    #[test]
    fn the_ports_that_the_kernel_chooses_from_are_left_to_it() {
        for (first, last, left) in [
            (32_768, 60_999, 32_768..=60_999),
            (40_000, 40_199, 40_000..=40_199),
            (1_024, 65_535, 33_280..=65_535),
            (1, 65_535, 33_280..=65_535),
        ] {
            let ports = Ports::outside(first, last);
            let taken: BTreeSet<u16> = (0..ports.per_address())
                .map(|index| ports.at(index))
                .collect();
            let expected = (1_024..=65_535).filter(|port| !left.contains(port));
            assert!(taken.into_iter().eq(expected), "{first} to {last}");
        }
    }

    #[test]
    fn auto_is_for_this_machine_and_an_address_must_be_its_own() {
        let elsewhere = Peer::Tcp("192.0.2.1:80".parse().unwrap());
        for (word, part) in [
            ("auto", "127.0.0.0/8"),
            ("x", "is not an IP address"),
            ("192.0.2.1", "address of this machine"),
        ] {
            let error = addresses(&[word.to_owned()], 1, [&elsewhere]).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
        assert!(addresses(&[], 1, [&elsewhere]).unwrap().is_empty());
    }
}
