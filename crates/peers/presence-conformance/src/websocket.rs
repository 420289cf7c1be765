//! A WebSocket client that can also send frames that RFC 6455 forbids.

use std::fmt;
use std::io::{ErrorKind, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use tungstenite::error::ProtocolError;
use tungstenite::handshake::HandshakeError;
use tungstenite::protocol::{CloseFrame, frame::coding::CloseCode};
use tungstenite::{Error, Message};

use serde_json::Value;

use crate::expect::expect_eq;
use crate::handshake::{self, WEBSOCKET};
use crate::pattern::bytes;
use crate::server::{LIMIT, Server};
use crate::transport::Transport;

/// The key with which raw frames are masked.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
/// The bits of the first byte of a frame, and its opcodes (RFC 6455, 5.2).
const FIRST: [(&str, u8); 9] = [
    ("fin", FIN),
    ("rsv1", 0x40),
    ("rsv2", 0x20),
    ("rsv3", 0x10),
    ("continuation", 0),
    ("text", TEXT),
    ("close", 8),
    ("ping", PING),
    ("pong", 10),
];
const FIN: u8 = 0x80;
const TEXT: u8 = 1;
const PING: u8 = 9;

/// A WebSocket connection.
#[derive(Debug)]
pub(crate) struct WebSocket {
    connection: tungstenite::WebSocket<TcpStream>,
    /// The data of the open packet. `Null` if the connection belongs to a session over polling.
    handshake: Value,
}

/// A message from the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Received {
    Text(String),
    Binary(Vec<u8>),
    Pong(Vec<u8>),
    /// The end of the connection, with the code of the close frame if there was one.
    Closed(Option<u16>),
}

impl fmt::Display for Received {
    /// Writes text as it is, apart from NUL, and what is no text as scripts name it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => formatter.write_str(&text.replace('\0', "\\x00")),
            Self::Binary(bytes) => write!(formatter, "binary:{}", bytes.escape_ascii()),
            Self::Pong(bytes) => write!(formatter, "pong:{}", bytes.escape_ascii()),
            Self::Closed(None) => formatter.write_str("end"),
            Self::Closed(Some(code)) => write!(formatter, "end {code}"),
        }
    }
}

impl WebSocket {
    /// Opens a session without polling first.
    pub(crate) fn session(server: &Server) -> anyhow::Result<Self> {
        let mut socket = Self::open(server, &server.target(WEBSOCKET))?;
        let packet = socket.receive()?.to_string();
        socket.handshake = handshake::parse(&packet)?;
        Ok(socket)
    }

    /// Opens a connection.
    pub(crate) fn open(server: &Server, target: &str) -> anyhow::Result<Self> {
        let opened = Self::try_open(server, target)?;
        opened.map_err(|status| anyhow!("the server refused a WebSocket: status {status:?}"))
    }

    /// Opens a connection. A server may refuse it with an HTTP status, or close the connection (`None`).
    fn try_open(server: &Server, target: &str) -> anyhow::Result<Result<Self, Option<u16>>> {
        let url = format!("ws://{}{target}", server.host());
        match tungstenite::client(url, server.dial()?) {
            Ok((connection, _)) => Ok(Ok(Self {
                connection,
                handshake: Value::Null,
            })),
            Err(HandshakeError::Failure(Error::Http(response))) => {
                Ok(Err(Some(response.status().as_u16())))
            }
            Err(HandshakeError::Failure(error)) if is_end(&error) => Ok(Err(None)),
            Err(HandshakeError::Failure(error)) => Err(error).context("opening a WebSocket"),
            Err(HandshakeError::Interrupted(_)) => {
                bail!("no answer to a WebSocket handshake within {LIMIT:?}")
            }
        }
    }

