//! Stresses an issue daemon with many agents, and checks every answer.
//!
//! At the end of a run, all that was answered is compared with the rows of the database, and the histories of issues are
//! checked for linearizability. Other databases can store the same issues ([`peers`]), for comparison.

mod agent;
mod benchmark;
mod check;
mod cli;
mod driver;
mod engine;
mod findings;
mod history;
mod ledger;
mod lists;
mod outcome;
pub mod peers;
mod settings;
mod shared;
mod smoke;
mod spec;
mod validate;

pub use driver::IssueStress;
pub use settings::{Scenario, Settings};

/// Runs the program; `version` is what `--version` prints. It is compiled here, and not in the program, so that generic
/// code of the harness is compiled once.
#[must_use]
pub fn main(version: &'static str) -> std::process::ExitCode {
    harness::cli::main_of::<IssueStress>(version)
}
