//! Words of the command line, and the ends of a program.

use std::borrow::Cow;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::Command;
use load::redact;

use super::pages::with_pages;
use crate::failure::Failure;
use crate::output;
use load::plan::Invalid;

/// Columns of help that is not printed on a terminal.
const HELP_WIDTH: usize = 100;
/// Most columns of help: longer lines are hard to read.
const MAX_HELP_WIDTH: usize = 120;

/// Adds what every program has besides its own command line: help that fits the terminal, and a hidden command that
/// [writes its pages](super::write_pages).
#[must_use]
pub fn complete(program: Command) -> Command {
    let width = output::columns().unwrap_or(HELP_WIDTH);
    with_pages(program).term_width(width.min(MAX_HELP_WIDTH))
}

/// Ends the program as clap does for a refused command line or for help. Secrets are redacted.
pub fn refuse(error: &clap::Error) -> ! {
    let message = error.render().to_string();
    if let (true, Cow::Owned(redacted)) = (error.use_stderr(), redact::text(&message)) {
        output::note(&redacted);
        std::process::exit(error.exit_code());
    }
    error.exit()
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

/// Rewrites an option with one dash to two dashes. Possible numbers, and short options with or without their value
/// (`-n100`), stay as they are.
#[must_use]
pub fn two_dashes(word: OsString) -> OsString {
    match word.to_str().and_then(|text| text.strip_prefix('-')) {
        Some(name)
            if name.len() > 2 && name.bytes().take(2).all(|byte| byte.is_ascii_lowercase()) =>
        {
            format!("--{name}").into()
        }
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_options_get_a_second_dash() {
        for (typed, expected) in [
            ("-rate", "--rate"),
            ("-n100", "-n100"),
            ("-qp", "-qp"),
            ("-500", "-500"),
            ("--rate", "--rate"),
        ] {
            assert_eq!(two_dashes(typed.into()), *expected);
        }
    }
}
