//! The command line: options of the reference generator in GNU spelling, and further ones.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Command};
use harness::cli::DriverCli;
use harness::failure::Failure;
use load::driver::Target;
use load::plan::Plan;
use measure::result::RunResult;

use crate::driver::FdPass;
use crate::reference;
use crate::settings::{DEFAULT_MESSAGES, Settings};

mod command;
mod options;

pub(crate) use command::{CheckArgs, ConformanceArgs};
use options::Load;

/// Socket of the reference's daemons.
const REFERENCE_SOCKET: &str = "/var/run/streaming-daemon.sock";
/// Default time between two records of a launched daemon.
const DEFAULT_DELAY: Duration = Duration::from_millis(50);

/// Options of a run.
#[derive(Debug, Args)]
pub struct Options {
    /// Connect to a running daemon at this socket
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = REFERENCE_SOCKET, conflicts_with = "daemon")]
    socket: Option<PathBuf>,
    /// Log each finished stream to stderr
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    load: Load,
}

impl DriverCli for FdPass {
    type Options = Options;
    type Command = command::Command;
    const EMBEDDED: &'static str = "rust-streaming";
    const ABOUT: &'static str = "Hand over client sockets to a streaming daemon (SCM_RIGHTS) and measure the streams that come back\n\nWithout --socket, a daemon is built, launched on a fresh socket, and stopped at the end.";
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        ("", "100 clients on the embedded daemon"),
        (
            "--socket /run/daemon.sock --connections 1000 --ramp-up 30s",
            "1,000 clients on a running daemon, one each 30 ms",
        ),
        (
            "--daemon go-streaming --rate 500 --hold 30s",
            "500 clients per second, however fast the daemon is",
        ),
        ("--plan configs/fdpass/open.toml", "run a plan file"),
        ("check", "compare the answers of all daemons"),
    ];
    const FAILED: &'static str = "a stream or the run failed";

    fn adapt(command: Command) -> Command {
        command.mut_arg("output", |output| {
            output
                .help("Also write the results to this file, as JSON with the reference tool's keys")
        })
    }

    fn plan(options: &Options) -> Result<Plan<Settings>, Failure> {
        options.load.plan()
    }

    fn target(options: &Options) -> Result<Option<Target>, Failure> {
        Ok(options.socket.clone().map(Target::at))
    }

    fn complete(
        plan: &mut Plan<Settings>,
        options: &Options,
        _target: Option<&Target>,
    ) -> Result<(), Failure> {
        plan.driver.verbose |= options.verbose;
        if plan.daemon.is_some() {
            configure_daemon(plan);
        }
        Ok(())
    }

    fn run_command(command: command::Command) -> Result<bool, Failure> {
        command.run()
    }

    fn json(results: &[RunResult]) -> serde_json::Value {
        reference::json(results)
    }
}

/// Passes the streams' settings to a launched daemon in the environment variables that every streaming daemon reads.
fn configure_daemon(plan: &mut Plan<Settings>) {
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
    use harness::cli;

    use super::*;
    use crate::settings::DEFAULT_DATA;

    fn plan(arguments: &[&str]) -> Plan<Settings> {
        let typed = std::iter::once("fdpass-gen").chain(arguments.iter().copied());
        let words = FdPass::words(typed.map(Into::into).collect()).unwrap();
        let typed = cli::command::<FdPass>().try_get_matches_from(words);
        cli::job::<FdPass>(typed.unwrap()).unwrap().plan
    }

    #[test]
    fn nothing_typed_is_the_reference_s_load_on_the_embedded_daemon() {
        let plan = plan(&[]);
        assert_eq!(plan.daemon.as_deref(), Some(FdPass::EMBEDDED));
        assert_eq!(
            (
                plan.groups[0].clients,
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
            (plan.groups[0].clients, plan.groups[0].ramp.as_secs()),
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
