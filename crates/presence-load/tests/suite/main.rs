//! Tests of the program and of its parts, against scripted servers.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod audited;
mod calls;
mod losses;
mod mistakes;
mod protocol;
mod reference;
mod sdk;
#[path = "../support/server.rs"]
mod server;
mod support;
