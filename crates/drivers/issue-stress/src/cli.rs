//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use harness::cli::{DriverCli, Given, only_group};
use harness::failure::Failure;
use load::driver::{Address, Target};
use load::duration;
use load::plan::{Group, Invalid, Plan, Timeline};
use load::schedule::Arrival;

use crate::benchmark::{self, BenchmarkArgs};
use crate::driver::IssueStress;
use crate::settings::{BULK, Scenario, Settings};

/// The time of a run without a number of operations.
const DURATION: Duration = Duration::from_secs(10);
/// The time in which a number of operations must be done.
const LONGEST: Duration = Duration::from_secs(600);
/// Creates of a batch of the group `bulk`.
const BULK_SIZE: u16 = 1_000;

/// Options of a run.
#[derive(Debug, Args)]
pub struct Options {
    /// Drive what listens here. It is the path of an issue daemon's socket, or the URL of a database: postgresql:SOCKET,
    /// redis:SOCKET, etcd://HOST:PORT
    #[arg(value_name = "TARGET", conflicts_with_all = ["daemon", "socket"])]
    target: Option<String>,
    /// Drive the issue daemon that listens on this socket
    #[arg(long, value_name = "PATH", conflicts_with = "daemon")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    load: LoadOptions,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
struct LoadOptions {
    /// Choose the work of the agents
    #[arg(long, value_enum, default_value = "concurrent-agents")]
    scenario: Scenario,
    /// Set the number of agents, each with a connection [default: that of the scenario]
    #[arg(long, short = 'a', value_name = "N")]
    agents: Option<u64>,
    /// Let each agent perform this many operations [default: that of the scenario, or unlimited with --duration]
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "duration")]
    ops: Option<u64>,
    /// Measure for this long [default: 10s, if the scenario has no number of operations]
    #[arg(long, short, value_name = "DURATION", value_parser = duration::parse)]
    duration: Option<Duration>,
    /// Apply the load for this long before measuring
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    warmup: Duration,
    /// Start this many operations per second, however fast the daemon is; without it, each agent waits for its answers
    #[arg(long, short, value_name = "PER_SECOND", conflicts_with_all = ["agents", "ops"])]
    rate: Option<f64>,
    /// Choose how the starts of --rate are distributed
    #[arg(long, value_enum, default_value = "constant")]
    arrival: Arrival,
    /// Set the random seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

/// Commands other than a run.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Time create, update, list and ping through a daemon, directly, and by the program issue, in turns
    Benchmark(BenchmarkArgs),
}

impl LoadOptions {
    /// Applies given options to a plan from a file.
    fn override_plan(&self, plan: &mut Plan<Settings>, given: &mut Given) -> Result<(), Invalid> {
        let is_bulk = |group: &Group| group.name == BULK;
        if given.take("agents") {
            let group = only_group(plan, "--agents", "clients", |group| !is_bulk(group))?;
            (group.rate, group.clients) = (None, self.agents.unwrap_or(group.clients));
        }
        if given.take("ops") {
            let group = only_group(plan, "--ops", "ops", |group| !is_bulk(group))?;
            group.ops = self.ops;
        }
        if given.take("rate") {
            let group = only_group(plan, "--rate", "rate", |group| !is_bulk(group))?;
            (group.rate, group.clients, group.ops) = (self.rate, 0, None);
        }
        Ok(())
    }

    fn plan(&self, settings: &Settings) -> Plan<Settings> {
        let mut driver = Settings {
            scenario: self.scenario,
            ..settings.clone()
        };
        let (agents, ops) = self.scenario.size();
        let is_timed = self.duration.is_some() || self.rate.is_some();
        let ops = self.ops.or(ops.filter(|_| !is_timed));
        let group = |name: &str, clients, ops, rate| Group {
            name: name.to_owned(),
            clients,
            ramp: Duration::ZERO,
            rate,
            arrival: self.arrival,
            stages: Vec::new(),
            ops,
        };
        let agents = match self.rate {
            Some(_) => 0,
            None => self.agents.unwrap_or(agents),
        };
        let mut groups = vec![group("agents", agents, ops, self.rate)];
        if self.scenario == Scenario::PollingAgents {
            groups.push(group(BULK, 1, None, None));
            if driver.batch_size == Settings::default().batch_size {
                driver.batch_size = BULK_SIZE;
            }
        }
        let measure = match (self.duration, ops) {
            (Some(duration), _) => duration,
            (None, Some(_)) => LONGEST,
            (None, None) => DURATION,
        };
        let timeline = Timeline {
            warmup: self.warmup,
            measure,
            drain: Duration::from_secs(10),
        };
        Plan {
            seed: self.seed,
            ..Plan::new("command-line", timeline, groups, driver)
        }
    }
}

impl DriverCli for IssueStress {
    type Options = Options;
    type Command = Command;
    const MAIN: &'static [&'static str] = &[
        "socket", "scenario", "agents", "ops", "rate", "duration", "timeout", "preload",
    ];
    const NOT_IN_PLANS: &'static [&'static str] = &["socket"];
    const FIELDS: &'static [(&'static str, &'static str)] = &[("scenario", "scenario")];
    const EMBEDDED: &'static str = "issue-daemon";
    const ABOUT: &'static str = "Stress an issue daemon: many agents create, change and read issues at once, and every answer is checked\n\nWithout a target, issue-stress builds a daemon, launches it on a database of its own and stops it at the end. At the end of each run all answers are compared with the rows of the database, and the histories of shared issues are checked for linearizability.";
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        ("", "8 agents create 100 issues each"),
        (
            "--scenario mixed-operations --agents 1000 --duration 30s",
            "1,000 agents create, change and read for 30 s",
        ),
        (
            "--scenario polling-agents --duration 30s",
            "15 agents poll, claim and create beside one that sends batches of 1,000",
        ),
        (
            "--rate 2000 --duration 10s",
            "2,000 creates per second, however fast the daemon is",
        ),
        (
            "--daemon postgresql-issues --agents 64 --duration 10s",
            "the same creates on PostgreSQL",
        ),
        (
            "--plan configs/issue/quick.toml",
            "run a plan file against a daemon that issue-stress launches",
        ),
    ];
    const FAILED: &'static str = "an operation or the run failed";

    fn plan(options: &Options) -> Result<Plan<Settings>, Failure> {
        Ok(options.load.plan(&options.settings))
    }

    fn settings_options(command: clap::Command) -> clap::Command {
        Settings::augment_args(command)
    }

    fn override_load(
        plan: &mut Plan<Settings>,
        options: &Options,
        given: &mut Given,
    ) -> Result<(), Invalid> {
        options.load.override_plan(plan, given)
    }

    fn target(options: &Options) -> Result<Option<Target>, Failure> {
        let address = match (&options.socket, &options.target) {
            (Some(socket), _) => Address::Socket(socket.clone()),
            (None, Some(text)) if text.contains(':') => Address::Url(text.clone()),
            (None, Some(text)) => Address::Socket(PathBuf::from(text)),
            (None, None) => return Ok(None),
        };
        Ok(Some(Target {
            addresses: vec![address],
        }))
    }

    fn run_command(command: Command) -> Result<bool, Failure> {
        let Command::Benchmark(args) = command;
        benchmark::run(&args).map_err(Failure::Run)?;
        Ok(true)
    }
}
