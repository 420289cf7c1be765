//! Checks whether a recorded history of concurrent operations is linearizable (Herlihy and Wing, 1990): whether each
//! operation can be given one instant between its start and its end so that every read returns the latest write.
//!
//! Linearizability is local: a history is linearizable if the history of each object is. The caller therefore records
//! one history per object, for example per field of an issue, and checks each as a register.
//!
//! ```
//! use linearizability::{Kind, Operation, Outcome, check_register_within};
//!
//! let write = Operation { client: 1, invoked_ns: 0, returned_ns: Some(10), kind: Kind::Write(7) };
//! let stale = Operation { client: 2, invoked_ns: 20, returned_ns: Some(30), kind: Kind::Read(0) };
//! let Outcome::Violated(violation) = check_register_within(0, &[write, stale], u64::MAX) else { panic!() };
//! assert!(violation.to_string().contains("client 2's read of 0"));
//! ```
//!
//! Two algorithms give the same answers. If every write has its own value, zones decide in n log n (Gibbons and Korach,
//! "Testing Shared Memories", 1997). Otherwise a search decides (Wing and Gong, 1993, with the memoised configurations
//! of Lowe, "Testing for linearizability", 2017); its time is exponential in the number of concurrent writes at worst.
//!
//! Not checked: more than one object at a time. An answer that lists several objects can be split into reads of each
//! ([`membership_reads`]), but then nothing shows that the answer as a whole was true at one instant.

mod configurations;
mod history;
mod membership;
mod search;
mod slots;
mod violation;
mod zones;

use std::fmt::Debug;
use std::hash::Hash;

use history::Prepared;
pub use membership::membership_reads;
pub use violation::Violation;

/// An operation of one client on one object.
///
/// Times are nanoseconds of any clock that all clients share. An operation precedes another one if it returned at a
/// lower time than the other one was invoked; operations whose times touch are concurrent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation<V> {
    /// The client that called it. A client may have several operations in flight.
    pub client: u32,
    /// The time just before the request was sent.
    pub invoked_ns: u64,
    /// The time just after the answer was read, or `None` if no answer arrived. A write without an answer may take
    /// effect at any later time or never. A read without an answer is not considered.
    pub returned_ns: Option<u64>,
    /// The operation and its value.
    pub kind: Kind<V>,
}

/// The two operations of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind<V> {
    /// Replaces the value.
    Write(V),
    /// Returned the value.
    Read(V),
}

impl<V: Copy> Kind<V> {
    pub(crate) fn value(self) -> V {
        match self {
            Self::Write(value) | Self::Read(value) => value,
        }
    }
}

/// The result of a check with a bounded number of steps.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// Some order explains every read.
    Linearizable,
    /// No order explains every read.
    Violated(Violation),
    /// The search ended at its bound before it found either.
    Unknown,
}

/// Checks the history of one register that held `initial` before the first operation, and gives up after about
/// `max_steps` steps of the search. A history in which an operation returned before it was invoked is a violation.
///
/// The order of `history` does not matter.
///
/// A step extends one configuration by one operation and takes below a microsecond. A history in which each write has
/// its own value is always decided.
pub fn check_register_within<V: Copy + Eq + Hash + Debug>(
    initial: V,
    history: &[Operation<V>],
    max_steps: u64,
) -> Outcome {
    let prepared = match Prepared::new(initial, history) {
        Ok(prepared) => prepared,
        Err(violation) => return Outcome::Violated(violation),
    };
    if prepared.has_unique_values() {
        return zones::check(&prepared);
    }
    search::check(&prepared, max_steps)
}
