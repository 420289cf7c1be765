//! Finds the listening TCP sockets of the network namespace, and counts the connections that wait in their accept queues
//! and those that they dropped.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use netlink_packet_sock_diag::{AF_INET, AF_INET6, IPPROTO_TCP, SockDiagMessage};

use super::sock_diag::SockDiag;

/// A listening TCP socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listening {
    address: SocketAddr,
    /// Connections that wait to be accepted.
    pending: u64,
    /// Connections that it dropped since it listens, such as those that found the queue full.
    dropped: u64,
    pub(super) owner: u32,
    pub(super) inode: u64,
}

impl Listening {
    fn from_answer(answer: SockDiagMessage) -> Option<Self> {
        let SockDiagMessage::InetResponse(response) = answer else {
            return None;
        };
        let dropped = response.nlas.iter().find_map(|attribute| match attribute {
            Nla::MemInfo(memory) => Some(u64::from(memory.drops)),
            _ => None,
        })?;
        let socket = response.header;
        Some(Self {
            address: SocketAddr::new(
                socket.socket_id.source_address,
                socket.socket_id.source_port,
            ),
            pending: u64::from(socket.recv_queue),
            dropped,
            owner: socket.uid,
            inode: u64::from(socket.inode),
        })
    }
}

/// Returns all listening sockets of the network namespace. A kernel without IPv6 refuses that list.
///
/// `/proc/net/tcp6` would have them too, but the kernel goes on to the connections to fill the page that is read: it
/// walks the whole table of connections, which took up to 12 ms of CPU, and this list takes less than 1 ms.
fn all(kernel: &mut SockDiag) -> Vec<Listening> {
    let families = [
        (AF_INET, SocketId::new_v4()),
        (AF_INET6, SocketId::new_v6()),
    ];
    let lists = families.into_iter().map(|(family, socket_id)| {
        kernel.list(SockDiagMessage::InetRequest(InetRequest {
            family,
            protocol: IPPROTO_TCP,
            extensions: ExtensionFlags::SKMEMINFO,
            states: StateFlags::LISTEN,
            socket_id,
        }))
    });
    let sockets: Vec<SockDiagMessage> = lists.flatten().flatten().collect();
    sockets
        .into_iter()
        .filter_map(Listening::from_answer)
        .collect()
}

/// Returns the sockets that get the connections to the first of these addresses at which any listens. Sockets that share
/// an address (`SO_REUSEPORT`) share the connections.
pub(super) fn at_first(addresses: &[SocketAddr]) -> Vec<Listening> {
    // Without sock_diag nothing is found.
    let all = SockDiag::new().map_or_else(|_| Vec::new(), |mut kernel| all(&mut kernel));
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

/// The accept queues of hosts. The addresses of one host are alternatives.
#[derive(Debug)]
pub(super) struct TcpQueues {
    kernel: SockDiag,
    hosts: Vec<Vec<SocketAddr>>,
    /// The drops of each socket by its inode: before the first count, and at the last.
    drops: BTreeMap<u64, [u64; 2]>,
}

impl TcpQueues {
    /// Opens the queues of hosts.
    ///
    /// # Errors
    /// As [`SockDiag::new`].
    pub(super) fn new(hosts: Vec<Vec<SocketAddr>>) -> io::Result<Self> {
        let kernel = SockDiag::new()?;
        let drops = BTreeMap::new();
        Ok(Self {
            kernel,
            hosts,
            drops,
        })
    }

    /// Counts the connections that wait to be accepted, summed over the sockets; `None` if none listens at a host.
    pub(super) fn pending(&mut self) -> Option<u64> {
        let all = all(&mut self.kernel);
        let mut sockets = Vec::new();
        for host in &self.hosts {
            let mut found = host.iter().map(|address| at(*address, &all));
            sockets.extend(found.find(|found| !found.is_empty())?);
        }
        // One socket may serve several addresses.
        sockets.sort_unstable_by_key(|socket| socket.inode);
        sockets.dedup_by_key(|socket| socket.inode);
        let is_first = self.drops.is_empty();
        for socket in &sockets {
            // A socket that appears later belongs to a daemon that was started again.
            let before = if is_first { socket.dropped } else { 0 };
            let drops = self.drops.entry(socket.inode).or_insert([before, 0]);
            drops[1] = socket.dropped;
        }
        Some(sockets.iter().map(|socket| socket.pending).sum())
    }

    /// Counts the connections that the sockets dropped from the first count of [`pending`](Self::pending) to the last one.
    pub(super) fn dropped(&self) -> u64 {
        let each = self.drops.values();
        each.map(|[before, last]| last.saturating_sub(*before))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use nix::sys::socket::Backlog;
    use nix::sys::stat::fstat;

    use super::*;

    #[test]
    fn a_listening_socket_has_address_owner_and_inode() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let at = listener.local_addr().unwrap();
            let found = at_first(&[at]);
            let socket = Listening {
                address: at,
                pending: 0,
                dropped: 0,
                owner: nix::unistd::Uid::effective().as_raw(),
                inode: fstat(&listener).unwrap().st_ino,
            };
            assert_eq!(found, [socket]);
        }
    }

    #[test]
    fn connections_that_wait_are_counted_and_accepted_ones_are_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        // One socket serves the two.
        let mut queues = TcpQueues::new(vec![vec![at], vec![at]]).unwrap();
        let mut waiting = || queues.pending();
        assert_eq!(waiting(), Some(0));
        let _clients: Vec<_> = (0..3).map(|_| TcpStream::connect(at).unwrap()).collect();
        assert_eq!(waiting(), Some(3));
        let _accepted = listener.accept().unwrap();
        assert_eq!(waiting(), Some(2));
        drop(listener);
        assert_eq!(waiting(), None);
    }

    #[test]
    fn connections_that_find_the_queue_full_are_counted_for_their_own_socket() {
        let [full, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        nix::sys::socket::listen(&full, Backlog::new(0).unwrap()).unwrap();
        let [at, at_other] = [&full, &other].map(|listener| listener.local_addr().unwrap());
        let mut queues = TcpQueues::new(vec![vec![at]]).unwrap();
        let mut others = TcpQueues::new(vec![vec![at_other]]).unwrap();
        assert_eq!((queues.pending(), others.pending()), (Some(0), Some(0)));
        assert_eq!(queues.dropped(), 0);
        let mut clients = Vec::new();
        while queues.dropped() == 0 {
            clients.extend(TcpStream::connect_timeout(&at, Duration::from_millis(20)));
            assert!(clients.len() < 100, "none was dropped");
            assert!(queues.pending().is_some() && others.pending().is_some());
        }
        assert_eq!(others.dropped(), 0);
    }

    #[test]
    fn the_most_specific_socket_gets_the_connections() {
        let socket = |address: &str, inode| Listening {
            address: address.parse().unwrap(),
            pending: 0,
            dropped: 0,
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
}
