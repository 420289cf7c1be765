//! One handoff: a client, and what is peculiar to its answer.

use std::os::fd::OwnedFd;

use nix::sys::socket::{self, SockType, sockopt};

use crate::answer::Opening;
use crate::failure::HandoffFailure;
use crate::incoming::{Buffer, Incoming};
use crate::request::{Parsed, Request, parse};
use crate::shard::Shared;

/// A client that arrived.
#[derive(Debug)]
pub(crate) struct Handoff {
    pub(crate) client: OwnedFd,
    pub(crate) user_id: i64,
    pub(crate) opening: Opening,
    /// When the handoff connection was accepted.
    pub(crate) accepted: u64,
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
        let request = request(buffer.payload(length), shared);
        Ok(Self {
            client,
            user_id: request.user_id.unwrap_or(0),
            opening: shared.answer.opening(&request),
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
fn request<'a>(payload: &'a [u8], shared: &Shared) -> Request<'a> {
    let reason = match parse(payload) {
        Parsed::Whole(request) => return request,
        Parsed::Beginning => "it ends in the middle".to_owned(),
        Parsed::Invalid(reason) => reason,
    };
    let flaw = HandoffFailure::InvalidJson;
    shared.metrics.handoff_flaw(flaw);
    shared.log.warn(format_args!("{flaw}: {reason}"));
    Request::default()
}
