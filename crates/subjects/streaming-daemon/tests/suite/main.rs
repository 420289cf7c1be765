//! Tests of the daemon, as its senders, clients, scrapers and operators see it.
#![expect(clippy::unwrap_used, reason = "a test panics where it fails")]

mod answers;
mod clients;
mod floods;
mod golden;
mod handoffs;
mod openai;
mod process;
mod simulated_peers;
mod support;
