//! Finds the programs that the pages call. The tests of the whole workspace build them.

use std::path::{Path, PathBuf};

use harness_testing::skip;

/// Drivers: they print the plan of a call instead of running it.
pub(crate) const DRIVERS: [&str; 5] = [
    "fdpass-gen",
    "amqp-perftest",
    "http-load",
    "presence-load",
    "issue-stress",
];
/// Other programs, and the example of the page on drivers.
pub(crate) const OTHERS: [&str; 4] = ["drover", "amqp-conformance", "issue", "echo-load"];

/// Returns the path of a program beside the one under test.
pub(crate) fn path(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_drover")).parent().unwrap();
    match name {
        "echo-load" => folder.join("examples").join(name),
        _ => folder.join(name),
    }
}

/// Returns false, and reports the test as skipped, if one of these programs was not built.
#[track_caller]
pub(crate) fn are_built(names: &[&str]) -> bool {
    let missing = names.iter().find(|name| !path(name).is_file());
    if let Some(name) = missing {
        skip(format!("{name}: cargo build --workspace --bins --examples"));
    }
    missing.is_none()
}
