//! The driver `issue-stress` as a process: servers that lie, servers that don't, calls that are refused, and databases
//! that store the same issues.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod benchmark;
mod calibration;
mod calls;
mod divided;
mod left_over;
mod lies;
mod mistakes;
mod peers;
mod reference;
mod scenarios;
mod server;
