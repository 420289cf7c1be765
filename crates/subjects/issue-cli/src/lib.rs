//! The command line of an issue database.
//!
//! A command becomes one request, or a few, to the daemon of the database; while none runs, the same request is performed
//! on the database itself. The answer is printed as text, or as the JSON of the protocol.

mod arguments;
mod commands;
mod daemon;
mod database;
mod failure;
mod order;
mod present;
mod requests;
mod session;
mod transfer;

use std::io::{self, BufWriter, Write as _};
use std::process::ExitCode;

use clap::Parser as _;

use crate::arguments::Cli;

/// Runs the command of this process, and returns its exit code.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // The terminal may be closed.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let is_json = cli.global.json;
    let mut out = BufWriter::new(io::stdout().lock());
    let result = commands::run(cli, &mut out).and_then(|()| Ok(out.flush()?));
    let failure = match result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(failure) => failure,
    };
    // What was printed before the failure is true.
    let _ = out.flush();
    if let Some(line) = failure.line(is_json) {
        let _ = writeln!(io::stderr(), "{line}");
    }
    ExitCode::from(failure.exit_code())
}
