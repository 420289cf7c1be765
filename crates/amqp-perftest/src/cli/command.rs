//! The commands beside a run.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use harness::output;

use crate::null_broker::{self, Mode};

/// What can be done besides a run.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Be a broker that does next to nothing: what this driver reaches at most, on this machine
    NullBroker(NullArgs),
}

/// Options of `null-broker`.
#[derive(Debug, Args)]
pub(super) struct NullArgs {
    /// Where to listen
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:5672")]
    listen: SocketAddr,
    /// What to do with messages: pass them on through queues (queue), forget them (discard), or give consumers messages
    /// without end (stream)
    #[arg(
        long,
        value_name = "MODE",
        default_value = "queue",
        env = "NULL_BROKER_MODE"
    )]
    mode: Mode,
}

impl Command {
    /// Carries it out; says on stderr why it could not, if so.
    pub(super) fn run(self) -> ExitCode {
        let Self::NullBroker(NullArgs { listen, mode }) = self;
        match null_broker::serve(listen, mode) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                output::remark(&format!(
                    "error: --listen {listen}: {error}: is the port taken?"
                ));
                ExitCode::from(2)
            }
        }
    }
}
