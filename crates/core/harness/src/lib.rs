//! Makes a run: command line, launch of the daemon, load, progress, judgement, and the storage of results.
//!
//! `load` generates load, `subject` runs the daemon, and `measure` knows numbers; this crate puts them together. The
//! parts, in the order of a run: [`cli`] parses the command line, [`launcher`] prepares the daemon, [`subject::headroom`] checks
//! that daemon and machine can hold the load, [`run`] makes one result of it all, and [`store`] keeps it, with a [`page`] beside it. Apart from
//! runs, [`verify`] tests the answers of daemons.

pub mod calibration;
pub mod cli;
pub mod command_line;
pub mod divided;
pub mod drivers;
pub mod exporter;
pub mod failure;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod launcher;
pub mod live;
pub mod merge;
pub mod operations;
pub mod output;
pub mod page;
pub mod part;
pub mod processes;
pub mod progress;
pub mod run;
pub mod signals;
pub mod store;
pub mod verify;
