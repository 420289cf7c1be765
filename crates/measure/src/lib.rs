//! Results, statistics and reports: tallies, runs, thresholds, audits and formats.
//!
//! This crate only computes: it has no clock, no sockets, no runtime and no file access. Drivers record into
//! [`tally::Tally`]s, a finished run is a [`result::RunResult`], and every report is a function of results.

pub mod audit;
pub mod disturbance;
pub mod exit;
pub mod held;
pub mod imported;
mod intact;
pub mod machine;
pub mod ratio;
pub mod redact;
pub mod report;
pub mod result;
pub mod slope;
pub mod slopes;
pub mod spec;
pub mod spread;
pub mod suite;
pub mod system;
pub mod tally;
pub mod threshold;
pub mod throughput;
pub mod units;
pub mod usage;
pub mod warning;
