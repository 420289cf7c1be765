//! The command line: options of the reference generator in GNU spelling, and further ones.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use harness::cli::{self, Common, Failure, Job};
use load::driver::Target;
use load::plan::{self, Plan};

use crate::driver::FdPass;
use crate::reference;
use crate::settings::{DEFAULT_MESSAGES, Settings};

mod command;
mod options;

use command::Command;
pub(crate) use command::{CheckArgs, ConformanceArgs};
use options::Load;

/// Socket of the reference's daemons.
const REFERENCE_SOCKET: &str = "/var/run/streaming-daemon.sock";
/// Daemon to launch if none is named.
const EMBEDDED: &str = "rust-streaming";
/// Default time between two records of a launched daemon.
const DEFAULT_DELAY: Duration = Duration::from_millis(50);

/// Hand over client sockets to a streaming daemon (SCM_RIGHTS) and measure the streams that come back
///
/// Without --socket, a daemon is built, launched on a fresh socket, and stopped at the end.
#[derive(Debug, Parser)]
#[command(name = "fdpass-gen", version, after_help = EXIT_CODES)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Connect to a running daemon at this socket
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = REFERENCE_SOCKET, conflicts_with = "daemon")]
    socket: Option<PathBuf>,
    /// Log each finished stream to stderr
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    common: Common,
}

const EXIT_CODES: &str = "Exit codes: 0 success; 1 a stream or the run failed; 2 invalid arguments or plan; 3 suspect results; 4 a threshold was missed; 5 this machine's limits do not allow the run.";

/// Runs the program: one of the commands, or a run. If clap rejects the arguments, the program ends with clap's message
/// and exit code 2.
#[must_use]
pub fn main() -> ExitCode {
    let command = cli::is_command::<Command>().then(|| typed().command);
    match command.flatten() {
        Some(command) => command.run(),
        None => cli::main::<FdPass>(|| job_of(typed()), reference::json),
    }
}

fn typed() -> Cli {
    Cli::try_parse_from(cli::words()).unwrap_or_else(|error| cli::refuse(&error))
}

fn job_of(cli: Cli) -> Result<Job<Settings>, Failure> {
    let Cli {
        socket,
        verbose,
        load,
        common,
        command: _,
    } = cli;
    let target = socket.map(Target::at);
    let mut plan = match &common.plan {
        Some(path) => plan::load(path, &common.set)?,
        None => load.plan()?,
    };
    plan.driver.verbose |= verbose;
    if let Some(daemon) = &common.daemon {
        plan.daemon = Some(daemon.clone());
    }
    if target.is_some() {
        plan.daemon = None;
    } else {
        launch(&mut plan);
    }
    Ok(Job {
        plan,
        target,
        common,
    })
}

/// Passes the streams' settings to a launched daemon in the environment variables that every streaming daemon reads.
fn launch(plan: &mut Plan<Settings>) {
    plan.daemon.get_or_insert_with(|| EMBEDDED.to_owned());
    let settings = &mut plan.driver;
    let messages = *settings.messages.get_or_insert(DEFAULT_MESSAGES);
    let delay = *settings.message_delay.get_or_insert(DEFAULT_DELAY);
    let told = [
        ("DAEMON_MESSAGE_COUNT", messages.to_string()),
        ("DAEMON_MESSAGE_DELAY", format!("{}ns", delay.as_nanos())),
        ("DAEMON_SOCKET_TYPE", settings.socket_type.name().to_owned()),
    ];
    for (name, value) in told {
        plan.daemon_env.entry(name.to_owned()).or_insert(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::DEFAULT_DATA;

    fn plan(arguments: &[&str]) -> Plan<Settings> {
        let typed = std::iter::once("fdpass-gen")
            .chain(arguments.iter().copied())
            .map(|argument| cli::two_dashes(argument.into()));
        job_of(Cli::try_parse_from(typed).unwrap()).unwrap().plan
    }

    #[test]
    fn nothing_typed_is_the_reference_s_load_on_the_embedded_daemon() {
        let plan = plan(&[]);
        assert_eq!(plan.daemon.as_deref(), Some(EMBEDDED));
        assert_eq!(
            (
                plan.groups[0].workers,
                plan.groups[0].ramp.as_secs(),
                plan.timeline.measure.as_secs()
            ),
            (100, 10, 70)
        );
        assert_eq!(
            (
                plan.driver.stream_timeout.as_secs(),
                plan.driver.data.as_str()
            ),
            (120, DEFAULT_DATA)
        );
        assert_eq!(plan.driver.nominal(), Some(Duration::from_millis(850)));
        plan.validate().unwrap();
        Settings::validate(&plan).unwrap();
    }

    #[test]
    fn the_reference_s_spelling_is_taken() {
        let plan = plan(&[
            "-socket",
            "/tmp/x.sock",
            "-connections",
            "1000",
            "-ramp-up",
            "1m30s",
            "-hold",
            "30s",
            "-verbose",
        ]);
        assert_eq!(plan.daemon, None);
        assert_eq!(
            (plan.groups[0].workers, plan.groups[0].ramp.as_secs()),
            (1000, 90)
        );
        assert!(plan.driver.verbose);
    }

    #[test]
    fn a_rate_replaces_the_fixed_set_unless_both_are_asked_for() {
        let names = |plan: Plan<Settings>| {
            plan.groups
                .into_iter()
                .map(|group| group.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(plan(&["--rate", "50"])), ["open"]);
        assert_eq!(
            names(plan(&["--rate", "50", "--connections", "10"])),
            ["fixed", "open"]
        );
    }
}
