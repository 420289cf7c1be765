//! Tests the program by its command line.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod action;
mod against;
mod beginnings;
mod builds;
mod calibrate;
mod calls;
mod capacity;
mod docs;
mod driver_faults;
mod endings;
mod history;
mod hosts;
mod import;
mod installed;
mod kubernetes;
mod launchers;
mod left_over;
mod mistakes;
mod reports;
mod retries;
mod runs;
mod sample;
mod slurm;
mod ssh;
mod streaming;
mod support;
mod tool_output;
mod upgrades;
mod watch;
