//! The HTTP load driver. One loop does three jobs: throughput, latency, and holding connections.

mod check;
mod cli;
mod content;
mod counters;
mod driver;
mod engine;
mod events;
mod exchange;
mod findings;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod har;
mod http2;
mod k6;
mod mix;
mod outcome;
mod replay;
mod requests;
mod roles;
mod settings;
mod setup;
mod shared;
mod spec;
mod summary;
mod tls;
mod validate;

pub use driver::HttpLoad;
pub use exchange::{Exchange, Http2Exchange};
pub use settings::{Engine, Order, PlannedRequest, Settings};

/// Runs the program; `version` is what `--version` prints. It is compiled here, and not in the program, so that generic
/// code of the harness is compiled once.
#[must_use]
pub fn main(version: &'static str) -> std::process::ExitCode {
    harness::cli::main_of::<HttpLoad>(version)
}
