//! Subcommands other than a run.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use harness::cli::{COMMAND_EXIT_CODES, exit_with};

use crate::check;

/// A subcommand other than a run.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Request the same files from several servers and compare the responses
    ///
    /// Without arguments, check builds and launches every daemon in daemons/ that serves HTTP. It skips a daemon whose
    /// toolchain is missing, unless DROVER_REQUIRE_ALL=1.
    #[command(after_help = COMMAND_EXIT_CODES)]
    Check(CheckArgs),
}

/// Options of the `check` subcommand.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Launch these daemons only, named by their folders in daemons/ [default: all that serve HTTP]
    #[arg(
        long,
        value_name = "NAME[,NAME…]",
        value_delimiter = ',',
        conflicts_with = "urls"
    )]
    pub(crate) daemon: Vec<String>,
    /// Check servers that are already running: every URL must return the same response
    #[arg(value_name = "URL")]
    pub(crate) urls: Vec<String>,
    /// Print no progress messages on stderr
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

impl Command {
    /// Runs the subcommand; prints the error on stderr if it fails.
    pub(super) fn run(self) -> ExitCode {
        let all_right = match self {
            Self::Check(typed) => check::run(&typed),
        };
        exit_with(all_right)
    }
}
