//! Runs the program like a user, and reads its output.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test uses its part, and a test may panic"
)]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Returns the program, with results in `out`.
pub(crate) fn program(out: &Path) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("fdpass-gen"));
    command.arg("--out").arg(out.join("results"));
    command
}

/// Runs the program on a socket; returns how it exited and the JSON of `--output`.
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