    /// Asserts that a WebSocket is refused with one of these statuses, or closed before anything else. No status stands
    /// for all that blame the client, and for the end of the connection.
    pub(crate) fn is_refused(
        server: &Server,
        target: &str,
        statuses: &[u16],
    ) -> anyhow::Result<()> {
        let mut socket = match Self::try_open(server, target)? {
            Ok(socket) => socket,
            Err(status) => {
                let is_right = match status {
                    _ if statuses.is_empty() => status.is_none_or(|it| (400..500).contains(&it)),
                    None => false,
                    Some(status) => statuses.contains(&status),
                };
                ensure!(is_right, "status {status:?}, expected {statuses:?} or 4xx");
                return Ok(());
            }
        };
        let may_close = statuses.is_empty() || statuses.contains(&400);
        ensure!(may_close, "the server accepted a WebSocket");
        // npm's engine.io accepts the WebSocket, and then closes it or sends an HTTP response with status 400 on it.
        match socket.receive() {
            Ok(Received::Closed(_)) => Ok(()),
            Ok(first) => bail!("the server sent {first:?}"),
            Err(error) if is_violation(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Sends a close frame.
    pub(crate) fn send_close(&mut self, code: u16) -> anyhow::Result<()> {
        let frame = CloseFrame {
            code: CloseCode::from(code),
            reason: "".into(),
        };
        self.connection
            .close(Some(frame))
            .context("sending a close frame")
    }

    /// Sends bytes as they are. If the server has ended the connection, the next read reports it.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        match self.connection.get_mut().write_all(bytes) {
            Err(error) if is_reset(error.kind()) => Ok(()),
            other => other.context("sending frames"),
        }
    }

    /// Asserts that the server answers a ping. Messages before the ping have then reached the server.
    pub(crate) fn is_alive(&mut self) -> anyhow::Result<()> {
        self.send_raw(&frame(FIN | PING, b"alive"))?;
        expect_eq(
            "the answer to a ping",
            self.receive()?.to_string(),
            "pong:alive",
        )
    }

    /// Asserts that the connection ends. A close frame must have one of these codes, or none.
    pub(crate) fn ends_with(&mut self, codes: &[u16]) -> anyhow::Result<()> {
        loop {
            if let Received::Closed(code) = self.receive()? {
                ensure!(
                    code.is_none_or(|code| codes.contains(&code)),
                    "close code {code:?}, expected one of {codes:?}"
                );
                return Ok(());
            }
        }
    }

    /// Sends a text message at every interval until the returned value is dropped or the connection ends. A thread of its
    /// own sends each message with one small write, so that it does not split a frame of the calling thread.
    pub(crate) fn repeat(&self, text: &str, interval: Duration) -> anyhow::Result<Repeater> {
        let stream = self.connection.get_ref().try_clone();
        let mut stream = stream.context("duplicating a socket")?;
        let message = frame(FIN | TEXT, text.as_bytes());
        let (repeater, dropped) = mpsc::channel();
        thread::spawn(move || {
            while dropped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout)
                && stream.write_all(&message).is_ok()
            {}
        });
        Ok(repeater)
    }

    /// Closes the TCP connection without a close frame.
    pub(crate) fn disconnect(&self) -> anyhow::Result<()> {
        self.connection
            .get_ref()
            .shutdown(Shutdown::Both)
            .context("closing a connection")
    }

    /// Has the end of this value reset the TCP connection.
    pub(crate) fn reset(&self) -> anyhow::Result<()> {
        let linger = libc::linger {
            l_onoff: 1,
            l_linger: 0,
        };
        setsockopt(self.connection.get_ref(), sockopt::Linger, &linger).context("setting SO_LINGER")
    }
}

impl Transport for WebSocket {
    fn handshake(&self) -> &Value {
        &self.handshake
    }

    fn websocket(&mut self) -> anyhow::Result<&mut WebSocket> {
        Ok(self)
    }

    fn send(&mut self, packet: &str) -> anyhow::Result<()> {
        let sent = self.connection.send(Message::text(packet));
        sent.context("sending a text message")
    }

    fn send_binary(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let sent = self.connection.send(Message::binary(bytes.to_vec()));
        sent.context("sending a binary message")
    }

    /// Pings of RFC 6455 are answered.
    fn receive(&mut self) -> anyhow::Result<Received> {
        loop {
            return Ok(match self.connection.read() {
                Ok(Message::Text(text)) => Received::Text(text.to_string()),
                Ok(Message::Binary(bytes)) => Received::Binary(bytes.to_vec()),
                Ok(Message::Pong(bytes)) => Received::Pong(bytes.to_vec()),
                Ok(Message::Close(frame)) => {
                    Received::Closed(frame.map(|frame| u16::from(frame.code)))
                }
                Ok(Message::Ping(_) | Message::Frame(_)) => continue,
                Err(error) if is_end(&error) => Received::Closed(None),
                Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => {
                    bail!("no message within {LIMIT:?}")
                }
                Err(error) => return Err(error).context("the server violates RFC 6455"),
            });
        }
    }
}

