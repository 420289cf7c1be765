//! Wrong calls of a program: what their messages must say, and what no message may say.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use test_kit::rows;

use crate::program::{ended_with, words};

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

/// Makes wrong calls of a program, in a folder with only these files. Each must end with exit code 2 and a message with
/// all of its parts: what is wrong, where, and what to do. A line has a call, as in a shell, and the parts:
///
/// ```text
/// -c 1.5 {url} => --connections … whole number
/// ```
///
/// `{dir}` stands for the folder, and `{url}` for a URL at which nobody listens.
///
/// # Panics
/// An exit code or a message is another one.
#[track_caller]
pub fn check(program: impl AsRef<OsStr>, files: &[(&str, &str)], mistakes: &str) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let dir = folder.path().to_str().unwrap();
    let mistakes = mistakes
        .replace("{dir}", dir)
        .replace("{url}", "http://127.0.0.1:1");
    for (call, parts) in rows(&mistakes) {
        let mut command = Command::new(&program);
        command
            .args(words(call))
            .current_dir(folder.path())
            .env_remove("DROVER_ROOT")
            .stdin(Stdio::null());
        let message = ended_with(&command.output().unwrap(), 2, &parts, &call);
        // No plan is announced that is not run.
        assert!(message.starts_with("error: "), "not alone: {message}");
        for text in NEVER {
            assert!(!message.contains(text), "{text:?} is in: {message}");
        }
        // A short message: what, where, and what to do, and no page of names.
        assert!(message.len() < 1_000, "too long: {message}");
    }
}
