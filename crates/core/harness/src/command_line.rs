//! The command line of this program as results and reports show it: without secrets, quoted for a POSIX shell.

use std::borrow::Cow;
use std::env;

use load::redact;

use crate::cli::load_variables;

/// The variable that tells a driver the command line of the suite that starts it.
pub const SUITE_COMMAND: &str = "DROVER_SUITE_COMMAND";

/// Returns the command lines that make a result of this driver: the suite's, if it is a run of one, then its own with
/// the variables that change the load.
pub(crate) fn commands(driver: &str) -> Vec<String> {
    let variables = load_variables(driver).into_iter().map(|name| {
        let value = env::var_os(&name).unwrap_or_default();
        let word = format!("{name}={}", value.to_string_lossy());
        let redacted = redact::words(&[&word]).concat();
        // A quoted name would not be an assignment.
        let (name, value) = redacted.split_once('=').unwrap_or((&redacted, ""));
        format!("{name}={} ", quoted(value))
    });
    let own = variables.collect::<String>() + &command_line(driver);
    env::var(SUITE_COMMAND).into_iter().chain([own]).collect()
}

/// Returns the command line of this program.
#[must_use]
pub fn command_line(program: &str) -> String {
    let typed: Vec<_> = env::args_os().skip(1).collect();
    let typed: Vec<Cow<'_, str>> = typed.iter().map(|word| word.to_string_lossy()).collect();
    let words = [program].into_iter().chain(typed.iter().map(AsRef::as_ref));
    let words = redact::words(&words.collect::<Vec<_>>());
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    words.join(" ")
}

/// Quotes a word for a POSIX shell, if it needs to be.
#[must_use]
pub fn quoted(word: &str) -> String {
    let quoted = shlex::try_quote(word).expect("neither arguments nor paths contain NUL");
    quoted.into_owned()
}
