//! Passes client sockets to a streaming daemon (`SCM_RIGHTS`) and measures the stream of events that comes back.
//!
//! `fdpass_client` has the protocol; `engine` runs it for thousands of streams, [`expect`] compares the contents,
//! `outcome` names the outcomes, and `spec` the measured times. The commands `check` and `conformance` come from
//! `fdpass_conformance`.

mod check;
mod cli;
pub mod driver;
mod engine;
pub mod expect;
mod outcome;
pub mod settings;
mod shared;
mod spec;
mod summary;
mod validate;

/// Runs the program; `version` is what `--version` prints. It is compiled here, and not in the program, so that generic
/// code of the harness is compiled once.
#[must_use]
pub fn main(version: &'static str) -> std::process::ExitCode {
    harness::cli::main_of::<driver::FdPass>(version)
}
