//! Commands other than a run.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use harness::cli::{COMMAND_EXIT_CODES, exit_with};

use super::LOCAL;
use crate::check;

/// Commands other than a run.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Perform every operation of this driver once on real brokers and compare the answers
    ///
    /// Without arguments, every daemon in daemons/ that serves amqp is built, launched and checked. A daemon whose tool
    /// is missing is skipped, unless DROVER_REQUIRE_ALL=1.
    #[command(after_help = COMMAND_EXIT_CODES)]
    Check(CheckArgs),
}

/// Options of `check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Launch these daemons, named by their folders in daemons/ [default: all that serve amqp]
    #[arg(
        long,
        value_name = "NAME[,NAME…]",
        value_delimiter = ',',
        conflicts_with = "uri"
    )]
    pub(crate) daemon: Vec<String>,
    /// Check a running broker at this address instead [without a value: amqp://guest:guest@localhost:5672/]
    #[arg(long, value_name = "URI", num_args = 0..=1, default_missing_value = LOCAL)]
    pub(crate) uri: Option<String>,
    /// Suppress notes on stderr
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

impl Command {
    /// Runs the command; prints its error on stderr if it fails.
    pub(super) fn run(self) -> ExitCode {
        let Self::Check(typed) = self;
        exit_with(check::run(&typed))
    }
}
