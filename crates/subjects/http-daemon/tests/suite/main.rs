//! Tests of the daemon as a process, as its users and the driver use it.
#![expect(clippy::unwrap_used, reason = "a test panics where it fails")]

mod calls;
mod faults;
mod files;
mod limits;
mod nginx;
mod options;
mod peers;
mod processes;
mod protocols;
mod serving;
mod simulated_peers;
mod sink;
mod support;
