//! Tests of the program against scripted brokers, and against the brokers of the project.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(
    clippy::duplicate_mod,
    reason = "`wire` and `lapin` are the same runs with each engine"
)]

mod calibration;
mod conformance;
mod engines;
mod lapin;
mod left_over;
mod mistakes;
mod options;
mod reference;
mod secrets;
mod support;
mod tls;
mod wire;
