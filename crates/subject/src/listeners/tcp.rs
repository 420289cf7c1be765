//! Reads the listening TCP sockets from `/proc/net/tcp` and `/proc/net/tcp6` (proc_pid_net(5)).

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The state "listening".
const LISTENING: &str = "0A";

/// A listening TCP socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listening {
    address: SocketAddr,
    /// Connections that wait to be accepted.
    pending: u64,
    pub(super) owner: u32,
    pub(super) inode: u64,
}

impl Listening {
    fn parse(row: &str) -> Option<Self> {
        let mut fields = row.split_ascii_whitespace();
        let address = address(fields.nth(1)?)?;
        let (_, pending) = fields.nth(2)?.split_once(':')?;
        Some(Self {
            address,
            pending: u64::from_str_radix(pending, 16).ok()?,
            owner: fields.nth(2)?.parse().ok()?,
            inode: fields.nth(1)?.parse().ok()?,
        })
    }
}

/// Parses an address such as `0100007F:1F90`: words of the machine's byte order in hexadecimal digits, then the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let mut octets = [0; 16];
    let mut length = 0;
    while let Some(digits) = ip.get(2 * length..2 * length + 8) {
        let word = u32::from_str_radix(digits, 16).ok()?;
        octets
            .get_mut(length..length + 4)?
            .copy_from_slice(&word.to_ne_bytes());
        length += 4;
    }
    let ip = match length {
        4 => IpAddr::V4(Ipv4Addr::from(*octets.first_chunk::<4>()?)),
        16 => IpAddr::V6(Ipv6Addr::from(octets)),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

/// Returns all listening sockets of the network namespace. The kernel lists them before the connections, so that the
/// cost does not grow with the connections.
fn all() -> Vec<Listening> {
    let files = ["/proc/net/tcp", "/proc/net/tcp6"].map(File::open);
    let rows = files.into_iter().flatten().flat_map(|file| {
        let lines = BufReader::new(file).lines().skip(1);
        let lines = lines.map_while(Result::ok);
        lines.take_while(|row| row.split_ascii_whitespace().nth(3) == Some(LISTENING))
    });
    rows.filter_map(|row| Listening::parse(&row)).collect()
}

/// Returns the sockets that get the connections to the first of these addresses at which any listens. Sockets that share
/// an address (`SO_REUSEPORT`) share the connections.
pub(super) fn at_first(addresses: &[SocketAddr]) -> Vec<Listening> {
    let all = all();
    let mut found = addresses.iter().map(|address| at(*address, &all));
    found.find(|found| !found.is_empty()).unwrap_or_default()
}

/// Returns the sockets that get the connections to an address: those with the most specific address.
fn at(address: SocketAddr, all: &[Listening]) -> Vec<Listening> {
    let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    // A connection to "any" goes to the loopback address.
    let ip = match address.ip() {
        ip if ip == any[0] => Ipv4Addr::LOCALHOST.into(),
        ip if ip == any[1] => Ipv6Addr::LOCALHOST.into(),
        ip => ip.to_canonical(),
    };
    let wildcards = match ip {
        IpAddr::V4(_) => any.as_slice(),
        IpAddr::V6(_) => &any[1..],
    };
    let mut by_rank = std::iter::once(ip)
        .chain(wildcards.iter().copied())
        .map(|ip| {
            let is_there = |socket: &&Listening| {
                let at = socket.address;
                at.port() == address.port() && at.ip().to_canonical() == ip
            };
            all.iter().filter(is_there).cloned().collect::<Vec<_>>()
        });
    by_rank.find(|found| !found.is_empty()).unwrap_or_default()
}

/// Counts the connections that wait to be accepted at hosts, summed over their sockets; `None` if none listens at one of
/// them. The addresses of one host are alternatives.
pub(super) fn pending(hosts: &[Vec<SocketAddr>]) -> Option<u64> {
    let all = all();
    let mut sockets = Vec::new();
    for host in hosts {
        let mut found = host.iter().map(|address| at(*address, &all));
        sockets.extend(found.find(|found| !found.is_empty())?);
    }
    // One socket may serve several addresses.
    sockets.sort_unstable_by_key(|socket| socket.inode);
    sockets.dedup_by_key(|socket| socket.inode);
    Some(sockets.iter().map(|socket| socket.pending).sum())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use proptest::prelude::*;

    use super::*;

    const ROW: &str = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000003 00:00000000 00000000    33        0 1076 1 000000001965d156 100 0 0 10 0";

    #[test]
    fn a_row_has_address_queue_owner_and_inode() {
        let socket = Listening::parse(ROW).unwrap();
        // The words are in the byte order of the machine, which is little-endian in this row.
        if cfg!(target_endian = "little") {
            assert_eq!(socket.address, "127.0.0.1:8080".parse().unwrap());
            assert_eq!(
                address("00000000000000000000000001000000:0050"),
                Some("[::1]:80".parse().unwrap())
            );
        }
        assert_eq!((socket.pending, socket.owner, socket.inode), (3, 33, 1076));
    }

    #[test]
    fn connections_that_wait_are_counted_and_accepted_ones_are_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        // One socket serves the two.
        let waiting = || pending(&[vec![at], vec![at]]);
        assert_eq!(waiting(), Some(0));
        let _clients: Vec<_> = (0..3).map(|_| TcpStream::connect(at).unwrap()).collect();
        assert_eq!(waiting(), Some(3));
        let _accepted = listener.accept().unwrap();
        assert_eq!(waiting(), Some(2));
        drop(listener);
        assert_eq!(waiting(), None);
    }

    #[test]
    fn the_most_specific_socket_gets_the_connections() {
        let socket = |address: &str, inode| Listening {
            address: address.parse().unwrap(),
            pending: 0,
            owner: 0,
            inode,
        };
        let all = [
            socket("0.0.0.0:80", 1),
            socket("127.0.0.1:80", 2),
            socket("127.0.0.1:80", 3),
            socket("[::]:80", 4),
            socket("[::]:81", 5),
            socket("[::ffff:127.0.0.1]:82", 6),
            socket("0.0.0.0:83", 7),
        ];
        let found = |address: &str| {
            let found = at(address.parse().unwrap(), &all);
            found.iter().map(|socket| socket.inode).collect::<Vec<_>>()
        };
        assert_eq!(found("127.0.0.1:80"), [2, 3]);
        assert_eq!(found("0.0.0.0:80"), [2, 3]);
        assert_eq!(found("127.0.0.2:80"), [1]);
        assert_eq!(found("[::1]:80"), [4]);
        assert_eq!(found("127.0.0.1:81"), [5]);
        assert_eq!(found("127.0.0.1:82"), [6]);
        assert_eq!(found("[::1]:83"), [0; 0]);
        assert_eq!(found("[::]:84"), [0; 0]);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in ".{0,80}", cut in 0..ROW.len()) {
            Listening::parse(&text);
            Listening::parse(&ROW[..cut]);
            address(&text);
        }
    }
}
