//! Words of the command line, and the ends of a program.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use clap::error::ErrorKind;
use load::redact;

use super::help;
use crate::failure::Failure;
use crate::output;
use load::plan::Invalid;

/// Columns of help that is not printed on a terminal.
const HELP_WIDTH: usize = 100;
/// Most columns of help: longer lines are hard to read.
const MAX_HELP_WIDTH: usize = 120;

/// Ends the program as clap does for a refused command line or for help. Secrets are redacted. Help fits the terminal.
pub fn refuse(error: &clap::Error) -> ! {
    let message = error.render().to_string();
    if let (true, Cow::Owned(redacted)) = (error.use_stderr(), redact::text(&message)) {
        output::note(&redacted);
        std::process::exit(error.exit_code());
    }
    if error.kind() != ErrorKind::DisplayHelp {
        error.exit();
    }
    let width = output::columns().unwrap_or(HELP_WIDTH).min(MAX_HELP_WIDTH);
    let printed = if output::is_screen(&io::stdout()) {
        output::print(&help::fitted(&error.render().ansi().to_string(), width))
    } else {
        output::print(&help::fitted(&message, width))
    };
    std::process::exit(i32::from(printed.is_err()));
}

/// Returns `words` with each `@FILE` replaced by the non-empty lines of that file. Values in a file do not appear in
/// process listings.
///
/// # Errors
/// A file that can't be read or has no lines. The error names `option`.
pub fn lines_of_files(option: &str, words: Vec<String>) -> Result<Vec<String>, Invalid> {
    let mut lines = Vec::new();
    for word in words {
        let Some(file) = word.strip_prefix('@') else {
            lines.push(word);
            continue;
        };
        let wrong = |problem: String| {
            let problem = format!("{problem}: name a file with one value per line");
            Invalid::new(format!("{option} @{file}"), problem)
        };
        let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
        let before = lines.len();
        let values = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.extend(values.map(str::to_owned));
        if lines.len() == before {
            return Err(wrong("has no lines".to_owned()));
        }
    }
    Ok(lines)
}

/// Returns the exit code of a command: 0 if all is right, 1 if not, or the code of a failure, which is printed to
/// stderr.
#[must_use]
pub fn exit_with(all_right: Result<bool, Failure>) -> ExitCode {
    match all_right {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(failure) => failure.print(),
    }
}

/// Rewrites an option with one dash to two dashes. Possible numbers and short options stay as they are.
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
