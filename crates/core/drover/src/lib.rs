//! Runs suites: plans over daemons, levels and repetitions, each run as the process of a driver.
//!
//! [`cli`] parses the command line and calls one module for each subcommand. Nothing here knows a protocol;
//! [`tool_output`] knows the formats of other load generators. A driver is found by the metadata in its `Cargo.toml`, a
//! daemon by its manifest, and the outcome of a run by its `result.json`.

pub mod cli;
pub mod tool_output;

mod against;
mod build;
mod calibrate;
mod check;
mod child;
mod cluster;
mod compare;
mod doctor;
mod driver_program;
mod driver_run;
mod estimate;
mod exit;
mod fail_on;
mod folder;
mod history;
mod import;
mod list;
mod live_run;
mod machine_lock;
mod matrix;
mod merge;
mod progress;
mod project;
mod record;
mod report;
mod resolve;
mod run;
mod runner;
mod sample;
mod search;
mod steps;
mod suite_report;
mod watch;
