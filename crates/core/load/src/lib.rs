//! Generates load: plans, schedules, pacing, workers, and what they record.
//!
//! A driver speaks a protocol; everything else that generates load is here. [`plan`] describes the load, [`schedule`]
//! computes when operations are due, and [`workers`] starts the workers, as threads or in processes. Each worker has a
//! [`pacer`] (when) and a [`recorder`] (what happened); [`collector`] merges their seconds. The [`event_loop`] serves many
//! connections in one thread, with the [`reactor`] and the [`slots`]; [`net`] opens them. No daemon is launched here, and
//! no command line is parsed.

pub mod clock;
pub mod collector;
pub mod document;
pub mod driver;
pub mod duration;
pub mod event_loop;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod limits;
pub mod net;
pub mod number;
pub mod opening_phase;
pub mod pacer;
pub mod plan;
pub mod reactor;
pub mod reconciliation;
pub mod recorder;
pub mod redact;
pub mod schedstat;
pub mod schedule;
pub mod slots;
pub mod trust;
pub mod workers;
