//! Calls and plans that can't be run, servers that do everything wrong: what is said, what the program exits with, and that
//! every request is accounted for.

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
