//! Manages time and processes: plans, pacing, workers, daemons, their resource use, and the storage of results.
//!
//! Drivers know protocols, and `measure` knows numbers. Everything that concerns clocks, threads, processes and files
//! is here. The parts, in the order of a run: [`cli`] parses the command line, [`plan`] describes the load, [`daemon`]
//! launches the subject, and [`lanes`] starts the workers. Each worker has a [`pacer`] (when) and a [`recorder`] (what
//! happened). [`collector`] merges their seconds, [`usage`] samples resources, [`run`] makes one result of it all, and
//! [`store`] keeps it. Apart from runs, [`launcher`] and [`conformance`] let drivers test the answers of daemons.

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
