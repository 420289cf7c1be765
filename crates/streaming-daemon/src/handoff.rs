//! One handoff: a client, and what is peculiar to its answer.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::sys::socket::{self, SockType, sockopt};
use serde::Deserialize;

use crate::answer::Opening;
use crate::failure::HandoffFailure;
use crate::head::with_headers;
use crate::incoming::{Buffer, Incoming};
use crate::openai::{Chat, OpenAi};
use crate::relay::Order;
use crate::request::{Parsed, Request, parse};
use crate::shard::Shared;

/// A client that arrived.
#[derive(Debug)]
pub(crate) struct Handoff {
    pub(crate) client: OwnedFd,
    pub(crate) work: Work,
    /// When the handoff connection was accepted.
    pub(crate) accepted: u64,
}

/// What there is to do for a client.
#[derive(Debug)]
pub(crate) enum Work {
    /// Events of the mock backend, at their pace.
    Events(i64, Opening),
    /// The answer of a real one.
    Relay(Arc<OpenAi>, Order),
}

impl Work {
    fn new(payload: &[u8], shared: &Shared) -> Self {
        let Some(openai) = &shared.openai else {
            let request: Request<'_> = request(payload, shared);
            let user_id = request.user_id.unwrap_or(0);
            return Self::Events(user_id, shared.answer.opening(&request));
        };
        let chat: Chat<'_> = request(payload, shared);
        let order = Order {
            head: chat.response_headers.as_ref().and_then(with_headers),
            ask: openai.request(&chat),
        };
        Self::Relay(Arc::clone(openai), order)
    }
}

impl Handoff {
    /// Closes the handoff connection and looks at what it brought; the payload is the first
    /// `length` bytes of `buffer`.
    pub(crate) fn new(
        incoming: Incoming,
        buffer: &Buffer,
        length: usize,
        shared: &Shared,
    ) -> Result<Self, HandoffFailure> {
        let accepted = incoming.accepted;
        let arrival = incoming.close();
        let client = arrival.client.ok_or(HandoffFailure::NoDescriptor)?;
        prepare(&client)?;
        if arrival.surplus > 0 {
            let flaw = HandoffFailure::SurplusDescriptors;
            shared.metrics.handoff_flaw(flaw);
            shared.log.warn(flaw);
        }
        Ok(Self {
            client,
            work: Work::new(buffer.payload(length), shared),
            accepted,
        })
    }
}

/// Checks that the descriptor is a stream socket, and has TCP send each event at once.
fn prepare(client: &OwnedFd) -> Result<(), HandoffFailure> {
    match socket::getsockopt(client, sockopt::SockType) {
        Ok(SockType::Stream) => {}
        _ => return Err(HandoffFailure::NotAStreamSocket),
    }
    // Without this the second event would wait for the acknowledgement of the first, up to 40 ms.
    // Other sockets refuse the option, and need it not.
    let _ = socket::setsockopt(client, sockopt::TcpNoDelay, &true);
    Ok(())
}

/// The request of a payload; the default one, counted and logged, if there is none in it.
fn request<'a, T: Default + Deserialize<'a>>(payload: &'a [u8], shared: &Shared) -> T {
    let reason = match parse(payload) {
        Parsed::Whole(request) => return request,
        Parsed::Beginning => "it ends in the middle".to_owned(),
        Parsed::Invalid(reason) => reason,
    };
    let flaw = HandoffFailure::InvalidJson;
    shared.metrics.handoff_flaw(flaw);
    shared.log.warn(format_args!("{flaw}: {reason}"));
    T::default()
}
