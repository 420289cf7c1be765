//! The way to a client.

use std::fmt;
use std::sync::Arc;

use socketio_server::{Frame, Socket};

/// A client's connection, to which events and answers are sent.
pub trait Sink: Clone + fmt::Debug + Send + Sync + 'static {
    /// Sends an event.
    fn send(&self, frame: &Frame);

    /// Answers a request; `write` appends the answer as JSON.
    fn answer(&self, ack: u64, write: impl FnOnce(&mut Vec<u8>));
}

impl Sink for Arc<Socket> {
    fn send(&self, frame: &Frame) {
        Socket::send(self, frame);
    }

    fn answer(&self, ack: u64, write: impl FnOnce(&mut Vec<u8>)) {
        self.ack_with(ack, &[], write);
    }
}

/// The sender of a request, and the id of the answer that it waits for.
#[derive(Debug, Clone)]
pub(crate) struct Caller<S> {
    pub(crate) sink: S,
    pub(crate) ack: Option<u64>,
}

impl<S: Sink> Caller<S> {
    pub(crate) fn answer(&self, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(ack) = self.ack {
            self.sink.answer(ack, write);
        }
    }
}
