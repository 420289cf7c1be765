//! The HTTP load driver. One loop does three jobs: throughput, latency, and holding connections.

pub mod answer;
mod batch_counters;
mod check;
mod check_counters;
mod checks;
mod cli;
mod clients;
mod content;
mod driver;
mod hyper;
mod k6;
mod operation;
mod outcome;
mod preflight;
mod redirect;
mod redirect_table;
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
