//! The receiving side of Socket.IO: the namespaces of a connection, and a packet whose attachments are on their way.

use std::mem;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use smallvec::SmallVec;

use crate::app::{App, Event};
use crate::disconnect_reason::DisconnectReason;
use crate::engine::connection::Connection;
use crate::engine::frame::{Frame, Opcode, write_json, write_namespace};
use crate::engine::websocket::Fault;
use crate::socket::Socket;
use crate::socket::packet::{Kind, Packet, has_numeric_name, is_array, split_event};

/// Namespaces that a connection may be in.
const MAX_NAMESPACES: usize = 16;

/// The namespaces of a connection.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// Most connections are in one namespace, which then needs no memory of its own.
    sockets: SmallVec<[Arc<Socket>; 1]>,
    pending: Option<Box<Pending>>,
    /// The session has ended: nobody would disconnect a socket that connects now.
    has_ended: bool,
}

/// A packet whose attachments have not all arrived.
#[derive(Debug)]
struct Pending {
    text: String,
    attachments: Vec<Bytes>,
    count: usize,
    length: usize,
}

/// The context in which a packet is handled.
#[derive(Clone, Copy)]
pub(crate) struct Receiver<'a> {
    pub(crate) app: &'a dyn App,
    pub(crate) connection: &'a Arc<Connection>,
    /// Bytes that a packet and its attachments may have together.
    pub(crate) limit: usize,
}

impl Inbox {
    /// Returns true if the client is in no namespace.
    pub(crate) fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }

    /// Handles a packet.
    pub(crate) fn receive_text(&mut self, text: &str, to: Receiver<'_>) -> Result<(), Fault> {
        if self.pending.is_some() || self.has_ended {
            return Err(Fault::Protocol);
        }
        let packet = Packet::parse(text).ok_or(Fault::Protocol)?;
        if packet.attachments == 0 {
            return self.handle(&packet, &[], to);
        }
        self.pending = Some(Box::new(Pending {
            text: text.to_owned(),
            attachments: Vec::new(),
            count: packet.attachments,
            length: text.len(),
        }));
        Ok(())
    }

    /// Handles an attachment.
    pub(crate) fn receive_binary(&mut self, bytes: &[u8], to: Receiver<'_>) -> Result<(), Fault> {
        let pending = self.pending.as_mut().ok_or(Fault::Protocol)?;
        pending.length = pending.length.saturating_add(bytes.len());
        if pending.length > to.limit {
            return Err(Fault::TooLarge);
        }
        pending.attachments.push(Bytes::copy_from_slice(bytes));
        if pending.attachments.len() < pending.count {
            return Ok(());
        }
        let complete = self.pending.take().ok_or(Fault::Protocol)?;
        // Parsed again, because a packet borrows its text.
        let packet = Packet::parse(&complete.text).ok_or(Fault::Protocol)?;
        self.handle(&packet, &complete.attachments, to)
    }

    /// Disconnects all sockets.
    pub(crate) fn end(&mut self, app: &dyn App, reason: DisconnectReason) {
        self.pending = None;
        self.has_ended = true;
        for socket in mem::take(&mut self.sockets) {
            if socket.disconnect() {
                app.disconnect(&socket, reason);
            }
        }
    }

    fn handle(
        &mut self,
        packet: &Packet<'_>,
        attachments: &[Bytes],
        to: Receiver<'_>,
    ) -> Result<(), Fault> {
        let found = self.position(packet.namespace);
        match (packet.kind, found) {
            (Kind::Connect, _) => self.connect(packet, found.is_some(), to),
            (Kind::Event, Some(index)) => {
                let Some((name, arguments)) = split_event(packet.data) else {
                    // No application here has such an event.
                    let is_ignored = has_numeric_name(packet.data);
                    return is_ignored.then_some(()).ok_or(Fault::Protocol);
                };
                let event = Event {
                    name: &name,
                    arguments,
                    ack: packet.id,
                    attachments,
                };
                to.app.event(&self.sockets[index], event);
                Ok(())
            }
            (Kind::Disconnect, Some(index)) if packet.data.is_empty() => {
                let socket = self.sockets.swap_remove(index);
                socket.disconnect();
                to.app.disconnect(&socket, DisconnectReason::Client);
                Ok(())
            }
            // This server asks for no acknowledgement, so one that comes is ignored.
            (Kind::Ack, Some(_)) if packet.id.is_some() && is_array(packet.data) => Ok(()),
            _ => Err(Fault::Protocol),
        }
    }

    fn connect(
        &mut self,
        packet: &Packet<'_>,
        is_connected: bool,
        to: Receiver<'_>,
    ) -> Result<(), Fault> {
        let auth = match packet.data {
            "" => None,
            data => {
                let json: Option<&RawValue> = serde_json::from_str(data).ok();
                let object = json.filter(|json| json.get().starts_with('{'));
                Some(object.ok_or(Fault::Protocol)?)
            }
        };
        if packet.id.is_some() {
            return Err(Fault::Protocol);
        }
        let refused = if is_connected {
            Some("Already connected".to_owned())
        } else if self.sockets.len() >= MAX_NAMESPACES {
            Some("Too many namespaces".to_owned())
        } else {
            to.app.admit(packet.namespace, auth).err()
        };
        if let Some(message) = refused {
            let message = ConnectError { message: &message };
            to.connection.send(answer(b'4', packet.namespace, &message));
            return Ok(());
        }
        let socket = Socket::new(packet.namespace, Arc::clone(to.connection));
        let admitted = Admission { sid: socket.id() };
        to.connection
            .send(answer(b'0', packet.namespace, &admitted));
        self.sockets.push(Arc::clone(&socket));
        to.app.connect(&socket, auth);
        Ok(())
    }

    fn position(&self, namespace: &str) -> Option<usize> {
        let mut sockets = self.sockets.iter();
        sockets.position(|socket| socket.namespace() == namespace)
    }
}

#[derive(Serialize)]
struct Admission<'a> {
    sid: &'a str,
}

#[derive(Serialize)]
struct ConnectError<'a> {
    message: &'a str,
}

fn answer(kind: u8, namespace: &str, data: &impl Serialize) -> Frame {
    Frame::with_payload(Opcode::Text, |out| {
        out.extend_from_slice(&[b'4', kind]);
        write_namespace(out, namespace);
        write_json(out, data);
    })
}
