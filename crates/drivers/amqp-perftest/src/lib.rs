//! Producers and consumers against an AMQP 0-9-1 broker.
//!
//! [`settings`] are the driver's part of a plan. `layout` assigns producers and consumers to connections and workers,
//! `topology` declares their queues, and `ledger` accounts for every message by the stamp at the head of its body
//! ([`amqp_client::stamp`]). `shared` is what all workers share. `roles` are the publishers and consumers, which do no
//! I/O: they return actions. An [`engine`] serves one worker's share of them and performs these actions: `wire` writes
//! and reads frames itself, `lapin` calls the library of that name, as applications do.

mod body;
mod check;
mod cli;
mod connect;
pub mod driver;
pub mod engine;
mod findings;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod layout;
mod ledger;
mod nodes;
mod outcome;
mod roles;
pub mod settings;
mod shared;
mod spec;
mod summary;
mod topology;
mod validate;

/// Runs the program; `version` is what `--version` prints. It is compiled here, and not in the program, so that generic
/// code of the harness is compiled once.
#[must_use]
pub fn main(version: &'static str) -> std::process::ExitCode {
    harness::cli::main_of::<driver::Perftest>(version)
}
