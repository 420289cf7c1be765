//! Commands other than a run: `check` and `conformance`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use harness::failure::Failure;
use harness::verify::{self, EXIT_CODES};

use super::REFERENCE_SOCKET;
use crate::settings::DEFAULT_MESSAGES;
use crate::{check, conformance};

/// Commands other than a run.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Compare the answers of daemons with the shared transcript, byte for byte
    ///
    /// Without arguments, every daemon in daemons/ that serves fdpass is built, launched on both types of socket, and
    /// checked; its metrics page must count what was sent. A daemon whose tool is missing is skipped, unless
    /// DROVER_REQUIRE_ALL=1.
    #[command(after_help = EXIT_CODES)]
    Check(CheckArgs),
    /// Run the conformance cases on any daemon and report those it fails
    ///
    /// A launched daemon is tested on both types of socket, and relaunched for cases that need other settings; on a
    /// running daemon these cases are skipped.
    #[command(after_help = EXIT_CODES)]
    Conformance(ConformanceArgs),
}

/// Options of `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    #[command(flatten)]
    pub(crate) options: verify::check::Options,
    /// Check a running daemon at this socket
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = REFERENCE_SOCKET, conflicts_with = "daemon")]
    pub(crate) socket: Option<PathBuf>,
    /// Set the number of events per stream of the daemon behind --socket; cases with other numbers are skipped
    #[arg(
        long,
        value_name = "N",
        default_value_t = DEFAULT_MESSAGES,
        requires = "socket",
        conflicts_with = "daemon"
    )]
    pub(crate) messages: u32,
}

/// Options of `conformance`.
#[derive(Debug, Args)]
pub struct ConformanceArgs {
    #[command(flatten)]
    pub(crate) options: verify::conformance::Options,
    /// Test a running daemon at this socket
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = REFERENCE_SOCKET, conflicts_with = "daemon")]
    pub(crate) socket: Option<PathBuf>,
    /// Read the Prometheus page of the daemon behind --socket; without it, counters are not checked
    // `conflicts_with` repeats it, because clap does not check `requires` if a conflicting option is present.
    #[arg(
        long,
        value_name = "URL",
        requires = "socket",
        conflicts_with = "daemon"
    )]
    pub(crate) metrics: Option<String>,
}

impl Command {
    /// Runs the command. Returns true if all is right.
    pub(super) fn run(self) -> Result<bool, Failure> {
        match self {
            Self::Check(typed) => check::run(&typed),
            Self::Conformance(typed) => conformance::run(&typed),
        }
    }
}
