//! Requests and responses on one TCP connection of a polling client, one after the other.

use std::io::Write as _;

use super::context::TransportContext;
use super::side::Side;
use crate::protocol::ProtocolError;
use crate::protocol::http::{Body, Head};

/// The requests of one side.
#[derive(Debug)]
pub(super) struct Exchange {
    side: Side,
    state: ExchangeState,
    /// Bytes of an incomplete head or chunk line.
    pub(super) unread: Vec<u8>,
    /// The body as far as it was read.
    body: Vec<u8>,
    status: u16,
    keep_alive: bool,
    /// Number of responses on this TCP connection.
    responses: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExchangeState {
    /// There is no TCP connection, nor one that is being opened.
    Unconnected,
    Connecting,
    Idle,
    /// A request was sent.
    Requested,
    Body(Body),
}

/// The end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// No request was open.
    Idle,
    /// The server closed a connection that had been idle before it read the request: the request can be repeated.
    Unread,
    /// A request was open.
    Open,
}

impl Exchange {
    pub(super) fn new(side: Side) -> Self {
        Self {
            side,
            state: ExchangeState::Unconnected,
            unread: Vec::new(),
            body: Vec::new(),
            status: 0,
            keep_alive: true,
            responses: 0,
        }
    }

    /// Returns true if a request can be sent.
    pub(super) fn is_idle(&self) -> bool {
        self.state == ExchangeState::Idle
    }

    /// Returns true if a response is awaited.
    pub(super) fn is_busy(&self) -> bool {
        matches!(
            self.state,
            ExchangeState::Requested | ExchangeState::Body(_)
        )
    }

    /// Asks for a TCP connection if there is none.
    pub(super) fn open(&mut self, cx: &mut TransportContext) {
        if self.state == ExchangeState::Unconnected {
            self.state = ExchangeState::Connecting;
            cx.actions.open(self.side);
        }
    }

    pub(super) fn connected(&mut self) {
        self.state = ExchangeState::Idle;
        self.unread = Vec::new();
        self.responses = 0;
    }

    /// Sends a request: a poll, or a payload.
    pub(super) fn request(&mut self, sid: &str, payload: Option<&[u8]>, cx: &mut TransportContext) {
        let output = cx.actions.output(self.side);
        let method = if payload.is_some() { "POST" } else { "GET" };
        // Writing to memory does not fail.
        let _ = write!(output, "{method} ");
        cx.endpoint.append_target(output, "polling", sid);
        let _ = write!(output, " HTTP/1.1\r\nHost: {}\r\n", cx.endpoint.host);
        if let Some(payload) = payload {
            let length = payload.len();
            let _ = write!(
                output,
                "Content-Type: text/plain;charset=UTF-8\r\nContent-Length: {length}\r\n"
            );
        }
        let _ = write!(output, "Accept: */*\r\n{}\r\n", cx.endpoint.access.fields);
        output.extend_from_slice(payload.unwrap_or_default());
        self.state = ExchangeState::Requested;
    }

    /// Reads from the response. Returns its status once it is complete.
    pub(super) fn read(
        &mut self,
        input: &[u8],
        taken: &mut usize,
        cx: &mut TransportContext,
    ) -> Result<Option<u16>, ProtocolError> {
        loop {
            let rest = &input[*taken..];
            match &mut self.state {
                ExchangeState::Body(body) => {
                    let limit = cx.endpoint.max_message;
                    let (length, is_whole) = body.read(rest, &mut self.body, limit)?;
                    *taken += length;
                    return Ok(is_whole.then(|| self.complete(cx)));
                }
                _ if rest.is_empty() => return Ok(None),
                ExchangeState::Requested => {
                    let Some(head) = Head::parse(rest)? else {
                        return Ok(None);
                    };
                    *taken += head.length;
                    (self.status, self.keep_alive) = (head.status, head.keep_alive);
                    self.state = ExchangeState::Body(head.body);
                    if head.body == Body::UntilEnd {
                        // Only a refusal needs no body.
                        let is_refused = head.status != 200;
                        return is_refused
                            .then(|| Some(self.complete(cx)))
                            .ok_or(ProtocolError::Body);
                    }
                }
                _ => return Err(ProtocolError::Unrequested),
            }
        }
    }

    fn complete(&mut self, cx: &mut TransportContext) -> u16 {
        self.responses += 1;
        self.state = ExchangeState::Idle;
        if !self.keep_alive {
            self.state = ExchangeState::Unconnected;
            cx.actions.close(self.side);
        }
        self.status
    }

    /// Takes the body of a complete response.
    pub(super) fn take_body(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.body)
    }

    /// Handles the end of the connection.
    pub(super) fn ended(&mut self) -> Ended {
        match std::mem::replace(&mut self.state, ExchangeState::Unconnected) {
            ExchangeState::Requested if self.responses > 0 && self.unread.is_empty() => {
                Ended::Unread
            }
            ExchangeState::Requested | ExchangeState::Body(_) => Ended::Open,
            ExchangeState::Unconnected | ExchangeState::Connecting | ExchangeState::Idle => {
                Ended::Idle
            }
        }
    }
}
