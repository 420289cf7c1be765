//! The commands beside a run.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use harness::output;

use crate::conformance::{self, ConformanceArgs};
use crate::null_broker::{self, Mode};

const EXIT_CODES: &str = "Exit codes: 0 all is right, 1 something is not, 2 the call is wrong.";

/// What can be done besides a run.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Be a broker that does next to nothing: what this driver reaches at most, on this machine
    NullBroker(NullArgs),
    /// Run the functional cases on any broker, ours or somebody's, and say which it fails
    ///
    /// Each case looks at one thing that AMQP 0-9-1 demands, or that RabbitMQ 3.10 does where it leaves room, reply codes
    /// included. The broker lets guest in, from this machine, and loses nothing of what others keep in it.
    #[command(after_help = EXIT_CODES)]
    Conformance(ConformanceArgs),
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
        match self {
            Self::NullBroker(typed) => serve(&typed),
            Self::Conformance(typed) => match conformance::run(&typed) {
                Ok(true) => ExitCode::SUCCESS,
                Ok(false) => ExitCode::from(1),
                Err(failure) => {
                    output::remark(&format!("error: {failure}"));
                    ExitCode::from(failure.exit_code())
                }
            },
        }
    }
}

fn serve(&NullArgs { listen, mode }: &NullArgs) -> ExitCode {
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
