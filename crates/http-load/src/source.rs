//! Where connections come from. A port of one address reaches one port of a server once: what is beyond the 64,512 that an
//! address has needs another address, and 127.0.0.0/8 has them.
//!
//! Left to choose a port itself, the kernel looks for one that is free, and beyond half of its range for ever longer.
//! Bound to an address and a port with `SO_REUSEADDR` it takes the one that it is told.
//!
//! A port that is bound on any address, or was within the last minute, is one that the kernel gives to nobody who leaves the
//! choice to it, wherever he connects from and to (`__inet_hash_connect`). Where all are bound, no other program of the
//! machine connects any more: `EADDRNOTAVAIL`. So the range that the kernel chooses from is left to it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use harness::peer::local_ports;
use harness::plan::Invalid;
use harness::schedule::Share;

use crate::settings::Settings;
use crate::target::{Peer, Server};

/// The first port that no privilege is needed for.
const FIRST_PORT: u64 = 1_024;
/// The last port.
const LAST_PORT: u64 = 65_535;
/// Most ports that are left to the kernel: half of them, where its range is wider.
const MOST_LEFT: u64 = (LAST_PORT + 1 - FIRST_PORT) / 2;
/// Connections that `auto` plans for each address: half of the ports that are always taken from, so that one that is lost
/// has another port to come from while its own is in TIME_WAIT.
const PLANNED: u64 = MOST_LEFT / 2;
/// The addresses that `auto` takes: away from 127.0.0.1, where others listen.
const AUTO: [u8; 2] = [127, 64];
const FIELD: &str = "driver.source_addresses (--source-addresses)";

/// How many ports of servers there are to connect to; `None` where a Unix socket is among them, which needs no ports.
pub(crate) fn ways(servers: &[Server]) -> Option<u64> {
    let mut ports: Vec<SocketAddr> = Vec::new();
    for server in servers {
        match server.peer {
            Peer::Tcp(address) if ports.contains(&address) => {}
            Peer::Tcp(address) => ports.push(address),
            Peer::Unix(_) => return None,
        }
    }
    Some(ports.len() as u64)
}

/// Checks that there are ports for so many connections to so many ports of servers.
///
/// # Errors
/// The addresses that were named, or the range of the kernel, have fewer.
pub(crate) fn room(
    settings: &Settings,
    connections: u64,
    ways: Option<u64>,
) -> Result<(), Invalid> {
    let named = settings.source_addresses.as_slice();
    let Some(ways) = ways.filter(|_| !named.iter().any(|word| word == "auto")) else {
        return Ok(());
    };
    let each = Ports::of_this_machine().each();
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
    let most = ports.saturating_mul(ways);
    if connections <= most {
        return Ok(());
    }
    let problem = format!(
        "{connections} connections need as many ports, and {whose} {most} for {ways} port(s) of servers: take auto where \
         the server is on this machine, name {} addresses, or lower --connections",
        connections.div_ceil(each.saturating_mul(ways)).max(1)
    );
    Err(Invalid::new(FIELD, problem))
}

/// The addresses that the connections of a run come from; none where the kernel chooses.
///
/// # Errors
/// An address that is none or not of this machine, or `auto` for a server that is elsewhere.
pub(crate) fn addresses(
    settings: &Settings,
    connections: u64,
    servers: &[Server],
) -> Result<Vec<IpAddr>, Invalid> {
    let auto = settings.source_addresses.iter().any(|word| word == "auto");
    if !auto {
        return settings
            .source_addresses
            .iter()
            .map(|text| own(text))
            .collect();
    }
    if settings.source_addresses.len() > 1 {
        return Err(Invalid::new(
            FIELD,
            "auto stands alone: give it, or addresses",
        ));
    }
    if !servers.iter().all(Server::is_loopback) {
        let problem = "auto takes addresses of 127.0.0.0/8, which reach this machine alone: name addresses of this machine";
        return Err(Invalid::new(FIELD, problem));
    }
    let [first, second] = AUTO;
    let address = |place: u64| {
        // 127.64.0.1, 127.64.0.2, … leaving out .0 and .255.
        let (third, fourth) = (place / 254, place % 254 + 1);
        IpAddr::V4(Ipv4Addr::new(first, second, third as u8, fourth as u8))
    };
    Ok((0..connections.div_ceil(PLANNED).max(1))
        .map(address)
        .collect())
}

