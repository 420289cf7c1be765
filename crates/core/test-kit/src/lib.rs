//! What tests of all crates share. Only tests depend on it.
//!
//! - [`skip`]: reports a test that cannot run on this machine.
//! - [`assert_contains`]: looks for parts of a text.
//! - [`rows`]: reads a table of texts and the expected parts.
//! - [`scaled`] and [`seed`]: how often a test repeats itself, and the numbers that it draws.
//! - [`fuzz`]: replays the inputs of fuzz targets.
//! - [`children`] and [`limit_open_files`]: find and limit running processes.
//! - [`metrics`]: reads the metrics page of a program.
//! - [`operations`]: the main function of the benches whose instructions are counted.
//! - [`simulation`]: peers that do what a seed draws, and the fewest steps that fail.
//! - [`wait_until`]: waits for a condition.

use std::env::var_os;
use std::fmt::Display;
use std::fs::File;
use std::io::Write as _;

pub mod fuzz;
pub mod metrics;
pub mod operations;
mod processes;
mod repeat;
pub mod simulation;
mod wait;

pub use processes::{children, limit_open_files};
pub use repeat::{scaled, seed};
pub use wait::{LIMIT, becomes_true, wait_until, wait_until_within};

/// Checks that a text has all of these parts.
///
/// # Panics
/// A part is missing.
#[track_caller]
pub fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

/// Returns the rows of a table: a text and the expected parts. A line is a row: `--rate 0 => --rate … above 0`.
///
/// # Panics
/// A line has no `=> `.
pub fn rows(table: &str) -> impl Iterator<Item = (&str, Vec<&str>)> {
    table.trim().lines().map(|line| {
        let (text, parts) = line.split_once("=> ").expect("a row has `=> `");
        (text.trim(), parts.split(" … ").collect())
    })
}

/// Reports that the running test is skipped because of what it needs: `skipped: NAME: needs chromium`. The caller
/// returns. The line is printed although the test passes, because the test runner captures only the print macros. It is
/// also appended to the file that `DROVER_SKIPPED` names: another runner prints nothing of a test that passes.
///
/// # Panics
/// `DROVER_REQUIRE_ALL=1` is set: a test that cannot run fails then.
#[track_caller]
pub fn skip(needs: impl Display) {
    let needs = needs.to_string();
    // What follows is how to install it.
    let needs = needs.lines().next().unwrap_or_default();
    let is_required = var_os("DROVER_REQUIRE_ALL").is_some_and(|value| value == "1");
    assert!(!is_required, "DROVER_REQUIRE_ALL=1: needs {needs}");
    let test = test_name();
    let _ = writeln!(std::io::stderr(), "skipped: {test}: needs {needs}");
    if let Some(file) = var_os("DROVER_SKIPPED") {
        let opened = File::options().create(true).append(true).open(file);
        let mut file = opened.expect("DROVER_SKIPPED names a file that can be written");
        // One call, so that tests which run at the same time do not mix their lines.
        let line = format!("{test}: needs {needs}\n");
        file.write_all(line.as_bytes())
            .expect("the list of skipped tests can be written");
    }
}

/// Returns the name of the running test. With one core the test runner uses its main thread, which has no such name;
/// cargo-nextest then tells it.
fn test_name() -> String {
    let thread = std::thread::current();
    let name = thread.name().filter(|name| *name != "main");
    let name = name.map(str::to_owned);
    name.or_else(|| std::env::var("NEXTEST_TEST_NAME").ok())
        .unwrap_or_else(|| "a test".to_owned())
}
