//! Pacers that always have an operation that is due.

use std::time::Duration;

use load::pacer::Pacer;
use load::schedule::{Arrival, Schedule, Share, Stage};

pub(crate) const RATE: f64 = 1e6;
/// Longer than any bench runs, so that no schedule ends within one.
pub(crate) const LONG: Duration = Duration::from_secs(3600 * 24);

pub(crate) fn steady(arrival: Arrival, share: Share) -> Schedule {
    Schedule::rate(
        &[Stage {
            from: RATE,
            to: RATE,
            over: LONG,
        }],
        arrival,
        1,
        share,
    )
}

/// Returns a pacer of some groups. At [`NOW`], all operations of their schedules are due.
pub(crate) fn ready(groups: usize) -> Pacer {
    let schedules = (0..groups)
        .map(|_| steady(Arrival::Constant, Share::ALL))
        .collect();
    Pacer::new(0, u64::MAX, schedules)
}

/// The time at which to poll a pacer of [`ready`].
pub(crate) const NOW: u64 = u64::MAX - 1;
