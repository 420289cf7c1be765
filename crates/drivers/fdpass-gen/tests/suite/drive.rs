//! Runs the program like a user, and reads its output.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use harness_testing::program::{ended_with, words};
use harness_testing::result;
use serde_json::Value;

use crate::target::Target;

/// Returns the root of the project, from which its daemons are launched.
pub(crate) fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(3).unwrap().to_owned()
}

/// Returns the program, with results in `out`.
pub(crate) fn program(out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fdpass-gen"));
    command.arg("--out").arg(out.join("results"));
    command
}

/// Returns the program, for the socket of a target, with results in its folder.
pub(crate) fn on(target: &Target) -> Command {
    let mut command = program(target.folder());
    command.arg("--socket").arg(target.path());
    command
}

/// Starts the program, whose output nobody reads.
pub(crate) fn start(program: &mut Command) -> Child {
    let silent = program.stdout(Stdio::null()).stderr(Stdio::null());
    silent.spawn().unwrap()
}

/// Runs the program on a socket; returns how it exited and the JSON of `--output`.
pub(crate) fn drive(out: &Path, socket: &Path, arguments: &str) -> (Output, Value) {
    let json = out.join("output.json");
    let output = program(out)
        .arg("--socket")
        .arg(socket)
        .arg("--output")
        .arg(&json)
        .args(words(arguments))
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

/// Runs the program with arguments that must be refused with these words; returns its error.
#[track_caller]
pub(crate) fn refused(arguments: &str, parts: &[&str]) -> String {
    refused_with(2, arguments, parts)
}

/// The same with another exit code.
#[track_caller]
pub(crate) fn refused_with(code: i32, arguments: &str, parts: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut program = program(folder.path());
    let output = program.args(words(arguments)).output().unwrap();
    let error = ended_with(&output, code, parts, &arguments);
    assert_eq!(result::find(folder.path(), "result.json"), None);
    error
}
