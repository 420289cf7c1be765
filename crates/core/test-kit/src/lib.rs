//! What tests of all crates share. Only tests depend on it.
//!
//! - [`skip`]: reports a test that cannot run on this machine.
//! - [`scaled`] and [`seed`]: how often a test repeats itself, and the numbers that it draws.
//! - [`children`] and [`limit_open_files`]: find and limit running processes.
//! - [`metrics`]: reads the metrics page of a program.
//! - [`operations`]: the main function of the benches whose instructions are counted.
//! - [`wait_until`]: waits for a condition.

pub mod metrics;
pub mod operations;
mod processes;
mod repeat;
mod skip;
mod wait;

pub use processes::{children, limit_open_files};
pub use repeat::{scaled, seed};
pub use skip::skip;
pub use wait::{LIMIT, becomes_true, wait_until, wait_until_within};

/// Returns the name of the running test. With one core the test runner uses its main thread, which has no such name;
/// cargo-nextest then tells it.
fn test_name() -> String {
    let thread = std::thread::current();
    let name = thread.name().filter(|name| *name != "main");
    let name = name.map(str::to_owned);
    name.or_else(|| std::env::var("NEXTEST_TEST_NAME").ok())
        .unwrap_or_else(|| "a test".to_owned())
}
