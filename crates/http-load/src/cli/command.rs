//! Subcommands other than a run.

use clap::{Args, Subcommand};
use harness::failure::Failure;
use harness::verify::{self, EXIT_CODES};

use crate::check;

/// A subcommand other than a run.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Request the same files from several servers and compare the responses
    ///
    /// Without arguments, check builds and launches every daemon in daemons/ that serves HTTP. It skips a daemon whose
    /// toolchain is missing, unless DROVER_REQUIRE_ALL=1.
    #[command(after_help = EXIT_CODES)]
    Check(CheckArgs),
}

/// Options of the `check` subcommand.
#[derive(Debug, Args)]
pub struct CheckArgs {
    #[command(flatten)]
    pub(crate) options: verify::check::Options,
    /// Check servers that are already running: every URL must return the same response
    #[arg(value_name = "URL", conflicts_with = "daemon")]
    pub(crate) urls: Vec<String>,
}

impl Command {
    /// Runs the subcommand. Returns true if all is right.
    pub(super) fn run(self) -> Result<bool, Failure> {
        match self {
            Self::Check(typed) => check::run(&typed),
        }
    }
}
