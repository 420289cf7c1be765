//! Passes client sockets to a streaming daemon (`SCM_RIGHTS`) and measures the stream of events that comes back.
//!
//! [`handoff`] makes a client and passes it, [`sse`] reads the answer, `work` does both for thousands of streams in one
//! loop, [`expect`] says what it must say, [`outcome`] names what becomes of each, [`series`] what is measured. `check` compares a daemon's answers with the
//! [`transcript`] that all share, `conformance` looks at everything else that a daemon must do.

mod check;
pub mod cli;
mod client;
mod conformance;
mod counters;
mod doubts;
pub mod driver;
pub mod expect;
pub mod handoff;
pub mod outcome;
pub mod reference;
pub mod series;
pub mod settings;
pub mod sse;
mod stream;
pub mod transcript;
mod work;
