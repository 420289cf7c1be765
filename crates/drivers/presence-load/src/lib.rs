//! Load-tests a Socket.IO presence server and audits every event.
//!
//! Users join rooms, send heartbeats that change their state, and read the events of their rooms. An audit finds every
//! event that was lost, duplicated, reordered or wrong. The driver speaks the protocol itself ([`protocol`]).

mod check;
mod cli;
mod conversation;
mod driver;
mod engine;
mod findings;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod outcome;
pub mod protocol;
mod roles;
mod settings;
mod shared;
mod spec;
mod summary;
mod validate;

pub use driver::PresenceLoad;
pub use roles::{AuditedRoom, ChatRoom};
pub use settings::{Mode, Settings};

/// Runs the program; `version` is what `--version` prints. It is compiled here, and not in the program, so that generic
/// code of the harness is compiled once.
#[must_use]
pub fn main(version: &'static str) -> std::process::ExitCode {
    harness::cli::main_of::<PresenceLoad>(version)
}
