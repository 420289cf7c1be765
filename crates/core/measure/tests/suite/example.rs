//! Handmade results and suites, of which every figure is known.

pub(crate) mod http;
pub(crate) mod redis;
pub(crate) mod result;
pub(crate) mod suite;

use measure::result::PlannedPhases;

/// Builds the phases of a plan, in seconds.
pub(crate) fn phases(warmup: f64, measure: f64, drain: f64) -> Option<PlannedPhases> {
    Some(PlannedPhases {
        warmup_s: warmup,
        measure_s: measure,
        drain_s: drain,
    })
}
