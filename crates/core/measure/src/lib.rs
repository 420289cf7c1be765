//! Results, statistics and reports: tallies, runs, thresholds, audits and formats.
//!
//! This crate only computes: it has no clock, no sockets, no runtime and no file access. Drivers record into
//! [`tally::Tally`]s, a finished run is a [`result::RunResult`], and every report is a function of results.

#![cfg_attr(
    not(feature = "report"),
    allow(dead_code, reason = "reports alone use some of it")
)]

pub mod audit;
pub mod calibration;
pub mod capacity;
pub mod change;
mod connection_memory;
pub mod counters;
pub mod disturbance;
pub mod exit;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod growth;
pub mod imported;
mod intact;
pub mod isolation;
pub mod load_id;
pub mod machine;
pub mod metrics;
pub mod objective;
pub mod regression;
#[cfg(feature = "report")]
pub mod report;
pub mod result;
pub mod shard;
pub mod similar;
pub mod spec;
mod steadiness;
pub mod suite;
pub mod summary;
pub mod system;
pub mod tally;
pub mod threshold;
pub mod throughput;
pub mod units;
pub mod usage;
pub mod warning;