/// Ends the thread of [`WebSocket::repeat`] when it is dropped.
pub(crate) type Repeater = mpsc::Sender<()>;

/// Returns frames that are written as `fin+text:40 fin+3:a`: the flags and the opcode, by name or number, and the
/// payload, in which `\\xff` is a byte. They are masked as clients must, except after `unmasked+`. `raw:` precedes bytes
/// that are no whole frame.
///
/// # Errors
/// An opcode has no such name.
pub(crate) fn frames(text: &str) -> anyhow::Result<Vec<u8>> {
    let mut frames = Vec::new();
    for part in text.split(' ') {
        let (first, payload) = part.split_once(':').context("no `opcode:payload`")?;
        let payload = bytes(payload)?;
        if first == "raw" {
            frames.extend(payload);
            continue;
        }
        let masked = first.strip_prefix("unmasked+").is_none();
        let mut byte = 0;
        for name in first.trim_start_matches("unmasked+").split('+') {
            let known = FIRST.iter().find(|(known, _)| *known == name);
            byte |= known.map_or_else(|| name.parse(), |(_, bits)| Ok(*bits))?;
        }
        frames.extend(if masked {
            frame(byte, &payload)
        } else {
            [head(byte, payload.len(), 0), payload].concat()
        });
    }
    Ok(frames)
}

/// Returns a frame with this first byte (flags and opcode), masked as clients must.
pub(crate) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = head(first, payload.len(), 0x80);
    bytes.extend(MASK);
    let key = MASK.into_iter().cycle();
    bytes.extend(payload.iter().zip(key).map(|(byte, key)| byte ^ key));
    bytes
}

/// Returns the head of a frame (RFC 6455, 5.2), up to the masking key.
fn head(first: u8, length: usize, mask: u8) -> Vec<u8> {
    let short = u8::try_from(length).ok().filter(|short| *short < 126);
    match (short, u16::try_from(length)) {
        (Some(short), _) => vec![first, mask | short],
        (None, Ok(middle)) => [&[first, mask | 126], &middle.to_be_bytes()[..]].concat(),
        (None, Err(_)) => [&[first, mask | 127], &(length as u64).to_be_bytes()[..]].concat(),
    }
}

/// Returns true if an error means that the peer has ended a connection.
pub(crate) fn is_reset(kind: ErrorKind) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(
        kind,
        BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof
    )
}

/// Returns true if the error is a frame that RFC 6455 forbids, and not a timeout.
fn is_violation(error: &anyhow::Error) -> bool {
    let found = error.downcast_ref::<Error>();
    found.is_some_and(|error| matches!(error, Error::Protocol(_)))
}

/// Returns true if the error means that the server has ended the connection.
fn is_end(error: &Error) -> bool {
    match error {
        Error::ConnectionClosed | Error::AlreadyClosed => true,
        Error::Protocol(error) => matches!(
            error,
            ProtocolError::ResetWithoutClosingHandshake | ProtocolError::HandshakeIncomplete
        ),
        Error::Io(error) => is_reset(error.kind()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_frame_has_the_shortest_length() {
        assert_eq!(head(FIN | TEXT, 125, 0x80), [0x81, 0xfd]);
        assert_eq!(head(FIN | TEXT, 126, 0), [0x81, 126, 0, 126]);
        assert_eq!(
            head(FIN | TEXT, 65_536, 0),
            [0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]
        );
    }

    #[test]
    fn a_frame_is_masked_with_its_key() {
        // RFC 6455, 5.7: a masked text message "Hello".
        let expected = [
            0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58,
        ];
        assert_eq!(frames("fin+text:Hello").unwrap(), expected);
        let hi = frames("unmasked+fin+text:H\\x69 raw:\\xff").unwrap();
        assert_eq!(hi, [0x81, 2, b'H', b'i', 0xff]);
        assert!(frames("fin+nonesuch:").is_err());
    }
}
