//! Sockets of Socket.IO: a client in a namespace.

pub(crate) mod packet;

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde::Serialize;

use crate::engine::connection::Connection;
use crate::engine::frame::{Frame, Opcode, write_json, write_namespace};

/// A client in a namespace, for an application to send to.
#[derive(Debug)]
pub struct Socket {
    id: Id,
    /// `None` for the main namespace.
    namespace: Option<Box<str>>,
    connection: Arc<Connection>,
    is_connected: AtomicBool,
    data: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl Socket {
    pub(crate) fn new(namespace: &str, connection: Arc<Connection>) -> Arc<Self> {
        Arc::new(Self {
            id: Id::new(),
            namespace: (namespace != "/").then(|| namespace.into()),
            connection,
            is_connected: AtomicBool::new(true),
            data: OnceLock::new(),
        })
    }

    /// Returns the Socket.IO id: 20 characters that may stand in a URL.
    #[must_use]
    #[inline]
    pub fn id(&self) -> &str {
        self.id.as_str()
    }

    /// Returns the namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or("/")
    }

    /// Returns true until the socket is disconnected.
    #[must_use]
    #[inline]
    pub fn is_connected(&self) -> bool {
        self.is_connected.load(Relaxed)
    }

    /// Returns the application's data of this socket; the first call creates it.
    ///
    /// # Panics
    /// An earlier call named another type.
    pub fn data<T: Any + Send + Sync + Default>(&self) -> &T {
        let data = self.data.get_or_init(|| Box::new(T::default()));
        data.downcast_ref()
            .expect("an application uses one type of data")
    }

    /// Sends a frame: an event, from [`Frame::with_event`]. It is dropped if the socket is disconnected.
    #[inline]
    pub fn send(&self, frame: &Frame) {
        if self.is_connected() {
            self.connection.send(frame.clone());
        }
    }

    /// Answers an event with one value.
    ///
    /// # Panics
    /// The value cannot be serialized: a map with keys that are no strings.
    pub fn ack(&self, id: u64, answer: &impl Serialize) {
        self.ack_with(id, &[], |out| write_json(out, answer));
    }

    /// Answers an event with JSON values separated by commas, which `write` appends to the vector it is given, and the
    /// attachments that they have placeholders for.
    pub fn ack_with(&self, id: u64, attachments: &[Bytes], write: impl FnOnce(&mut Vec<u8>)) {
        self.send_packet((b'3', b'6'), Some(id), attachments, write);
    }

    /// Sends an event with attachments. `write` appends its name and arguments, JSON values separated by commas.
    pub fn send_event(&self, attachments: &[Bytes], write: impl FnOnce(&mut Vec<u8>)) {
        self.send_packet((b'2', b'5'), None, attachments, write);
    }

    fn send_packet(
        &self,
        (plain, binary): (u8, u8),
        id: Option<u64>,
        attachments: &[Bytes],
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let frame = Frame::with_payload(Opcode::Text, |out| {
            out.push(b'4');
            if attachments.is_empty() {
                out.push(plain);
            } else {
                out.push(binary);
                write_json(out, &attachments.len());
                out.push(b'-');
            }
            write_namespace(out, self.namespace());
            if let Some(id) = id {
                write_json(out, &id);
            }
            out.push(b'[');
            write(out);
            out.push(b']');
        });
        let binary = attachments.iter().map(|bytes| Frame::from_binary(bytes));
        let frames = [frame].into_iter().chain(binary);
        match id {
            _ if !self.is_connected() => {}
            Some(_) => self.connection.answer(frames),
            None => self.connection.send_all(frames),
        }
    }

    /// Marks the socket as disconnected. Returns false if it was already.
    pub(crate) fn disconnect(&self) -> bool {
        self.is_connected.swap(false, Relaxed)
    }
}

/// A random id of 20 characters that may stand in a URL.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Id([u8; 20]);

impl Id {
    pub(crate) fn new() -> Self {
        let mut text = [0; 20];
        let written = BASE64_URL_SAFE_NO_PAD.encode_slice(rand::random::<[u8; 15]>(), &mut text);
        written.expect("15 bytes are 20 characters");
        Self(text)
    }

    /// Parses an id that a client sent.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes().try_into().ok()?;
        Some(Self(bytes))
    }

    #[inline]
    pub(crate) fn as_str(&self) -> &str {
        str::from_utf8(&self.0).expect("it was made or parsed from text")
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
