//! The command line: options of the reference generator in GNU spelling, and further ones.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use harness::cli::{DriverCli, Program, only_group};
use harness::failure::Failure;
use harness::verify::EXIT_CODES;
use load::driver::Target;
use load::duration;
use load::plan::{Group, Invalid, Plan, Timeline};
use measure::result::RunResult;

use crate::driver::FdPass;
use crate::settings::{HANDOFFS, Settings};
use crate::summary;
use fdpass_client::handoff::{DEFAULT_MESSAGES, REFERENCE_SOCKET, SocketType};
use fdpass_conformance::check::{self, CheckArgs};
use fdpass_conformance::{self as conformance, ConformanceArgs};

/// Default number of clients.
const DEFAULT_CONNECTIONS: u64 = 100;
/// Default time over which the load rises, and then is held.
const RAMP: Duration = Duration::from_secs(10);
const HOLD: Duration = Duration::from_secs(60);
/// Variables of every streaming daemon.
const SOCKET_TYPE: &str = "DAEMON_SOCKET_TYPE";
const MESSAGE_COUNT: &str = "DAEMON_MESSAGE_COUNT";
const MESSAGE_DELAY: &str = "DAEMON_MESSAGE_DELAY";
/// Default time between two records of a launched daemon.
const DEFAULT_DELAY: Duration = Duration::from_millis(50);

/// Options of a run.
#[derive(Debug, Args)]
pub struct Options {
    /// Connect to a running daemon at this socket
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = REFERENCE_SOCKET, conflicts_with = "daemon")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    load: LoadOptions,
    /// Read the payload of the handoff from this file
    #[arg(long, value_name = "FILE", help_heading = HANDOFFS, conflicts_with = "data")]
    data_file: Option<PathBuf>,
    /// Set the type of the daemon's socket [default: auto]
    #[arg(long, value_enum, help_heading = HANDOFFS)]
    socket_type: Option<SocketType>,
    /// Expect this many records per stream; a launched daemon is configured to send them [default when launched: 18]
    #[arg(long, value_name = "N", help_heading = HANDOFFS)]
    messages: Option<u32>,
    /// Set the time between two records. A launched daemon is told; with --socket, it is used for the nominal duration of
    /// streams [default when launched: 50ms]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = HANDOFFS)]
    message_delay: Option<Duration>,
}

/// Options that shape the load.
#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
struct LoadOptions {
    /// Hand over this many clients, once each [default: 100, or none with --rate]
    #[arg(long, value_name = "N")]
    connections: Option<u64>,
    /// Hand over this many clients per second (open loop), for the whole ramp-up and hold
    #[arg(long, value_name = "PER_SECOND", allow_negative_numbers = true)]
    rate: Option<f64>,
    /// Raise the load over this time [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    ramp_up: Option<Duration>,
    /// Hold the load for this time, after the time of --ramp-up; without --rate, the run ends earlier, with its last stream [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    hold: Option<Duration>,
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

impl DriverCli for FdPass {
    type Options = Options;
    type Command = Command;
    const PROGRAM: Program = Program {
        embedded: "rust-streaming",
        about: "Hand over client sockets to a streaming daemon (SCM_RIGHTS) and measure the streams that come back\n\nWithout --socket, a daemon is built, launched on a fresh socket, and stopped at the end.",
        examples: &[
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
        ],
        failed: "a stream or the run failed",
        main: &[
            "socket",
            "connections",
            "rate",
            "ramp_up",
            "hold",
            "messages",
            "message_delay",
            "stream_timeout",
            "slow_reader",
        ],
        ..Program::UNKNOWN
    };

    fn adapt(command: clap::Command) -> clap::Command {
        command.mut_arg("output", |output| {
            output.help("Also write the results to this file, as JSON with a summary beside them")
        })
    }

    /// Returns the fixed set of the reference, an open loop, or both.
    fn plan(options: &Options, settings: Settings) -> Plan<Settings> {
        let LoadOptions {
            connections, rate, ..
        } = options.load;
        let fixed = (connections.is_some() || rate.is_none()).then(|| Group {
            ramp: RAMP,
            ops: Some(1),
            ..Group::new("fixed", DEFAULT_CONNECTIONS)
        });
        let open = rate.is_some().then(|| Group {
            ramp: RAMP,
            rate,
            ..Group::new("open", 0)
        });
        let drain = settings.stream_timeout + Duration::from_secs(1);
        let timeline = Timeline::new(RAMP + HOLD, drain);
        let groups = fixed.into_iter().chain(open).collect();
        Plan::new("command-line", timeline, groups, settings)
    }

