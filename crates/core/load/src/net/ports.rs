//! Reserves TCP ports for daemons that are started at the same time, by this program or others of its kind.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{IpAddr, TcpListener};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use super::sources::local_ports;

/// The ports that daemons get. Lower ones belong to well-known services.
const DAEMON_PORTS: std::ops::RangeInclusive<u16> = 10_000..=65_535;

/// A TCP port that no other launcher of this machine gives to a daemon while this value lives.
///
/// The kernel's own choice (port 0) is no reservation: between the choice and the daemon's bind, the kernel gives the
/// port to any client. So the port is taken from outside the range of `net.ipv4.ip_local_port_range`, unless nothing
/// is left there. Launchers exclude one another with the name of an abstract Unix socket, which exists once for each
/// network namespace, as the port does, and is gone when its process ends.
#[derive(Debug)]
pub struct ReservedPort {
    port: u16,
    _name: UnixDatagram,
}

impl ReservedPort {
    /// Reserves `count` ports of an address.
    ///
    /// # Errors
    /// Too few ports are free, the address is not one of this machine, or no socket can be made.
    pub fn several(address: IpAddr, count: usize) -> io::Result<Vec<Self>> {
        let (first, last) = local_ports();
        let by_kernel = |port: &u16| (first..=last).contains(&u64::from(*port));
        let mut ports: Vec<u16> = DAEMON_PORTS.filter(|port| !by_kernel(port)).collect();
        if ports.len() < 1_000 {
            ports = DAEMON_PORTS.collect();
        }
        // The keys of a hash are random: programs that start together begin their searches at different ports, and a
        // port is not used again while connections to its last daemon are in TIME_WAIT.
        let begin = RandomState::new().hash_one(()) as usize % ports.len();
        ports.rotate_left(begin);
        let mut reserved = Vec::with_capacity(count);
        for port in ports {
            if reserved.len() == count {
                break;
            }
            reserved.extend(Self::reserve(address, port)?);
        }
        if reserved.len() < count {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        Ok(reserved)
    }

    /// Reserves this port, unless somebody uses it.
    fn reserve(address: IpAddr, port: u16) -> io::Result<Option<Self>> {
        let name = SocketAddr::from_abstract_name(format!("drover-port-{port}"))?;
        let in_use = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse;
        let name = match UnixDatagram::bind_addr(&name) {
            Ok(name) => name,
            Err(error) if in_use(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        match TcpListener::bind((address, port)) {
            Ok(_) => Ok(Some(Self { port, _name: name })),
            Err(error) if in_use(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCALHOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn ports_of_one_run_differ_and_can_be_bound() {
        let ports = ReservedPort::several(LOCALHOST, 9).unwrap();
        let different: std::collections::BTreeSet<_> =
            ports.iter().map(ReservedPort::port).collect();
        assert_eq!(different.len(), 9);
        for port in different {
            TcpListener::bind(("127.0.0.1", port)).unwrap();
        }
    }

    #[test]
    fn a_reserved_port_is_given_to_nobody_else_until_it_is_returned() {
        let port = ReservedPort::several(LOCALHOST, 1).unwrap().remove(0);
        let number = port.port();
        assert!(ReservedPort::reserve(LOCALHOST, number).unwrap().is_none());
        drop(port);
        assert!(ReservedPort::reserve(LOCALHOST, number).unwrap().is_some());
    }

    #[test]
    fn a_port_with_a_listener_is_not_reserved() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(ReservedPort::reserve(LOCALHOST, port).unwrap().is_none());
    }
}
