//! The application behind the namespaces of a server.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::disconnect_reason::DisconnectReason;
use crate::socket::Socket;

/// An application behind the namespaces of a server.
///
/// The calls for one socket come one after the other, in the order of its packets: `connect` first, `disconnect` last.
/// The calls for several sockets come from several threads at once. A call must not block, because its thread serves
/// other connections too. The frames that a call sends are written after it returns, in one write per socket.
pub trait App: Send + Sync + 'static {
    /// Decides whether a client may connect to a namespace, whose name begins with a slash; by default, to the main one
    /// alone. `auth` is the value that the client sent with its request.
    ///
    /// # Errors
    /// The client is refused with this message. Its connection stays open.
    fn admit(&self, namespace: &str, _auth: Option<&RawValue>) -> Result<(), String> {
        match namespace {
            "/" => Ok(()),
            _ => Err("Invalid namespace".to_owned()),
        }
    }

    /// Handles a client that was admitted and has connected to a namespace. Frames sent from here follow the answer to
    /// its request.
    fn connect(&self, _socket: &Arc<Socket>, _auth: Option<&RawValue>) {}

    /// Handles an event of a connected client.
    fn event(&self, socket: &Arc<Socket>, event: Event<'_>);

    /// Handles the end of a socket that was connected. Frames that are sent to it from now on are dropped.
    fn disconnect(&self, _socket: &Arc<Socket>, _reason: DisconnectReason) {}
}

impl fmt::Debug for dyn App {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("App")
    }
}

/// An event of a client.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// The name of the event.
    pub name: &'a str,
    /// The arguments after the name: JSON values separated by commas, without brackets; empty if there are none. They
    /// are valid JSON of any depth.
    pub arguments: &'a str,
    /// The id of the acknowledgement that the client waits for; pass it to [`Socket::ack`].
    pub ack: Option<u64>,
    /// The binary attachments, in the order of their placeholders in the arguments.
    pub attachments: &'a [Bytes],
}
