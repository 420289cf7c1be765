//! Requests and responses on one TCP connection of a polling client, one after the other.

use std::io::Write as _;
use std::rc::Rc;

use load::net::http1::{Answer, Reader, RequestInfo, Sink};

use super::context::{Endpoint, TransportContext};
use super::side::Side;
use crate::protocol::ProtocolError;

/// The requests of one side.
#[derive(Debug)]
pub(super) struct Exchange {
    side: Side,
    state: ExchangeState,
    reader: Reader,
    /// The body as far as it was read.
    body: Vec<u8>,
    /// Number of responses on this TCP connection.
    responses: u32,
    /// The client's own endpoint, instead of the context's.
    pub(super) endpoint: Option<Rc<Endpoint>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExchangeState {
    /// There is no TCP connection, nor one that is being opened.
    Unconnected,
    Connecting,
    Idle,
    /// A request was sent.
    Requested,
    /// A part of the response was read.
    Responding,
}

/// The part of a response that a call reads.
struct ResponsePart<'a> {
    /// The status, if this is where the head ends.
    status: Option<u16>,
    body: &'a mut Vec<u8>,
    limit: usize,
    is_too_large: bool,
}

impl Sink for ResponsePart<'_> {
    fn head(&mut self, status: u16, _: &[httparse::Header<'_>]) {
        self.status = Some(status);
    }

    fn body(&mut self, piece: &[u8]) {
        self.is_too_large |= self.body.len() + piece.len() > self.limit;
        if !self.is_too_large {
            self.body.extend_from_slice(piece);
        }
    }
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
            reader: Reader::new(),
            body: Vec::new(),
            responses: 0,
            endpoint: None,
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
            ExchangeState::Requested | ExchangeState::Responding
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
        self.reader = Reader::new();
        self.responses = 0;
    }

    /// Sends a request: a poll, or a payload.
    pub(super) fn request(&mut self, sid: &str, payload: Option<&[u8]>, cx: &mut TransportContext) {
        let endpoint = self.endpoint.as_deref().unwrap_or(&cx.endpoint);
        let output = cx.actions.output(self.side);
        let method = if payload.is_some() { "POST" } else { "GET" };
        // Writing to memory does not fail.
        let _ = write!(output, "{method} ");
        endpoint.append_target(output, Some("polling"), sid);
        let _ = write!(output, " HTTP/1.1\r\nHost: {}\r\n", endpoint.host);
        if let Some(payload) = payload {
            let length = payload.len();
            let _ = write!(
                output,
                "Content-Type: text/plain;charset=UTF-8\r\nContent-Length: {length}\r\n"
            );
        }
        let _ = write!(output, "Accept: */*\r\n{}\r\n", endpoint.access.fields);
        output.extend_from_slice(payload.unwrap_or_default());
        self.state = ExchangeState::Requested;
    }

    /// Reads from the response. Returns its status once it is complete; a refusal is complete without its body.
    pub(super) fn read(
        &mut self,
        input: &[u8],
        taken: &mut usize,
        cx: &mut TransportContext,
    ) -> Result<Option<u16>, ProtocolError> {
        if *taken == input.len() {
            return Ok(None);
        }
        if !self.is_busy() {
            return Err(ProtocolError::Unrequested);
        }
        self.state = ExchangeState::Responding;
        let mut part = ResponsePart {
            status: None,
            body: &mut self.body,
            limit: cx.endpoint.max_message,
            is_too_large: false,
        };
        let asked = RequestInfo { head: false };
        let progress = self.reader.take(asked, &input[*taken..], &mut part)?;
        *taken += progress.used;
        if part.is_too_large {
            return Err(ProtocolError::TooLarge);
        }
        let refusal = part.status.filter(|status| *status != 200);
        match progress.done {
            Some(answer) => Ok(Some(self.complete(answer, cx))),
            None if refusal.is_some() => Ok(refusal),
            None if self.reader.is_until_close() => Err(ProtocolError::Body),
            None => Ok(None),
        }
    }

    fn complete(&mut self, answer: Answer, cx: &mut TransportContext) -> u16 {
        self.responses += 1;
        self.state = ExchangeState::Idle;
        if !answer.keep_alive {
            self.state = ExchangeState::Unconnected;
            cx.actions.close(self.side);
        }
        answer.status
    }

    /// Takes the body of a complete response.
    pub(super) fn take_body(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.body)
    }

    /// Handles the end of the connection.
    pub(super) fn ended(&mut self) -> Ended {
        match std::mem::replace(&mut self.state, ExchangeState::Unconnected) {
            ExchangeState::Requested if self.responses > 0 => Ended::Unread,
            ExchangeState::Requested | ExchangeState::Responding => Ended::Open,
            ExchangeState::Unconnected | ExchangeState::Connecting | ExchangeState::Idle => {
                Ended::Idle
            }
        }
    }
}
