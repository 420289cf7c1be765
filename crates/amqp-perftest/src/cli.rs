//! What is typed.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use harness::output;

use crate::conformance::{self, ConformanceArgs};

const EXIT_CODES: &str = "Exit codes: 0 all is right, 1 something is not, 2 the call is wrong.";

/// Measure AMQP 0-9-1 brokers.
#[derive(Debug, Parser)]
#[command(name = "amqp-perftest", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the functional cases on any broker, and say which it fails
    #[command(after_help = EXIT_CODES)]
    Conformance(ConformanceArgs),
}

/// The whole program.
#[must_use]
pub fn main() -> ExitCode {
    let Command::Conformance(typed) = Cli::parse().command;
    match conformance::run(&typed) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(failure) => {
            output::remark(&format!("error: {failure}"));
            ExitCode::from(failure.exit_code())
        }
    }
}
