//! The HTTP driver: three jobs (throughput, latency, connections held) over one loop.

pub mod answer;
mod check;
mod checks;
pub mod cli;
mod driver;
mod judge;
mod k6;
mod outcome;
mod preflight;
mod requests;
mod series;
mod settings;
mod source;
mod summary;
mod target;
mod wire;

pub use driver::HttpLoad;
pub use settings::Settings;
