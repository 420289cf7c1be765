//! Tests of the conformance cases.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod conformance;
