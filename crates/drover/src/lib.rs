//! The suite: plans run over daemons, levels and repetitions, each run a driver's own process.
//!
//! [`cli`] reads what was typed and calls one module for each subcommand. Nothing here knows a protocol: a driver is found
//! by what its own `Cargo.toml` says, a daemon by its manifest, and what a run found by its `result.json`.

pub mod cli;

mod alone;
mod cell;
mod check;
mod child;
mod doctor;
mod estimate;
mod exit;
mod folder;
mod import;
mod list;
mod matrix;
mod pages;
mod progress;
mod project;
mod record;
mod report;
mod resolve;
mod run;
mod search;
