//! Which process of this machine a TCP connection leads to, as `ss -tlp` finds it: by the inode of the listener.

use std::fs;
use std::net::{SocketAddr, TcpStream};

/// State "listening" in `/proc/net/tcp` (proc_pid_net(5)).
const LISTENING: &str = "0A";

/// The process that listens at the other end, if it is on this machine and may be looked at.
pub(crate) fn of(stream: &TcpStream) -> Option<u32> {
    let peer = stream.peer_addr().ok()?;
    if stream.local_addr().ok()?.ip() != peer.ip() {
        return None;
    }
    let socket = format!("socket:[{}]", inode(peer)?);
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut owners = processes
        .filter(|process| {
            let descriptors = fs::read_dir(process.path().join("fd"));
            let mut links = descriptors.into_iter().flatten().flatten();
            links.any(|link| fs::read_link(link.path()).is_ok_and(|to| to.as_os_str() == &*socket))
        })
        .filter_map(|process| process.file_name().to_str()?.parse().ok());
    owners.next()
}

fn inode(address: SocketAddr) -> Option<u64> {
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
    use super::*;

    #[test]
    fn the_process_that_listens_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(of(&stream), Some(std::process::id()));
    }
}