    fn apply(options: &Options, plan: &mut Plan<Settings>) -> Result<(), Invalid> {
        if let Some(file) = &options.data_file {
            plan.driver.data = fs::read_to_string(file).map_err(|error| {
                let problem = format!("{error}: name a readable file of UTF-8 text");
                Invalid::new(format!("--data-file {}", file.display()), problem)
            })?;
        }
        // A printed plan has the variables of a launched daemon, which then follow from its settings again.
        let (settings, variables) = (&mut plan.driver, &mut plan.daemon_env);
        if let Some(socket_type) = options.socket_type {
            settings.socket_type = socket_type;
            variables.remove(SOCKET_TYPE);
        }
        if options.messages.is_some() {
            settings.messages = options.messages;
            variables.remove(MESSAGE_COUNT);
        }
        if options.message_delay.is_some() {
            settings.message_delay = options.message_delay;
            variables.remove(MESSAGE_DELAY);
        }
        options.load.apply(plan)
    }

    fn target(options: &Options) -> Result<Option<Target>, Failure> {
        Ok(options.socket.clone().map(Target::at))
    }

    fn complete(target: Option<&Target>, plan: &mut Plan<Settings>) -> Result<(), Failure> {
        if target.is_none() {
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
        summary::json(results)
    }
}

impl LoadOptions {
    fn apply(&self, plan: &mut Plan<Settings>) -> Result<(), Invalid> {
        if let Some(connections) = self.connections {
            let is_fixed = |group: &Group| group.rate.is_none();
            let group = only_group(plan, "--connections", "clients", is_fixed)?;
            if group.rate.is_some() {
                let problem = "the plan has a rate and no fixed number of clients: use --rate, or --set groups.0.ops=N to limit their number";
                return Err(Invalid::new("--connections", problem));
            }
            group.clients = connections;
        }
        if self.rate.is_some() {
            let group = only_group(plan, "--rate", "rate", |group| group.rate.is_some())?;
            if group.rate.is_none() {
                (group.clients, group.ops) = (0, None);
            }
            group.rate = self.rate;
        }
        let ramp = plan.groups.iter().map(|group| group.ramp).max();
        let ramp = ramp.unwrap_or_default();
        if let Some(ramp) = self.ramp_up {
            let groups = plan.groups.iter_mut();
            groups.for_each(|group| group.ramp = ramp);
        }
        if self.ramp_up.is_some() || self.hold.is_some() {
            let held = plan.timeline.measure.saturating_sub(ramp);
            plan.timeline.measure = self.ramp_up.unwrap_or(ramp) + self.hold.unwrap_or(held);
        }
        Ok(())
    }
}

/// Passes the streams' settings to a launched daemon in the environment variables that every streaming daemon reads.
fn configure_daemon(plan: &mut Plan<Settings>) {
    let settings = &mut plan.driver;
    let messages = *settings.messages.get_or_insert(DEFAULT_MESSAGES);
    let delay = *settings.message_delay.get_or_insert(DEFAULT_DELAY);
    let given = [
        (MESSAGE_COUNT, messages.to_string()),
        (MESSAGE_DELAY, format!("{}ns", delay.as_nanos())),
        (SOCKET_TYPE, settings.socket_type.name().to_owned()),
    ];
    for (name, value) in given {
        plan.daemon_env.entry(name.to_owned()).or_insert(value);
    }
}

#[cfg(test)]
mod tests {
    use harness::cli;
    use harness_testing::assert_contains;
    use harness_testing::program::words;

    use super::*;
    use fdpass_client::handoff::DEFAULT_DATA;

    fn plan(line: &str) -> Plan<Settings> {
        let typed = words(&format!("fdpass-gen {line}"));
        let typed = FdPass::words(typed.into_iter().map(Into::into).collect()).unwrap();
        let typed = cli::command::<FdPass>().try_get_matches_from(typed);
        cli::job::<FdPass>(typed.unwrap()).unwrap().plan
    }

