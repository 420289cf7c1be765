//! The commands beside a run, such as `check`: how the first word is read, and what they exit with.

use std::borrow::Cow;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::Subcommand;
use measure::redact;

use super::{Failure, say_failure};
use crate::output;
use crate::plan::Invalid;

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

/// Ends the program as clap does with a command line that it refuses, or with its help: no secret is shown.
pub fn refuse(error: &clap::Error) -> ! {
    let said = error.render().to_string();
    if let (true, Cow::Owned(redacted)) = (error.use_stderr(), redact::text(&said)) {
        output::remark(&redacted);
        std::process::exit(error.exit_code());
    }
    error.exit()
}

/// Returns words of which each `@FILE` is replaced by the lines of that file, without the empty ones: what stands in a file
/// stands in no list of processes.
///
/// # Errors
/// A file that can't be read, or has no line; `option` is what the error calls it.
pub fn lines_of_files(option: &str, words: Vec<String>) -> Result<Vec<String>, Invalid> {
    let mut lines = Vec::new();
    for word in words {
        let Some(file) = word.strip_prefix('@') else {
            lines.push(word);
            continue;
        };
        let wrong = |problem: String| {
            let problem = format!("{problem}: name a file with one value a line");
            Invalid::new(format!("{option} @{file}"), problem)
        };
        let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
        let before = lines.len();
        let values = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.extend(values.map(str::to_owned));
        if lines.len() == before {
            return Err(wrong("has no line".to_owned()));
        }
    }
    Ok(lines)
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
