//! A WebSocket client that can also send frames that RFC 6455 forbids.

use std::io::{ErrorKind, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use tungstenite::error::ProtocolError;
use tungstenite::handshake::HandshakeError;
use tungstenite::protocol::{CloseFrame, frame::coding::CloseCode};
use tungstenite::{Error, Message};

use crate::server::{LIMIT, Server, Stopwatch};

/// The key with which raw frames are masked.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
/// The bit of the first byte that marks the last frame of a message.
pub(crate) const FIN: u8 = 0x80;
/// The opcodes of frames.
pub(crate) const CONTINUATION: u8 = 0;
pub(crate) const TEXT: u8 = 1;
pub(crate) const CLOSE: u8 = 8;
pub(crate) const PING: u8 = 9;
pub(crate) const PONG: u8 = 10;

/// A WebSocket connection.
#[derive(Debug)]
pub(crate) struct WebSocket(tungstenite::WebSocket<TcpStream>);

/// A message from the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Received {
    Text(String),
    Binary(Vec<u8>),
    Pong(Vec<u8>),
    /// The end of the connection, with the code of the close frame if there was one.
    Closed(Option<u16>),
}

/// The outcome of a handshake.
#[derive(Debug)]
pub(crate) enum Opened {
    Accepted(Box<WebSocket>),
    /// The server answered with another HTTP status than 101, or closed the connection (`None`).
    Refused(Option<u16>),
}

impl WebSocket {
    /// Opens a connection.
    pub(crate) fn open(server: &Server, target: &str) -> anyhow::Result<Self> {
        match Self::try_open(server, target)? {
            Opened::Accepted(socket) => Ok(*socket),
            Opened::Refused(status) => bail!("the server refused a WebSocket: status {status:?}"),
        }
    }

    /// Opens a connection that the server may refuse.
    pub(crate) fn try_open(server: &Server, target: &str) -> anyhow::Result<Opened> {
        let url = format!("ws://{}{target}", server.host());
        match tungstenite::client(url, server.dial()?) {
            Ok((socket, _)) => Ok(Opened::Accepted(Box::new(Self(socket)))),
            Err(HandshakeError::Failure(Error::Http(response))) => {
                Ok(Opened::Refused(Some(response.status().as_u16())))
            }
            Err(HandshakeError::Failure(error)) if is_end(&error) => Ok(Opened::Refused(None)),
            Err(HandshakeError::Failure(error)) => Err(error).context("opening a WebSocket"),
            Err(HandshakeError::Interrupted(_)) => {
                bail!("no answer to a WebSocket handshake within {LIMIT:?}")
            }
        }
    }

    pub(crate) fn send_text(&mut self, text: &str) -> anyhow::Result<()> {
        self.0
            .send(Message::text(text))
            .context("sending a text message")
    }

    pub(crate) fn send_binary(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let message = Message::binary(bytes.to_vec());
        self.0.send(message).context("sending a binary message")
    }

    /// Sends a close frame.
    pub(crate) fn send_close(&mut self, code: u16) -> anyhow::Result<()> {
        let frame = CloseFrame {
            code: CloseCode::from(code),
            reason: "".into(),
        };
        self.0.close(Some(frame)).context("sending a close frame")
    }

    /// Sends bytes as they are. If the server has ended the connection, the next read reports it.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        match self.0.get_mut().write_all(bytes) {
            Err(error) if is_reset(error.kind()) => Ok(()),
            other => other.context("sending frames"),
        }
    }

    /// Returns the next message. Pings are answered.
    pub(crate) fn receive(&mut self) -> anyhow::Result<Received> {
        loop {
            return Ok(match self.0.read() {
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

    /// Asserts that the server answers a ping. Messages before the ping have then reached the server.
    pub(crate) fn is_alive(&mut self) -> anyhow::Result<()> {
        self.send_raw(&frame(FIN | PING, b"alive"))?;
        let answer = self.receive()?;
        ensure!(
            answer == Received::Pong(b"alive".to_vec()),
            "the answer to a ping is {answer:?}"
        );
        Ok(())
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

    /// Returns true if the connection ends within a time. Messages before its end are skipped.
    pub(crate) fn ends_within(&mut self, limit: Duration) -> anyhow::Result<bool> {
        let began = Stopwatch::new();
        loop {
            let left = limit.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Ok(false);
            }
            self.0.get_ref().set_read_timeout(Some(left))?;
            match self.0.read() {
                Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => {}
                Ok(Message::Close(_)) => return Ok(true),
                Err(error) if is_end(&error) => return Ok(true),
                Ok(_) => {}
                Err(error) => return Err(error).context("the server violates RFC 6455"),
            }
        }
    }

    /// Sends a text message at every interval until the returned value is dropped. A thread of its own sends each
    /// message with one small write, so that it does not split a frame of the calling thread.
    pub(crate) fn repeat(&self, text: &str, interval: Duration) -> anyhow::Result<Repeater> {
        let mut stream = self
            .0
            .get_ref()
            .try_clone()
            .context("duplicating a socket")?;
        let message = frame(FIN | TEXT, text.as_bytes());
        let (stop, stopped) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout)
                && stream.write_all(&message).is_ok()
            {}
        });
        Ok(Repeater {
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Closes the TCP connection without a close frame.
    pub(crate) fn disconnect(self) -> anyhow::Result<()> {
        self.0
            .get_ref()
            .shutdown(Shutdown::Both)
            .context("closing a connection")
    }

    /// Resets the TCP connection.
    pub(crate) fn reset(self) -> anyhow::Result<()> {
        let linger = libc::linger {
            l_onoff: 1,
            l_linger: 0,
        };
        setsockopt(self.0.get_ref(), sockopt::Linger, &linger).context("setting SO_LINGER")
    }
}

/// The thread of [`WebSocket::repeat`].
#[derive(Debug)]
pub(crate) struct Repeater {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Drop for Repeater {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread cannot panic, and a panic here could abort the process.
            let _ = thread.join();
        }
    }
}

/// Returns a frame with this first byte (flags and opcode), masked as clients must.
pub(crate) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = head(first, payload.len(), 0x80);
    bytes.extend(MASK);
    let key = MASK.into_iter().cycle();
    bytes.extend(payload.iter().zip(key).map(|(byte, key)| byte ^ key));
    bytes
}

/// Returns a frame that is not masked.
pub(crate) fn unmasked_frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = head(first, payload.len(), 0);
    bytes.extend(payload);
    bytes
}

/// Returns the head of a frame (RFC 6455, 5.2), up to the masking key.
pub(crate) fn head(first: u8, length: usize, mask: u8) -> Vec<u8> {
    let short = u8::try_from(length).ok().filter(|short| *short < 126);
    match (short, u16::try_from(length)) {
        (Some(short), _) => vec![first, mask | short],
        (None, Ok(middle)) => [&[first, mask | 126], &middle.to_be_bytes()[..]].concat(),
        (None, Err(_)) => [&[first, mask | 127], &(length as u64).to_be_bytes()[..]].concat(),
    }
}

fn is_reset(kind: ErrorKind) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(
        kind,
        BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof
    )
}

/// Returns true if the error is a frame that RFC 6455 forbids, and not a timeout.
pub(crate) fn is_violation(error: &anyhow::Error) -> bool {
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
        assert_eq!(frame(FIN | TEXT, b"Hello"), expected);
        assert_eq!(unmasked_frame(FIN | TEXT, b"Hi"), [0x81, 2, b'H', b'i']);
    }
}
