//! The HTTP load driver. One loop does three jobs: throughput, latency, and holding connections.

pub mod answer;
mod check;
mod checks;
mod cli;
mod content;
mod driver;
mod hyper;
mod judge;
mod k6;
mod operation;
mod outcome;
mod pool;
mod preflight;
mod redirect;
mod requests;
mod series;
mod settings;
mod socket;
mod source;
mod spec;
mod summary;
mod target;
mod tls;
mod turn;
mod wire;

pub use driver::HttpLoad;
pub use settings::{Engine, Settings};
