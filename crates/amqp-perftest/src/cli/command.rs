//! The commands beside a run.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use harness::cli::Failure;
use harness::output;
use harness::plan::Invalid;

use super::LOCAL;
use crate::check;
use crate::conformance::{self, ConformanceArgs};
use crate::null_broker::{self, Mode};

const EXIT_CODES: &str = "Exit codes: 0 all is right, 1 something is not, 2 the call is wrong.";

/// What can be done besides a run.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Do everything that this driver can do once, on real brokers, and compare the answers
    ///
    /// Without arguments every daemon of daemons/ that serves amqp is built, launched and asked. One whose tool is
    /// missing is passed over, unless DROVER_REQUIRE_ALL=1.
    #[command(after_help = EXIT_CODES)]
    Check(CheckArgs),
    /// Be a broker that does next to nothing: what this driver reaches at most, on this machine
    NullBroker(NullArgs),
    /// Run the functional cases on any broker, ours or somebody's, and say which it fails
    ///
    /// Each case looks at one thing that AMQP 0-9-1 demands, or that RabbitMQ 3.10 does where it leaves room, reply codes
    /// included. The broker lets guest in, from this machine, and loses nothing of what others keep in it.
    #[command(after_help = EXIT_CODES)]
    Conformance(ConformanceArgs),
}

/// Options of `check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Daemons to launch, by the names of their folders in daemons/ [default: all that serve amqp]
    #[arg(
        long,
        value_name = "NAME[,NAME…]",
        value_delimiter = ',',
        conflicts_with = "uri"
    )]
    pub(crate) daemon: Vec<String>,
    /// Address of a broker that runs already
    #[arg(long, value_name = "URI", num_args = 0..=1, default_missing_value = LOCAL)]
    pub(crate) uri: Option<String>,
    /// No remarks on stderr
    #[arg(long, short)]
    pub(crate) quiet: bool,
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
        let all_right = match self {
            Self::Check(typed) => check::run(&typed),
            Self::Conformance(typed) => conformance::run(&typed),
            Self::NullBroker(NullArgs { listen, mode }) => null_broker::serve(listen, mode)
                .map(|()| true)
                .map_err(|error| {
                    let problem = format!("{error}: is the port taken? Name another");
                    Invalid::new(format!("--listen {listen}"), problem).into()
                }),
        };
        match all_right {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::from(1),
            Err(failure) => say(&failure),
        }
    }
}

fn say(failure: &Failure) -> ExitCode {
    output::remark(&format!("error: {failure}"));
    ExitCode::from(failure.exit_code())
}
