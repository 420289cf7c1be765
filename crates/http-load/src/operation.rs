//! A request as both engines know it: from when it counts, which it is, and what follows on it.

use std::num::NonZeroU32;

use harness::pacer::Start;
use harness::schedule::Share;

/// A client that could not connect rests before its next request, so that a dead server is not hammered.
pub(crate) const REST_NS: u64 = 10_000_000;

/// A request: from when it counts, and which it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    /// Response time counts from here.
    pub(crate) at: u64,
    /// When its first byte was sent; 0 before.
    pub(crate) sent: u64,
    /// Its number in the schedule of the whole.
    pub(crate) index: u64,
    pub(crate) group: u16,
    /// Whether it started inside `measure`.
    pub(crate) counted: bool,
    /// Where a redirect led it, by its place in the worker's list (`redirect.rs`); none before.
    pub(crate) hop: Option<NonZeroU32>,
}

impl Operation {
    /// One that begins.
    pub(crate) fn new(start: Start, counted: bool) -> Self {
        Self {
            at: start.at,
            sent: 0,
            index: start.index,
            group: start.group,
            counted,
            hop: None,
        }
    }
}

/// A client of a closed loop that rests: when it goes on, and after which operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rest {
    pub(crate) until: u64,
    pub(crate) group: u16,
    pub(crate) index: u64,
    /// The place of its connection among all.
    pub(crate) place: u32,
}

/// What a pacer needs to know of a client's last operation.
pub(crate) fn start_of(group: u16, index: u64) -> Start {
    Start {
        at: 0,
        due: 0,
        lag: None,
        index,
        group,
    }
}

/// The place among all connections of the one that a client of a closed loop makes.
pub(crate) fn place_of(start: Start, share: Share) -> u32 {
    (share.index + start.index / share.of * share.of) as u32
}
