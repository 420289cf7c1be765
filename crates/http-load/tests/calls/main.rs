//! Tests of invalid arguments and plans, and of faulty servers: messages, exit codes, and that every request is
//! accounted for.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod before;
mod daemon;
mod ends;
mod failures;
mod program;
#[path = "../support/scripted.rs"]
mod scripted;
#[path = "../support/secure.rs"]
#[allow(dead_code, reason = "another test uses the rest")]
mod secure;
mod servers;
mod wrong;
