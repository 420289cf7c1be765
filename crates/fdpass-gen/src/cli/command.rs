//! Commands other than a run: `check` and `conformance`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use harness::cli::{COMMAND_EXIT_CODES, exit_with};
use harness::conformance::Options;

use super::REFERENCE_SOCKET;
use crate::settings::DEFAULT_MESSAGES;
use crate::{check, conformance};

/// Commands other than a run.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Compare the answers of daemons with the shared transcript, byte for byte
    ///
    /// Without arguments, every daemon in daemons/ that serves fdpass is built, launched on both types of socket, and
    /// checked; its metrics page must count what was sent. A daemon whose tool is missing is skipped, unless
    /// DROVER_REQUIRE_ALL=1.
    #[command(after_help = COMMAND_EXIT_CODES)]
    Check(CheckArgs),
    /// Run the conformance cases on any daemon and report those it fails
    ///
    /// A launched daemon is tested on both types of socket, and relaunched for cases that need other settings; on a
    /// running daemon these cases are skipped.
    #[command(after_help = COMMAND_EXIT_CODES)]
    Conformance(ConformanceArgs),
}

/// Options of `check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Launch these daemons, named by their folders in daemons/ [default: all that serve fdpass]
    #[arg(
        long,
        value_name = "NAME[,NAME…]",
        value_delimiter = ',',
        conflicts_with = "socket"
    )]
    pub(crate) daemon: Vec<String>,
    /// Check a running daemon at this socket
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = REFERENCE_SOCKET)]
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
    /// Suppress notes on stderr
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Options of `conformance`.
#[derive(Debug, Args)]
pub(crate) struct ConformanceArgs {
    /// Launch this daemon, named by its folder in daemons/
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with = "socket",
        required_unless_present = "socket"
    )]
    pub(crate) daemon: Option<String>,
    /// Test a running daemon at this socket
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = REFERENCE_SOCKET)]
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
    #[command(flatten)]
    pub(crate) options: Options,
}

impl Command {
    /// Runs the command; prints its error on stderr if it fails.
    pub(super) fn run(self) -> ExitCode {
        let all_right = match self {
            Self::Check(typed) => check::run(&typed),
            Self::Conformance(typed) => conformance::run(&typed),
        };
        exit_with(all_right)
    }
}
