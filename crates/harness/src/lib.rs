//! Time and processes: plans, pacing, workers, daemons, what they cost, and where results go.
//!
//! Drivers know protocols, `measure` knows numbers; everything that has to do with clocks, threads, processes and files
//! is here. The parts, in the order of a run: [`cli`] reads what was typed, [`plan`] says what it means, [`daemon`]
//! launches the subject, [`lanes`] starts the workers, each with a [`pacer`] (when) and a [`recorder`] (what happened),
//! [`collector`] puts their seconds together, [`usage`] samples what it costs, [`run`] makes one result of it all, and
//! [`store`] keeps it. Beside a run, [`launcher`] and
//! [`conformance`] are what drivers look at the answers of daemons with.

pub mod cli;
pub mod clock;
pub mod collector;
pub mod conformance;
pub mod daemon;
pub mod driver;
pub mod duration;
pub mod exporter;
pub mod gauges;
pub mod host;
pub mod lanes;
pub mod launcher;
pub mod limits;
pub mod manifest;
pub mod opening;
pub mod output;
pub mod pacer;
pub mod peer;
pub mod plan;
pub mod progress;
pub mod reactor;
pub mod recorder;
pub mod run;
pub mod schedule;
pub mod signals;
pub mod slots;
pub mod store;
#[cfg(feature = "tls")]
pub mod tls;
pub mod trust;
pub mod usage;