    #[test]
    fn nothing_typed_is_the_reference_s_load_on_the_embedded_daemon() {
        let plan = plan("");
        assert_eq!(plan.daemon.as_deref(), Some(FdPass::PROGRAM.embedded));
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
        let plan = plan("-socket /tmp/x.sock -connections 1000 -ramp-up 1m30s -hold 30s -verbose");
        assert_eq!(plan.daemon, None);
        assert_eq!(
            (plan.groups[0].clients, plan.groups[0].ramp.as_secs()),
            (1000, 90)
        );
        assert!(plan.driver.verbose);
    }

    /// Returns the plan of a file with options, or the error.
    fn overridden(groups: &str, line: &str) -> Result<Plan<Settings>, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = format!(
            "name = 'p'\n[timeline]\nmeasure = '30s'\ndrain = '1s'\n{groups}\n[driver]\nmessages = 5\n"
        );
        fs::write(file.path(), text).unwrap();
        let path = file.path().to_str().unwrap();
        let typed = words(&format!("fdpass-gen --plan {path} {line}"));
        let typed = cli::command::<FdPass>().try_get_matches_from(typed);
        let job = cli::job::<FdPass>(typed.unwrap());
        job.map(|job| job.plan).map_err(|error| error.to_string())
    }

    #[test]
    fn the_sentence_has_the_time_of_ramp_and_hold_together() {
        for file in [FIXED, OPEN] {
            let plan = overridden(file, "--ramp-up 10 --hold 30").unwrap();
            let sentence = Settings::sentence(&plan);
            assert!(sentence.contains("; at most 40s in all"), "{sentence}");
        }
    }

    const FIXED: &str = "[[groups]]\nname = 'a'\nclients = 3\nramp = '10s'\nops = 1\n";
    const OPEN: &str = "[[groups]]\nname = 'b'\nrate = 5.0\n";

    #[test]
    fn options_go_before_a_plan_and_settings_before_both() {
        let plan = |line: &str| overridden(FIXED, line).unwrap();
        let plain = plan("");
        assert_eq!(
            (plain.groups[0].clients, plain.driver.messages),
            (3, Some(5))
        );
        let typed = plan("--connections 10k --ramp-up 5 --messages 7 --seed 9");
        assert_eq!((typed.groups[0].clients, typed.seed), (10_000, 9));
        assert_eq!(typed.groups[0].ramp.as_secs(), 5);
        assert_eq!(
            typed.timeline.measure.as_secs(),
            25,
            "it is held as long as before"
        );
        assert_eq!(typed.driver.messages, Some(7));
        assert_eq!(plan("--hold 30").timeline.measure.as_secs(), 40);
        let set = plan("--connections 7 --set groups.0.clients=8");
        assert_eq!(set.groups[0].clients, 8);
        // An option with the value of its default is given all the same.
        assert_eq!(
            plan("--stream-timeout 120s --messages 18").driver.messages,
            Some(18)
        );
        let open = plan("--rate 1.5k");
        assert_eq!((open.groups[0].clients, open.groups[0].ops), (0, None));
        assert_eq!(open.groups[0].rate, Some(1500.0));
    }

    #[test]
    fn an_option_that_does_not_fit_the_plan_names_the_field_to_set() {
        let both = format!("{FIXED}{OPEN}");
        let typed = overridden(&both, "--rate 50 --connections 9").unwrap();
        assert_eq!(
            (typed.groups[0].clients, typed.groups[1].rate),
            (9, Some(50.0))
        );
        let error = overridden(&format!("{both}{OPEN}"), "--rate 50").unwrap_err();
        assert_contains(
            &error,
            &[
                "--rate",
                "3 groups",
                "--set groups.1.rate=… or --set groups.2.rate=…",
            ],
        );
        let staged = "[[groups]]\nname = 'c'\nstages = [{ rate = 5, over = '30s' }]\n";
        let error = overridden(staged, "--rate 50").unwrap_err();
        assert!(error.contains("groups.0.stages"), "{error}");
        let error = overridden(OPEN, "--connections 50").unwrap_err();
        assert!(error.contains("use --rate"), "{error}");
    }

    #[test]
    fn a_rate_replaces_the_fixed_set_unless_both_are_asked_for() {
        let names = |plan: Plan<Settings>| {
            plan.groups
                .into_iter()
                .map(|group| group.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(plan("--rate 50")), ["open"]);
        assert_eq!(names(plan("--rate 50 --connections 10")), ["fixed", "open"]);
    }
}
