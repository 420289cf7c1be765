//! The HTTP load driver. One loop does three jobs: throughput, latency, and holding connections.

pub mod answer;
mod check;
mod checks;
mod cli;
mod clients;
mod content;
mod counters;
mod driver;
mod exchange;
mod hyper;
mod k6;
mod operation;
mod outcome;
mod preflight;
mod redirect;
mod requests;
mod sample;
mod series;
mod settings;
mod shared;
mod spec;
mod summary;
mod target;
mod tls;
mod validate;
mod wire;

pub use driver::HttpLoad;
pub use exchange::Exchange;
pub use settings::{Engine, Settings};

/// Runs the program; `version` is what `--version` prints. It is compiled here, and not in the program, so that generic
/// code of the harness is compiled once.
#[must_use]
pub fn main(version: &'static str) -> std::process::ExitCode {
    harness::cli::main_of::<HttpLoad>(version)
}
