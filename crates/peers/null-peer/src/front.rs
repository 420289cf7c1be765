//! The front of a streaming daemon: it reads an HTTP request and hands its connection over, as a web server does. The
//! daemon answers the client.

use std::os::fd::AsRawFd as _;

use fdpass_client::handoff::{DEFAULT_DATA, HandoffEndpoint, pass};
use load::clock;
use load::slots::Id;
use rustix::io::ioctl_fionbio;

use crate::connections::Connections;
use crate::http::request_length;
use crate::server::{Malformed, Protocol, Taken};

/// Time that a handoff may wait for room in the daemon's accept queue, nanoseconds.
const HANDOFF_LIMIT: u64 = 1_000_000_000;
/// The answer if the daemon does not take the connection.
const REFUSED: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// The protocol.
#[derive(Debug)]
pub(crate) struct Front {
    daemon: HandoffEndpoint,
}

impl Front {
    pub(crate) fn new(daemon: HandoffEndpoint) -> Self {
        Self { daemon }
    }
}

impl Protocol for Front {
    type State = ();
    /// The payload of the handoff: the body of the request.
    type Request = Vec<u8>;

    fn take(&mut self, (): &mut (), input: &[u8]) -> Result<Option<Taken<Vec<u8>>>, Malformed> {
        let Some((head, bytes)) = request_length(input)? else {
            return Ok(None);
        };
        let Some(body) = input.get(head..bytes) else {
            return Ok(None);
        };
        let payload = if body.is_empty() {
            DEFAULT_DATA.as_bytes()
        } else {
            body
        };
        Ok(Some(Taken::held(bytes, payload.to_vec())))
    }

    fn answer(&mut self, id: Id, payload: Vec<u8>, connections: &mut Connections<()>) -> Id {
        let Some(connection) = connections.get_mut(id) else {
            return id;
        };
        let client = connection.socket.as_raw_fd();
        let until = clock::now() + HANDOFF_LIMIT;
        // A web server hands over sockets in blocking mode.
        let handed_over = ioctl_fionbio(&connection.socket, false).is_ok()
            && self
                .daemon
                .connect_until(until)
                .and_then(|handoff| pass(&handoff, &payload, client))
                .is_ok();
        if handed_over {
            connections.release(id);
        } else {
            connections.append(id, REFUSED);
            connections.close(id);
        }
        id
    }
}