/// An address that this machine has.
fn own(text: &str) -> Result<IpAddr, Invalid> {
    let wrong = |problem: String| Invalid::new(format!("{FIELD} {text}"), problem);
    let address: IpAddr = text
        .parse()
        .map_err(|_| wrong("is no address: write auto, or addresses of this machine".to_owned()))?;
    std::net::UdpSocket::bind(SocketAddr::new(address, 0))
        .map(|_| address)
        .map_err(|error| {
            wrong(format!(
                "{error}: name an address of this machine (ip address)"
            ))
        })
}

/// The addresses and ports of one worker: those of the whole whose place, modulo the workers, is its own.
#[derive(Debug)]
pub(crate) struct Sources {
    addresses: Vec<IpAddr>,
    ports: Ports,
    share: Share,
    next: u64,
}

/// The ports of an address, without those that are left to the kernel.
#[derive(Debug, Clone, Copy)]
struct Ports {
    /// The first that is left.
    left: u64,
    /// How many are.
    many: u64,
}

impl Ports {
    /// Those of this machine.
    fn of_this_machine() -> Self {
        let (first, last) = local_ports();
        Self::beside(first, last)
    }

    /// Those that are not in a range, or not in its upper part where it is wide.
    fn beside(first: u64, last: u64) -> Self {
        let last = last.min(LAST_PORT);
        let left = first
            .max(FIRST_PORT)
            .max((last + 1).saturating_sub(MOST_LEFT));
        Self {
            left,
            many: (last + 1).saturating_sub(left),
        }
    }

    /// How many there are of each address.
    fn each(self) -> u64 {
        LAST_PORT + 1 - FIRST_PORT - self.many
    }

    fn at(self, place: u64) -> u16 {
        let port = FIRST_PORT + place;
        let behind = if port < self.left { 0 } else { self.many };
        (port + behind) as u16
    }
}

impl Sources {
    /// Those of a share.
    pub(crate) fn new(addresses: Vec<IpAddr>, share: Share) -> Self {
        Self {
            ports: Ports::of_this_machine(),
            addresses,
            share,
            next: 0,
        }
    }

    /// Those that the kernel chooses.
    pub(crate) fn none() -> Self {
        Self::new(Vec::new(), Share { index: 0, of: 1 })
    }

    /// The next one, round and round; `None` where the kernel chooses.
    pub(crate) fn next(&mut self) -> Option<SocketAddr> {
        let each = self.ports.each();
        let all = self.addresses.len() as u64 * each;
        let place = (self.next * self.share.of + self.share.index).checked_rem(all)?;
        self.next += 1;
        let address = self.addresses[(place / each) as usize];
        Some(SocketAddr::new(address, self.ports.at(place % each)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn auto(connections: u64) -> Result<Vec<IpAddr>, Invalid> {
        let settings = Settings {
            source_addresses: vec!["auto".to_owned()],
            ..Settings::default()
        };
        addresses(
            &settings,
            connections,
            &[Server::parse("http://127.0.0.1:80/").unwrap()],
        )
    }

    #[test]
    fn a_million_connections_have_as_many_places_and_as_many_in_reserve() {
        let addresses = auto(1_000_000).unwrap();
        assert!(addresses.len() as u64 * Ports::of_this_machine().each() >= 2_000_000);
        assert_eq!(
            addresses.iter().collect::<BTreeSet<_>>().len(),
            addresses.len()
        );
        let shares = (0..7).map(|index| Share { index, of: 7 });
        let mut seen = BTreeSet::new();
        for share in shares {
            let mut sources = Sources::new(addresses.clone(), share);
            for _ in 0..20_000 {
                let source = sources.next().unwrap();
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
            let ports = Ports::beside(first, last);
            let taken: BTreeSet<u16> = (0..ports.each()).map(|place| ports.at(place)).collect();
            let expected = (1_024..=65_535).filter(|port| !left.contains(port));
            assert!(taken.into_iter().eq(expected), "{first} to {last}");
        }
    }

    #[test]
    fn auto_is_for_this_machine_and_an_address_must_be_its_own() {
        let elsewhere = Server::parse("http://192.0.2.1/").unwrap();
        let settings = |word: &str| Settings {
            source_addresses: vec![word.to_owned()],
            ..Settings::default()
        };
        for (word, part) in [
            ("auto", "127.0.0.0/8"),
            ("x", "is no address"),
            ("192.0.2.1", "address of this machine"),
        ] {
            let error =
                addresses(&settings(word), 1, std::slice::from_ref(&elsewhere)).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
        assert!(
            addresses(&Settings::default(), 1, &[elsewhere])
                .unwrap()
                .is_empty()
        );
    }
}
