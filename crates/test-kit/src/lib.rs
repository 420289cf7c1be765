//! What tests of all crates share. Only tests depend on it.
//!
//! - [`skip`]: reports a test that cannot run on this machine.
//! - [`scaled`] and [`seed`]: how often a test repeats itself, and the numbers that it draws.
//! - [`limit_open_files`]: limits a running process.
//! - [`metrics`]: reads the metrics page of a program.
//! - [`wait_until`]: waits for a condition.

mod files;
pub mod metrics;
mod repeat;
mod skip;
mod wait;

pub use files::limit_open_files;
pub use repeat::{scaled, seed};
pub use skip::skip;
pub use wait::{LIMIT, becomes_true, wait_until, wait_until_within};
