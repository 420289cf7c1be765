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
use serde_json::Value;
use tungstenite::error::ProtocolError;
use tungstenite::handshake::HandshakeError;
use tungstenite::protocol::frame::coding::{Control, Data, OpCode};
use tungstenite::protocol::frame::{Frame, FrameHeader};
use tungstenite::{Error, Message};

use crate::expect::expect_eq;
use crate::handshake::{self, WEBSOCKET};
use crate::pattern::bytes;
use crate::server::{LIMIT, Server};
use crate::transport::Transport;

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
    /// Writes text as it is, apart from NUL, and other bytes as scripts name them.
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

    /// Sends bytes as they are. If the server has ended the connection, the next read reports it.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        match self.connection.get_mut().write_all(bytes) {
            Err(error) if is_reset(error.kind()) => Ok(()),
            other => other.context("sending frames"),
        }
    }

    /// Asserts that the server answers a ping. Messages before the ping have then reached the server.
    pub(crate) fn is_alive(&mut self) -> anyhow::Result<()> {
        self.send_raw(&frames("fin+ping:alive")?)?;
        expect_eq(
            "the answer to a ping",
            self.receive()?.to_string(),
            "pong:alive",
        )
    }

    /// Sends a text message at every interval until the returned value is dropped or the connection ends. A thread of its
    /// own sends each message with one small write, so that it does not split a frame of the calling thread.
    pub(crate) fn repeat(&self, text: &str, interval: Duration) -> anyhow::Result<Repeater> {
        let stream = self.connection.get_ref().try_clone();
        let mut stream = stream.context("duplicating a socket")?;
        let message = frames(&format!("fin+text:{text}"))?;
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
/// payload, in which `\xff` is a byte. They are masked as clients must, except with `unmasked`. `raw:` precedes bytes
/// that are no whole frame.
///
/// # Errors
/// An opcode has no such name.
pub(crate) fn frames(text: &str) -> anyhow::Result<Vec<u8>> {
    let mut frames = Vec::new();
    for part in text.split(' ') {
        let (names, payload) = part.split_once(':').context("no `opcode:payload`")?;
        let payload = bytes(payload)?;
        if names == "raw" {
            frames.extend(payload);
            continue;
        }
        let mut header = FrameHeader {
            is_final: false,
            mask: Some([0x37, 0xfa, 0x21, 0x3d]),
            ..FrameHeader::default()
        };
        for name in names.split('+') {
            match name {
                "fin" => header.is_final = true,
                "rsv1" => header.rsv1 = true,
                "rsv2" => header.rsv2 = true,
                "rsv3" => header.rsv3 = true,
                "unmasked" => header.mask = None,
                "continuation" => header.opcode = OpCode::Data(Data::Continue),
                "text" => header.opcode = OpCode::Data(Data::Text),
                "close" => header.opcode = OpCode::Control(Control::Close),
                "ping" => header.opcode = OpCode::Control(Control::Ping),
                "pong" => header.opcode = OpCode::Control(Control::Pong),
                number => header.opcode = OpCode::from(number.parse::<u8>()?),
            }
        }
        Frame::from_payload(header, payload.into()).format(&mut frames)?;
    }
    Ok(frames)
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
