//! A message on its way to a dead-letter exchange, and why it left its queue.

use std::rc::Rc;

use crate::exchange::QueueId;
use crate::message::Message;
use crate::queue::Entry;

/// The reason why a message left its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    Rejected,
    Expired,
    MaxLength,
}

impl Reason {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::MaxLength => "maxlen",
        }
    }
}

/// A message on its way to a dead-letter exchange.
#[derive(Debug)]
pub(super) struct DeadLetter {
    pub(super) queue: QueueId,
    pub(super) message: Rc<Message>,
    pub(super) reason: Reason,
    /// The entry that leaves the queue with it; `None` for a message that never entered the queue.
    pub(super) entry: Option<Entry>,
}
