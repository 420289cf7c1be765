//! A session of Engine.IO: the state of one client, whichever transport it uses.

pub(crate) mod engine;
pub(crate) mod inbox;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crate::app::App;
use crate::counts::Count;
use crate::disconnect_reason::DisconnectReason;
use crate::engine::connection::Connection;
use crate::engine::frame::{Frame, Opcode};
use crate::engine::payload::decode_base64;
use crate::engine::websocket::{Fault, Message, close_frame};
use crate::session::engine::{Engine, millis};
use crate::session::inbox::{Inbox, Receiver};
use crate::socket::Id;

/// The packet that does nothing, and ends a poll.
const NOOP: &str = "6";
/// The packet that closes a session.
const CLOSE: &str = "1";

/// A session of Engine.IO.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: Id,
    pub(crate) connection: Arc<Connection>,
    /// Milliseconds of the engine's clock at which the next ping is due.
    pub(crate) next_ping: AtomicU64,
    /// A POST request is being handled.
    pub(crate) is_posting: AtomicBool,
    /// A WebSocket has begun to take over.
    pub(crate) is_upgrading: AtomicBool,
    opened: u64,
    protocol: Protocol,
    inbox: Mutex<Inbox>,
    engine: Arc<Engine>,
}

/// The protocol of the messages of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Packets of Socket.IO.
    SocketIo,
    /// Anything; each message is sent back.
    Echo,
}

impl Session {
    /// Creates a session that is polled. Returns `None` if the server has all the sessions that it may have.
    pub(crate) fn new(engine: &Arc<Engine>, protocol: Protocol) -> Option<Arc<Self>> {
        if !engine.counts.begin_session(engine.config.max_connections) {
            engine.counts.add(Count::HandshakesFull, 1);
            return None;
        }
        let opened = engine.now();
        let config = &engine.config;
        Some(Arc::new(Self {
            id: Id::new(),
            connection: Connection::new(config.outbound_limit, Arc::clone(&engine.counts)),
            next_ping: AtomicU64::new(opened + millis(config.ping_interval)),
            is_posting: AtomicBool::new(false),
            is_upgrading: AtomicBool::new(false),
            opened,
            protocol,
            inbox: Mutex::default(),
            engine: Arc::clone(engine),
        }))
    }

    /// Returns the packet that opens the session.
    pub(crate) fn handshake(&self, upgrades: &[&str]) -> String {
        let config = &self.engine.config;
        let open = serde_json::json!({
            "sid": self.id.as_str(),
            "upgrades": upgrades,
            "pingInterval": millis(config.ping_interval),
            "pingTimeout": millis(config.ping_timeout),
            "maxPayload": config.max_payload,
        });
        format!("0{open}")
    }

    /// Handles a message that the client sent over either transport.
    pub(crate) fn receive(&self, message: Message<'_>) -> Result<(), Fault> {
        self.engine.counts.add(Count::FramesReceived, 1);
        match message {
            Message::Text(packet) => self.receive_packet(packet),
            Message::Binary(bytes) => self.receive_binary(bytes),
            Message::Ping(payload) => {
                self.connection.send(pong(payload));
                Ok(())
            }
            Message::Pong => Ok(()),
            Message::Close(code) => {
                self.close(code, NOOP, DisconnectReason::Client);
                Ok(())
            }
        }
    }

    fn receive_binary(&self, bytes: &[u8]) -> Result<(), Fault> {
        match self.protocol {
            Protocol::SocketIo => {
                self.lock_inbox(|inbox| inbox.receive_binary(bytes, self.receiver()))
            }
            Protocol::Echo => {
                self.connection.send(Frame::from_binary(bytes));
                Ok(())
            }
        }
    }

    fn receive_packet(&self, packet: &str) -> Result<(), Fault> {
        match packet.as_bytes().first() {
            // Over a WebSocket too, from clients that are set to it.
            Some(b'b') => self.receive_binary(&decode_base64(&packet[1..])?),
            Some(b'4') => match self.protocol {
                Protocol::SocketIo => {
                    self.lock_inbox(|inbox| inbox.receive_text(&packet[1..], self.receiver()))
                }
                Protocol::Echo => {
                    self.connection.send(Frame::from_text(packet));
                    Ok(())
                }
            },
            Some(b'3') => {
                self.connection.awaits_pong.store(false, Relaxed);
                Ok(())
            }
            Some(b'1') if packet.len() == 1 => {
                self.close(Some(1000), NOOP, DisconnectReason::Client);
                Ok(())
            }
            // A late end of an upgrade, and a noop.
            Some(b'5' | b'6') => Ok(()),
            // In this version the server pings.
            _ => Err(Fault::Protocol),
        }
    }

    /// Ends the session because the client violated the protocol.
    pub(crate) fn refuse(&self, fault: Fault) {
        self.close(Some(fault.code()), CLOSE, DisconnectReason::ProtocolError);
    }

    /// Ends the session because the server stops. Official clients connect again after this, but not after a packet
    /// that disconnects them from a namespace.
    pub(crate) fn shut_down(&self) {
        self.close(Some(1001), CLOSE, DisconnectReason::Shutdown);
    }

    /// Notes that an upgrade to WebSocket has failed.
    pub(crate) fn end_upgrade(&self) {
        self.connection.set_probed(false);
        self.is_upgrading.store(false, Relaxed);
    }

    fn close(&self, code: Option<u16>, packet: &str, reason: DisconnectReason) {
        self.connection
            .close_with(|| close_frame(code), packet, reason);
    }

    /// Counts the end of the session, and disconnects its sockets.
    pub(crate) fn finish(&self, reason: DisconnectReason) {
        self.connection.close(reason);
        self.engine.counts.end_session(reason);
        self.lock_inbox(|inbox| inbox.end(&*self.engine.app, reason));
    }

    /// Returns the milliseconds of the engine's clock at which the client must have connected to a namespace.
    pub(crate) fn connect_due(&self) -> u64 {
        self.opened
            .saturating_add(millis(self.engine.config.connect_timeout))
    }

    /// Returns true if the client is in no namespace although the time to connect to one has passed.
    pub(crate) fn is_unused(&self) -> bool {
        self.protocol == Protocol::SocketIo
            && self.engine.now() >= self.connect_due()
            && self.lock_inbox(|inbox| inbox.is_empty())
    }

    fn receiver(&self) -> Receiver<'_> {
        let app: &dyn App = &*self.engine.app;
        Receiver {
            app,
            connection: &self.connection,
            limit: self.engine.config.max_payload,
        }
    }

    fn lock_inbox<T>(&self, act: impl FnOnce(&mut Inbox) -> T) -> T {
        // A panic of the application ends only the call that caused it.
        act(&mut self.inbox.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn pong(payload: &[u8]) -> Frame {
    Frame::with_payload(Opcode::Pong, |out| out.extend_from_slice(payload))
}
