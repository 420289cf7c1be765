//! Passes client sockets to a streaming daemon (`SCM_RIGHTS`) and measures the stream of events that comes back.
//!
//! [`handoff`] creates a client and passes it, [`sse`] parses the answer, `work` does both for thousands of streams,
//! [`expect`] compares the contents, `outcome` names the outcomes, and `spec` the measured times.
//! `check` compares a daemon's answers with the shared [`transcript`]; `conformance` tests all other required
//! behaviour.

mod check;
mod cli;
mod client;
mod conformance;
mod counters;
pub mod driver;
pub mod expect;
pub mod handoff;
mod outcome;
mod pending_outcomes;
mod reference;
pub mod settings;
mod spec;
pub mod sse;
mod stream;
pub mod transcript;
mod work;

/// Runs the program; `version` is what `--version` prints. It is compiled here, and not in the program, so that generic
/// code of the harness is compiled once.
#[must_use]
pub fn main(version: &'static str) -> std::process::ExitCode {
    harness::cli::main_of::<driver::FdPass>(version)
}
