//! The commands beside a run: `check` and `conformance`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use harness::cli::{COMMAND_EXIT_CODES, exit_with};
use harness::conformance::Options;

use super::REFERENCE_SOCKET;
use crate::settings::DEFAULT_MESSAGES;
use crate::{check, conformance};

/// What can be done besides a run.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Compare the answers of daemons, byte for byte, with the transcript that all daemons share
    ///
    /// Without arguments every daemon of daemons/ that serves fdpass is built, launched on both types of socket, and
    /// asked; its metrics page must count what was sent. One whose tool is missing is passed over, unless
    /// DROVER_REQUIRE_ALL=1.
    #[command(after_help = COMMAND_EXIT_CODES)]
    Check(CheckArgs),
    /// Run the functional cases on any daemon, ours or somebody's, and say which it fails
    ///
    /// A daemon that is launched is tried on both types of socket, and cases that need settings of their own launch
    /// it with them; on one that runs already these cases are passed over.
    #[command(after_help = COMMAND_EXIT_CODES)]
    Conformance(ConformanceArgs),
}

/// Options of `check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Daemons to launch, by the names of their folders in daemons/ [default: all that serve fdpass]
    #[arg(
        long,
        value_name = "NAME[,NAME…]",
        value_delimiter = ',',
        conflicts_with = "socket"
    )]
    pub(crate) daemon: Vec<String>,
    /// Socket of a daemon that runs already
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = REFERENCE_SOCKET)]
    pub(crate) socket: Option<PathBuf>,
    /// Events of a stream of the daemon behind --socket: cases with other numbers are passed over
    #[arg(
        long,
        value_name = "N",
        default_value_t = DEFAULT_MESSAGES,
        requires = "socket",
        conflicts_with = "daemon"
    )]
    pub(crate) messages: u32,
    /// No remarks on stderr
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Options of `conformance`.
#[derive(Debug, Args)]
pub(crate) struct ConformanceArgs {
    /// Daemon to launch, by the name of its folder in daemons/
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with = "socket",
        required_unless_present = "socket"
    )]
    pub(crate) daemon: Option<String>,
    /// Socket of a daemon that runs already
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = REFERENCE_SOCKET)]
    pub(crate) socket: Option<PathBuf>,
    /// Prometheus page of the daemon behind --socket; without it nothing that is counted is looked at
    // Named twice: what is required is not asked for where it conflicts with what is there.
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
    /// Carries it out; says on stderr why nothing was done, if so.
    pub(super) fn run(self) -> ExitCode {
        let all_right = match self {
            Self::Check(typed) => check::run(&typed),
            Self::Conformance(typed) => conformance::run(&typed),
        };
        exit_with(all_right)
    }
}
