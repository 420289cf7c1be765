//! A connection: the WebSocket after the handshakes of Engine.IO and Socket.IO.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{Sink as _, SinkExt as _, Stream as _, StreamExt as _};
use serde::Deserialize;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Error as WebSocketError;
use tokio_tungstenite::tungstenite::error::{CapacityError, ProtocolError};
use tokio_tungstenite::tungstenite::protocol::{Message, Role, WebSocketConfig};

use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::event::DisconnectCause;
use crate::options::Options;
use crate::packet::Packet;
use crate::transport::Transport;
use crate::upgrade::upgrade;

/// An open connection.
#[derive(Debug)]
pub(crate) struct Wire {
    socket: WebSocketStream<Transport>,
    /// The time within which the server's next ping must arrive.
    pub(crate) ping_within: Duration,
    has_unflushed: bool,
}

/// The Engine.IO handshake.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Open {
    ping_interval: u64,
    ping_timeout: u64,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(default)]
    message: String,
}

/// Engine.IO announces intervals in milliseconds; a longer one than this is a mistake.
const LONGEST_PING_MS: u64 = 86_400_000;

impl Wire {
    /// Opens a connection within the connect timeout.
    pub(crate) async fn open(endpoint: &Endpoint, options: &Options) -> Result<Self, Error> {
        let timeout = options.connect_timeout;
        match tokio::time::timeout(timeout, Self::handshake(endpoint, options)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Error::Timeout {
                request: "connect",
                after: timeout,
            }),
        }
    }

    async fn handshake(endpoint: &Endpoint, options: &Options) -> Result<Self, Error> {
        let request = endpoint.request(options)?;
        let mut transport = Transport::connect(endpoint, options).await?;
        let config = WebSocketConfig::default()
            .read_buffer_size(options.read_buffer_bytes)
            .write_buffer_size(0)
            .max_write_buffer_size(4 << 20)
            .max_message_size(Some(options.max_message_bytes))
            .max_frame_size(Some(options.max_message_bytes));
        let rest = upgrade(&mut transport, request).await?;
        let (role, config) = (Role::Client, Some(config));
        let socket = WebSocketStream::from_partially_read(transport, rest, role, config);
        let mut socket = socket.await;
        let open = read_open(&mut socket).await?;
        let connect = format!("40{}", options.auth.as_deref().unwrap_or_default());
        let sent = socket.send(Message::text(connect)).await;
        sent.map_err(Error::connect)?;
        read_connected(&mut socket).await?;
        let total = open.ping_interval.saturating_add(open.ping_timeout);
        Ok(Self {
            socket,
            ping_within: Duration::from_millis(total.clamp(1, LONGEST_PING_MS)),
            has_unflushed: false,
        })
    }

    /// Returns the next text message.
    pub(crate) fn poll_text(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<impl AsRef<str>, DisconnectCause>> {
        loop {
            let next = match Pin::new(&mut self.socket).poll_next(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(next) => next,
            };
            match next {
                Some(Ok(Message::Text(text))) => return Poll::Ready(Ok(text)),
                // Binary attachments belong to events that the protocol does not have. Tungstenite answers pings.
                Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_) | Message::Frame(_))) | None => {
                    return Poll::Ready(Err(DisconnectCause::ClosedByServer));
                }
                Some(Err(error)) => return Poll::Ready(Err(cause(error))),
            }
        }
    }

    /// Sends frames from the front of `frames`, as far as the socket takes them.
    pub(crate) fn poll_send(
        &mut self,
        frames: &mut std::collections::VecDeque<String>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), DisconnectCause>> {
        let mut socket = Pin::new(&mut self.socket);
        while !frames.is_empty() {
            match socket.as_mut().poll_ready(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(cause(error))),
                Poll::Ready(Ok(())) => {}
            }
            let frame = frames.pop_front().expect("there is a frame");
            let sent = socket.as_mut().start_send(Message::text(frame));
            self.has_unflushed = true;
            if let Err(error) = sent {
                return Poll::Ready(Err(cause(error)));
            }
        }
        if !self.has_unflushed {
            return Poll::Ready(Ok(()));
        }
        match socket.poll_flush(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(outcome) => {
                self.has_unflushed = false;
                Poll::Ready(outcome.map_err(cause))
            }
        }
    }

    /// Sends the last frames and the close frame.
    pub(crate) async fn close(&mut self, frames: &mut std::collections::VecDeque<String>) {
        let sent = std::future::poll_fn(|cx| self.poll_send(frames, cx)).await;
        if sent.is_ok() {
            // The peer need not answer: the connection is dropped.
            let _ = self.socket.close(None).await;
        }
    }
}

async fn read_open(socket: &mut WebSocketStream<Transport>) -> Result<Open, Error> {
    let text = read_text(socket).await?;
    match Packet::parse(&text) {
        Ok(Packet::Open(json)) => serde_json::from_str(json)
            .map_err(|error| not_socket_io(&format!("its handshake can't be read: {error}"))),
        _ => Err(not_socket_io(&format!("it began with `{text:.40}`"))),
    }
}

async fn read_connected(socket: &mut WebSocketStream<Transport>) -> Result<(), Error> {
    loop {
        let text = read_text(socket).await?;
        match Packet::parse(&text) {
            Ok(Packet::Connected(_)) => return Ok(()),
            Ok(Packet::Refused(json)) => {
                let refusal: Option<Refusal> = serde_json::from_str(json).ok();
                let message = refusal.map_or_else(|| json.to_owned(), |refusal| refusal.message);
                return Err(Error::Refused { message });
            }
            Ok(Packet::Ping(content)) => {
                let pong = Message::text(format!("3{content}"));
                socket.send(pong).await.map_err(Error::connect)?;
            }
            Ok(Packet::Ignored) => {}
            _ => return Err(not_socket_io(&format!("it answered with `{text:.40}`"))),
        }
    }
}

async fn read_text(socket: &mut WebSocketStream<Transport>) -> Result<String, Error> {
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => return Ok(text.as_str().to_owned()),
            Some(Ok(Message::Close(_))) | None => {
                return Err(Error::connect("the server closed the connection"));
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(Error::connect(error)),
        }
    }
}

fn not_socket_io(reason: &str) -> Error {
    Error::connect(format!("the server does not speak Socket.IO 5: {reason}"))
}

fn cause(error: WebSocketError) -> DisconnectCause {
    match error {
        WebSocketError::ConnectionClosed
        | WebSocketError::AlreadyClosed
        | WebSocketError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => {
            DisconnectCause::ClosedByServer
        }
        WebSocketError::Capacity(CapacityError::MessageTooLong { size, max_size }) => {
            DisconnectCause::TooLarge {
                bytes: size,
                limit: max_size,
            }
        }
        WebSocketError::Protocol(_) | WebSocketError::Utf8(_) | WebSocketError::Capacity(_) => {
            DisconnectCause::Protocol(error.to_string())
        }
        other => DisconnectCause::Io(other.to_string()),
    }
}
