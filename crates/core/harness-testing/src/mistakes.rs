//! Wrong calls of a program: what their messages must say, and what no message may say.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use crate::program::ended_with;

/// Texts that no user should have to read: serde's, Rust's debug format, and a panic's.
const NEVER: [&str; 10] = [
    "invalid type",
    "invalid value:",
    "expected one of `",
    "expected u64",
    "TOML parse error",
    "Error {",
    "Error(",
    "Os {",
    "RUST_BACKTRACE",
    "panicked",
];

/// A wrong call.
#[derive(Debug, Clone, Copy)]
pub struct Mistake<'a> {
    /// The arguments; `{dir}` stands for a folder with the files of the test.
    pub call: &'a [&'a str],
    /// The exit code.
    pub code: i32,
    /// Parts of the message: what is wrong, where, and what to do.
    pub says: &'a [&'a str],
}

/// Creates a mistake that is refused as a wrong call, with exit code 2.
#[must_use]
pub const fn refused<'a>(call: &'a [&'a str], says: &'a [&'a str]) -> Mistake<'a> {
    Mistake {
        call,
        code: 2,
        says,
    }
}

/// Makes each mistake with a program, in a folder with only these files, and reads the message.
///
/// # Panics
/// An exit code or a message is another one.
#[track_caller]
pub fn check(program: impl AsRef<OsStr>, files: &[(&str, &str)], mistakes: &[Mistake<'_>]) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let dir = folder.path().to_str().unwrap();
    for mistake in mistakes {
        let words = mistake.call.iter().map(|word| word.replace("{dir}", dir));
        let mut command = Command::new(&program);
        command
            .args(words)
            .current_dir(folder.path())
            .env_remove("DROVER_ROOT")
            .stdin(Stdio::null());
        let output = command.output().unwrap();
        let message = ended_with(&output, mistake.code, mistake.says, &mistake.call);
        // No plan is announced that is not run.
        assert!(message.starts_with("error: "), "not alone: {message}");
        for text in NEVER {
            assert!(!message.contains(text), "{text:?} is in: {message}");
        }
        // A short message: what, where, and what to do, and no page of names.
        assert!(message.len() < 1_000, "too long: {message}");
    }
}
