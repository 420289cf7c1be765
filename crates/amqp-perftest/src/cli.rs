//! What is typed: the options of the seed's tool and of PerfTest, spelled the GNU way.

use std::process::ExitCode;

use clap::{FromArgMatches as _, Parser};
use harness::cli::{self, Common, Failure, Job};
use harness::driver::Target;
use harness::plan;
use measure::result::RunResult;

use crate::driver::Perftest;
use crate::settings::Settings;

mod command;
mod load;
mod perftest;
mod values;
mod variables;

pub(crate) use command::CheckArgs;
use command::Command;
use load::Load;

/// Where a broker listens by default.
const LOCAL: &str = "amqp://guest:guest@localhost:5672/";
/// The daemon that is launched when none is named.
const EMBEDDED: &str = "broker-daemon";

/// Let producers and consumers loose on an AMQP 0-9-1 broker, and account for every message.
///
/// Without --uri a broker is built, launched on a fresh port, and stopped at the end. PerfTest's short options are taken
/// too: -h before an address is --uri, -q before a number --prefetch; its --rate is of each producer, and this one of all.
#[derive(Debug, Parser)]
#[command(name = "amqp-perftest", version, after_help = EXIT_CODES)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Address of a broker that runs already; alone, amqp://guest:guest@localhost:5672/. @FILE takes it from a file. Those of several nodes of one
    /// broker have their connections in turn, and one that is lost is tried at the next node
    #[arg(long, alias = "uris", value_name = "URI[,URI…]", env = "AMQP_PERFTEST_URI", num_args = 0..=1, default_missing_value = LOCAL, value_delimiter = ',', conflicts_with = "daemon")]
    uri: Vec<String>,
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    common: Common,
}

const EXIT_CODES: &str = "Exit codes: 0 fine, 1 a message was lost or refused or the run failed, 2 the call or the plan is wrong, 3 the results are suspect (a message came twice or out of order, or was unfinished), 4 a threshold was missed, 5 this machine's limits do not allow it.";

/// The whole program. Options that clap refuses end it with its message and exit code 2.
#[must_use]
pub fn main() -> ExitCode {
    let command = cli::is_command::<Command>().then(typed);
    let command = match command.transpose() {
        Ok(command) => command.and_then(|typed| typed.command),
        Err(failure) => return cli::exit_with(Err(failure)),
    };
    match command {
        Some(command) => command.run(),
        None => cli::main::<Perftest>(|| typed().and_then(job_of), json),
    }
}

fn typed() -> Result<Cli, Failure> {
    let words = perftest::words(cli::words())?;
    let words = words.into_iter().map(cli::two_dashes);
    let typed = variables::command().try_get_matches_from(words);
    Ok(typed
        .and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches))
        .unwrap_or_else(|error| cli::refuse(&error)))
}

fn job_of(cli: Cli) -> Result<Job<Settings>, Failure> {
    let Cli {
        uri,
        load,
        common,
        command: _,
    } = cli;
    let mut plan = match &common.plan {
        Some(path) => plan::load(path, &common.set)?,
        None => load.plan(),
    };
    // So that plan and result name the one that is used.
    plan.driver.engine = plan.driver.engine.chosen();
    if let Some(daemon) = &common.daemon {
        plan.daemon = Some(daemon.clone());
    }
    let uri = cli::lines_of_files("--uri", uri)?;
    let target = (!uri.is_empty()).then(|| Target::of_urls(uri));
    match target {
        Some(_) => plan.daemon = None,
        None => {
            plan.daemon.get_or_insert_with(|| EMBEDDED.to_owned());
        }
    }
    Ok(Job {
        plan,
        target,
        common,
    })
}

/// `--output`: the results themselves.
fn json(results: &[RunResult]) -> serde_json::Value {
    serde_json::json!({ "results": results })
}
