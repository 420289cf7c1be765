//! Runs the program as a user does, and reads what it wrote.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test uses its part, and a test may panic"
)]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// The program, with results in `out`.
pub(crate) fn program(out: &Path) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("fdpass-gen"));
    command.arg("--out").arg(out.join("results"));
    command
}

/// The first of five runs in which nothing was missed, and what it came with. A machine that is busy wakes the driver too
/// late for what is due at the very end; a driver that loses starts loses them in every run.
pub(crate) fn none_missed<T>(run: impl FnMut() -> (Value, T)) -> (Value, T) {
    let mut runs = std::iter::repeat_with(run).take(5);
    runs.find(|(result, _)| result["operations"]["missed"] == 0)
        .expect("a run in which nothing is missed")
}

/// Runs the program on a socket; returns how it ended and the JSON of `--output`.
pub(crate) fn drive(out: &Path, socket: &Path, arguments: &[&str]) -> (Output, Value) {
    let json = out.join("output.json");
    let output = program(out)
        .arg("--socket")
        .arg(socket)
        .arg("--output")
        .arg(&json)
        .args(arguments)
        .output()
        .unwrap();
    let text = std::fs::read_to_string(&json).unwrap_or_else(|_| {
        panic!(
            "no result; stderr:\n{}",
            String::from_utf8_lossy(&output.stderr)
        )
    });
    (output, serde_json::from_str(&text).unwrap())
}
