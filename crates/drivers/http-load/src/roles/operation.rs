//! An operation as both engines use it: its start, its number and its redirects.

use std::num::NonZeroU32;

use load::pacer::Start;
use load::schedule::Share;

/// An operation, with its start and its number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    /// Start of the response time.
    pub(crate) at: u64,
    /// Time when its first byte was sent; 0 before.
    pub(crate) sent: u64,
    /// Its number in the schedule of the whole run.
    pub(crate) index: u64,
    pub(crate) group: u16,
    /// The index of its request in the plan.
    pub(crate) request: u16,
    /// True if it started within `measure`.
    pub(crate) counted: bool,
    /// Key of its redirect in the worker's table (`redirect.rs`), plus one; `None` before a redirect.
    pub(crate) hop: Option<NonZeroU32>,
}

impl Operation {
    pub(crate) fn new(start: Start, request: u16, counted: bool) -> Self {
        Self {
            at: start.at,
            sent: 0,
            index: start.index,
            group: start.group,
            request,
            counted,
            hop: None,
        }
    }
}

/// Returns the data that a pacer needs of a client's last operation.
pub(crate) fn start_of(group: u16, index: u64) -> Start {
    Start {
        at: 0,
        due: 0,
        lag: None,
        index,
        group,
    }
}

/// Returns the connection index of a client of a closed loop.
pub(crate) fn connection_of(start: Start, share: Share) -> u32 {
    (share.index + start.index / share.of * share.of) as u32
}
