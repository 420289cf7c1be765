//! Tests of the conformance cases, through the program.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod conformance;
