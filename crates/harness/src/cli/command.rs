//! The commands beside a run, such as `check`: how the first word is read, and what they exit with.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Subcommand;

use super::{Failure, say_failure};

/// What `--help` says of the exit codes of a command.
pub const COMMAND_EXIT_CODES: &str =
    "Exit codes: 0 all is right, 1 something is not, 2 the call is wrong.";

/// The words of the command line. The reference tools spell options with one dash (`-connections 100`): taken as well.
pub fn words() -> impl Iterator<Item = OsString> {
    std::env::args_os().map(two_dashes)
}

/// Whether the first word names a command. Whatever else it is belongs to a run, and a shard of a run reads no options.
#[must_use]
pub fn is_command<C: Subcommand>() -> bool {
    let first = std::env::args_os().nth(1);
    first.is_some_and(|first| first.to_str().is_some_and(C::has_subcommand))
}

/// What a command exits with: whether all is right, or why nothing was found out, which is said on stderr.
#[must_use]
pub fn exit_with(all_right: Result<bool, Failure>) -> ExitCode {
    match all_right {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(failure) => say_failure(&failure),
    }
}

/// An option of one dash with two; what may be a number or several short options is left as it is.
#[must_use]
pub fn two_dashes(word: OsString) -> OsString {
    match word.to_str().and_then(|text| text.strip_prefix('-')) {
        Some(name)
            if name.len() > 2 && name.starts_with(|first: char| first.is_ascii_lowercase()) =>
        {
            format!("--{name}").into()
        }
        _ => word,
    }
}
