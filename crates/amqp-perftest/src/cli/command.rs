//! Commands other than a run.

use clap::{Args, Subcommand};
use harness::failure::Failure;
use harness::verify::{self, EXIT_CODES};

use super::LOCAL;
use crate::check;

/// Commands other than a run.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Perform every operation of this driver on real brokers and verify the answers
    ///
    /// Without arguments, every daemon in daemons/ that serves amqp is built, launched and checked. A daemon whose tool
    /// is missing is skipped, unless DROVER_REQUIRE_ALL=1. amqp-conformance runs all functional cases on one broker.
    #[command(after_help = EXIT_CODES)]
    Check(CheckArgs),
}

/// Options of `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    #[command(flatten)]
    pub(crate) options: verify::check::Options,
    /// Check a running broker at this address instead [without a value: amqp://guest:guest@localhost:5672/]
    #[arg(long, value_name = "URI", num_args = 0..=1, default_missing_value = LOCAL, conflicts_with = "daemon")]
    pub(crate) uri: Option<String>,
}

impl Command {
    /// Runs the command. Returns true if all is right.
    pub(super) fn run(self) -> Result<bool, Failure> {
        let Self::Check(typed) = self;
        check::run(&typed)
    }
}
