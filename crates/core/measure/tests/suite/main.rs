//! Tests of tallies, results and reports.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod audit;
mod browser;
mod calibration;
mod example;
mod hlog_java;
mod http;
mod intact;
mod memory;
mod properties;
mod ramp;
mod reports;
mod schema;
mod suites;
mod thresholds;

/// Asserts that a text has all parts.
#[track_caller]
fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}
