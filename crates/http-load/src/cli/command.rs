//! The commands beside a run.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use harness::cli::{COMMAND_EXIT_CODES, exit_with};

use crate::check;

/// What can be done besides a run.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Ask real servers for the same files, and compare what they answer
    ///
    /// Without arguments every daemon of daemons/ that serves http is built, launched and asked. One whose tool is
    /// missing is passed over, unless DROVER_REQUIRE_ALL=1.
    #[command(after_help = COMMAND_EXIT_CODES)]
    Check(CheckArgs),
}

/// Options of `check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Daemons to launch, by the names of their folders in daemons/ [default: all that serve http]
    #[arg(
        long,
        value_name = "NAME[,NAME…]",
        value_delimiter = ',',
        conflicts_with = "urls"
    )]
    pub(crate) daemon: Vec<String>,
    /// Servers that run already, by what they are to be asked for: all must answer alike
    #[arg(value_name = "URL")]
    pub(crate) urls: Vec<String>,
    /// No remarks on stderr
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

impl Command {
    /// Carries it out; says on stderr why it could not, if so.
    pub(super) fn run(self) -> ExitCode {
        let all_right = match self {
            Self::Check(typed) => check::run(&typed),
        };
        exit_with(all_right)
    }
}
