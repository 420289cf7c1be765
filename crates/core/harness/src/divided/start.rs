//! The start of a run, which all of its parts have in common, on the clocks of this machine.

use load::clock;
use measure::shard::Clock;
use serde::{Deserialize, Serialize};

/// Time between the order to begin and the begin, so that all workers are waiting by then.
pub(crate) const HEAD_START_NS: u64 = 50_000_000;

/// The start of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Start {
    /// Unix time in nanoseconds.
    pub(crate) unix_ns: u64,
    /// Number of shards.
    pub(crate) of: u64,
    /// The same instant of CLOCK_MONOTONIC, by the clocks at the time of conversion.
    pub(crate) origin: u64,
    /// Difference of the two clocks then.
    wall_offset: u64,
}

impl Start {
    /// Returns the start of a run that is not divided: as soon as all workers are waiting for it.
    pub(crate) fn soon() -> Self {
        Self::convert(clock::unix_ns() + HEAD_START_NS, 1)
    }

    /// Converts the start of a run of some shards to the monotonic clock, by the clocks of this moment.
    pub(super) fn convert(unix_ns: u64, of: u64) -> Self {
        let wall_offset = clock::wall_offset();
        Self {
            unix_ns,
            of,
            origin: unix_ns.saturating_sub(wall_offset),
            wall_offset,
        }
    }

    /// Returns the start of a run of some shards, of which the instant is known on both clocks.
    pub(super) fn known(unix_ns: u64, of: u64, origin: u64) -> Self {
        Self {
            unix_ns,
            of,
            origin,
            wall_offset: unix_ns.saturating_sub(origin),
        }
    }

    /// Converts an instant of the wall clock as the start was converted.
    pub(super) fn monotonic(&self, unix_ns: u64) -> u64 {
        unix_ns.saturating_sub(self.wall_offset)
    }

    /// Returns how the wall clock has done since the start was converted.
    pub(crate) fn clock(&self) -> Clock {
        let (synchronised, max_error_ns) = clock::synchronisation();
        Clock {
            synchronised,
            max_error_ns,
            moved_ns: clock::wall_offset().cast_signed() - self.wall_offset.cast_signed(),
        }
    }
}
