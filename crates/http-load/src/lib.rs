//! The HTTP load driver. One loop does three jobs: throughput, latency, and holding connections.

pub mod answer;
mod check;
mod checks;
mod cli;
mod clients;
mod content;
mod counters;
mod driver;
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
pub use settings::{Engine, Settings};
