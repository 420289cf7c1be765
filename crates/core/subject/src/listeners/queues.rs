//! Counts the connections that wait in the accept queues of a target.

use load::driver::Target;

use super::local_address::LocalAddress;
use super::tcp::TcpQueues;
use super::unix::UnixQueues;

/// The accept queues of all addresses of a target.
#[derive(Debug)]
pub struct AcceptQueues {
    sockets: Option<UnixQueues>,
    hosts: Option<TcpQueues>,
}

impl AcceptQueues {
    /// Opens the queues of a target; `None` if one of its addresses is on another machine, or if the kernel does not
    /// report the queues. Resolves host names.
    #[must_use]
    pub fn open(target: &Target) -> Option<Self> {
        let (mut paths, mut hosts) = (Vec::new(), Vec::new());
        for address in &target.addresses {
            match LocalAddress::from_address(address)? {
                LocalAddress::Unix(path) => paths.push(path),
                LocalAddress::Tcp(host) => hosts.push(host),
            }
        }
        let sockets = if paths.is_empty() {
            None
        } else {
            Some(UnixQueues::new(&paths).ok()?)
        };
        let hosts = if hosts.is_empty() {
            None
        } else {
            Some(TcpQueues::new(hosts).ok()?)
        };
        Some(Self { sockets, hosts })
    }

    /// Counts the connections that wait at this moment, summed over the sockets; `None` if one of the sockets can't be
    /// found.
    pub fn pending(&mut self) -> Option<u64> {
        let of_sockets = self.sockets.as_mut().map_or(Some(0), UnixQueues::pending)?;
        let of_hosts = self.hosts.as_mut().map_or(Some(0), TcpQueues::pending)?;
        Some(of_sockets + of_hosts)
    }

    /// Counts the connections that the TCP sockets dropped between the first and the last count of
    /// [`pending`](Self::pending), for example because a queue was full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.hosts.as_ref().map_or(0, TcpQueues::dropped)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};

    use load::driver::Address;

    use super::*;

    #[test]
    fn the_queues_of_sockets_and_hosts_are_summed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let _unix = UnixListener::bind(&path).unwrap();
        let at = tcp.local_addr().unwrap();
        let addresses = vec![
            Address::Socket(path.clone()),
            Address::Url(format!("http://{at}/")),
        ];
        let mut queues = AcceptQueues::open(&Target { addresses }).unwrap();
        assert_eq!(queues.pending(), Some(0));
        let _clients = [UnixStream::connect(&path), UnixStream::connect(&path)];
        let _client = TcpStream::connect(at).unwrap();
        assert_eq!(queues.pending(), Some(3));
        drop(tcp);
        assert_eq!(queues.pending(), None);
    }

    #[test]
    fn the_queue_of_another_machine_is_unknown() {
        let target = Target::of_urls(vec!["http://192.0.2.1/".to_owned()]);
        assert!(AcceptQueues::open(&target).is_none());
    }
}
