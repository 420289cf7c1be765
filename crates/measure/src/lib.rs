//! The common histogram and reporting crate: tallies, results and reports.
//!
//! Pure numbers: no clock, no sockets, no async, no file system. What a run *did* comes in as [`tally::Tally`]s;
//! what is *known* about it is a [`result::RunResult`]; every report is a function of results.

pub mod audit;
pub mod disturbance;
pub mod held;
pub mod import;
pub mod imported;
mod intact;
pub mod machine;
pub mod ratio;
pub mod redact;
pub mod report;
pub mod result;
pub mod slope;
mod slopes;
pub mod spread;
pub mod suite;
pub mod system;
pub mod tally;
pub mod threshold;
pub mod throughput;
pub mod units;
pub mod usage;
pub mod warning;
