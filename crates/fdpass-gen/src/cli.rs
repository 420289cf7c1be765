//! The command line: options of the reference generator in GNU spelling, and further ones.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use harness::cli::DriverCli;
use harness::failure::Failure;
use harness::verify::{self, EXIT_CODES};
use load::driver::Target;
use load::duration;
use load::plan::{Group, Invalid, Plan, Timeline};
use load::schedule::Arrival;
use measure::result::RunResult;

use crate::driver::FdPass;
use crate::settings::{DEFAULT_MESSAGES, Settings};
use crate::{check, conformance, reference};

/// Socket of the reference's daemons.
const REFERENCE_SOCKET: &str = "/var/run/streaming-daemon.sock";
/// Default number of clients.
const DEFAULT_CONNECTIONS: u64 = 100;
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
    load: LoadOptions,
    #[command(flatten)]
    settings: Settings,
    /// Read the payload of the handoff from this file
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "plan",
        help_heading = "Handoffs and streams"
    )]
    data_file: Option<PathBuf>,
}

/// Options that shape the load.
#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
#[group(multiple = true, conflicts_with = "plan")]
struct LoadOptions {
    /// Hand over this many clients, once each [default: 100, or none with --rate]
    #[arg(long, value_name = "N")]
    connections: Option<u64>,
    /// Hand over this many clients per second (open loop), for the whole ramp-up and hold
    #[arg(
        long,
        value_name = "PER_SECOND",
        conflicts_with = "plan",
        allow_negative_numbers = true
    )]
    rate: Option<f64>,
    /// Set how the starts of --rate are distributed
    #[arg(long, value_enum, default_value = "constant", requires = "rate")]
    arrival: Arrival,
    /// Raise the load over this time
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    ramp_up: Duration,
    /// Hold the load for this time; without --rate, the run ends earlier, with its last stream
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::parse)]
    hold: Duration,
    /// Run the load for this long before measuring
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    warmup: Duration,
    /// Set the random seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

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

impl DriverCli for FdPass {
    type Options = Options;
    type Command = Command;
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

    fn adapt(command: clap::Command) -> clap::Command {
        command.mut_arg("output", |output| {
            output
                .help("Also write the results to this file, as JSON with the reference tool's keys")
        })
    }

    fn plan(options: &Options) -> Result<Plan<Settings>, Failure> {
        let mut settings = options.settings.clone();
        if let Some(file) = &options.data_file {
            settings.data = fs::read_to_string(file).map_err(|error| {
                let field = format!("--data-file {}", file.display());
                Invalid::new(
                    field,
                    format!("{error}: name a readable file of UTF-8 text"),
                )
            })?;
        }
        Ok(options.load.plan(settings))
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

    fn run_command(command: Command) -> Result<bool, Failure> {
        match command {
            Command::Check(typed) => check::run(&typed),
            Command::Conformance(typed) => conformance::run(&typed),
        }
    }

    fn json(results: &[RunResult]) -> serde_json::Value {
        reference::json(results)
    }
}

impl LoadOptions {
    /// Returns the plan of this load, not yet validated.
    fn plan(&self, driver: Settings) -> Plan<Settings> {
        let timeline = Timeline {
            warmup: self.warmup,
            measure: self.ramp_up + self.hold,
            drain: driver.stream_timeout + Duration::from_secs(1),
        };
        Plan {
            seed: self.seed,
            ..Plan::new("command-line", timeline, self.groups(), driver)
        }
    }

    /// Returns the groups: the fixed set of the reference, an open loop, or both.
    fn groups(&self) -> Vec<Group> {
        let group = |name: &str, clients, rate, ops| Group {
            name: name.to_owned(),
            clients,
            ramp: self.ramp_up,
            rate,
            arrival: self.arrival,
            stages: Vec::new(),
            ops,
        };
        let default = self.rate.is_none().then_some(DEFAULT_CONNECTIONS);
        let clients = self.connections.or(default);
        let fixed = clients.map(|clients| group("fixed", clients, None, Some(1)));
        let open = self.rate.map(|rate| group("open", 0, Some(rate), None));
        fixed.into_iter().chain(open).collect()
    }
}

/// Passes the streams' settings to a launched daemon in the environment variables that every streaming daemon reads.
fn configure_daemon(plan: &mut Plan<Settings>) {
    let settings = &mut plan.driver;
    let messages = *settings.messages.get_or_insert(DEFAULT_MESSAGES);
    let delay = *settings.message_delay.get_or_insert(DEFAULT_DELAY);
    let given = [
        ("DAEMON_MESSAGE_COUNT", messages.to_string()),
        ("DAEMON_MESSAGE_DELAY", format!("{}ns", delay.as_nanos())),
        ("DAEMON_SOCKET_TYPE", settings.socket_type.name().to_owned()),
    ];
    for (name, value) in given {
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
