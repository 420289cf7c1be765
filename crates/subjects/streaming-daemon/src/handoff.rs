//! A handoff: a client, and the specifics of its response.

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
use crate::shared::Shared;

/// A client that was handed over.
#[derive(Debug)]
pub(crate) struct Handoff {
    pub(crate) client: OwnedFd,
    pub(crate) work: Work,
    /// Time at which the handoff connection was accepted.
    pub(crate) accepted: u64,
}

/// The work to do for a client.
#[derive(Debug)]
pub(crate) enum Work {
    /// Events of the mock backend, at their pace.
    Events(i64, Opening),
    /// The response of a real backend.
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
            request: openai.request(&chat),
        };
        Self::Relay(Arc::clone(openai), order)
    }
}

impl Handoff {
    /// Closes the handoff connection and evaluates its descriptors; the payload is the first `length` bytes of
    /// `buffer`.
    pub(crate) fn new(
        incoming: Incoming,
        buffer: &Buffer,
        length: usize,
        shared: &Shared,
    ) -> Result<Self, HandoffFailure> {
        let Incoming {
            connection,
            accepted,
            client,
            surplus,
            ..
        } = incoming;
        drop(connection);
        let client = client.ok_or(HandoffFailure::NoDescriptor)?;
        prepare(&client)?;
        if surplus > 0 {
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

/// Checks that the descriptor is a stream socket, and makes TCP send each event at once.
fn prepare(client: &OwnedFd) -> Result<(), HandoffFailure> {
    match socket::getsockopt(client, sockopt::SockType) {
        Ok(SockType::Stream) => {}
        _ => return Err(HandoffFailure::NotAStreamSocket),
    }
    // Without this the second event would wait for the acknowledgement of the first, up to 40 ms. Other sockets reject
    // the option, and do not need it.
    let _ = socket::setsockopt(client, sockopt::TcpNoDelay, &true);
    Ok(())
}

/// Parses the request of a payload. If it is invalid, counts and logs that, and returns the defaults.
fn request<'a, T: Default + Deserialize<'a>>(payload: &'a [u8], shared: &Shared) -> T {
    let reason = match parse(payload) {
        Parsed::Whole(request) => return request,
        Parsed::Beginning => "it is incomplete".to_owned(),
        Parsed::Invalid(reason) => reason,
    };
    let flaw = HandoffFailure::InvalidJson;
    shared.metrics.handoff_flaw(flaw);
    shared.log.warn(format_args!("{flaw}: {reason}"));
    T::default()
}
