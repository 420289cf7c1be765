//! The daemon as a process: its protocol, its limits, its end, and the faults of its disk.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod access;
mod connections;
mod disk;
mod go_client;
mod kill;
mod protocol;
mod simulated_peers;
mod simulation;
mod start;
mod support;
mod sync_faults;
