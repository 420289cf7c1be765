//! Finds the local process at the other end of a TCP connection.

use std::net::TcpStream;

use subject::headroom;

/// Returns the process that listens at the other end, if it is on this machine and visible.
pub(crate) fn process_of(stream: &TcpStream) -> Option<u32> {
    let peer = stream.peer_addr().ok()?;
    if stream.local_addr().ok()?.ip() != peer.ip() {
        return None;
    }
    headroom::listeners(peer).first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_that_listens_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(process_of(&stream), Some(std::process::id()));
    }
}
