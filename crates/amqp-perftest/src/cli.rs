//! The command line: options of `perf-test` and PerfTest, in GNU spelling.

use std::process::ExitCode;

use clap::{FromArgMatches as _, Parser};
use harness::cli::{self, Common, Failure, Job};
use load::driver::Target;
use load::plan;
use measure::result::RunResult;

use crate::driver::Perftest;
use crate::settings::Settings;

mod command;
mod options;
mod perftest;
mod values;
mod variables;

pub(crate) use command::CheckArgs;
use command::Command;
use options::Load;

/// Default address of a broker.
const LOCAL: &str = "amqp://guest:guest@localhost:5672/";
/// Daemon to launch if none is named.
const EMBEDDED: &str = "broker-daemon";

/// Load-test an AMQP 0-9-1 broker with producers and consumers, accounting for every message.
///
/// Without --uri, a broker is built, launched on a fresh port, and stopped at the end. PerfTest's short options are
/// accepted: -h before an address means --uri, -q before a number means --prefetch. PerfTest's --rate is per producer;
/// here --rate is the total of all producers.
#[derive(Debug, Parser)]
#[command(name = "amqp-perftest", version, after_help = EXIT_CODES)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Connect to a running broker [without a value: amqp://guest:guest@localhost:5672/]. @FILE reads addresses from a
    /// file. With several nodes of one broker, connections are spread round robin, and a lost connection is retried at
    /// the next node
    #[arg(long, alias = "uris", value_name = "URI[,URI…]", num_args = 0..=1, default_missing_value = LOCAL, value_delimiter = ',', conflicts_with = "daemon")]
    uri: Vec<String>,
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    common: Common,
}

const EXIT_CODES: &str = "Exit codes: 0 success; 1 a message was lost or refused, or the run failed; 2 invalid arguments or plan; 3 suspect results (a message was duplicated, out of order or unfinished); 4 a threshold was missed; 5 this machine's limits do not allow the run.";

/// Runs the program. If clap rejects the arguments, the program ends with clap's message and exit code 2.
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
    // Plan and result then name the engine that is used.
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

/// Renders the results for `--output`.
fn json(results: &[RunResult]) -> serde_json::Value {
    serde_json::json!({ "results": results })
}
