//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use harness::cli::{DriverCli, Program, only_group, set_duration};
use harness::failure::Failure;
use harness::verify::EXIT_CODES;
use harness::verify::check::DaemonsToCheck;
use load::driver::{Address, Target};
use load::duration;
use load::plan::{Group, Invalid, Plan, Timeline};

use crate::benchmark::{self, BenchmarkArgs};
use crate::driver::IssueStress;
use crate::settings::{BULK, Scenario, Settings};
use crate::smoke;

/// The time of a run without a number of operations.
const DURATION: Duration = Duration::from_secs(10);
/// The time in which a number of operations must be done.
const LONGEST: Duration = Duration::from_secs(600);
/// Creates of a batch of the group `bulk`.
const BULK_SIZE: u16 = 1_000;

/// Options of a run.
#[derive(Debug, Args)]
pub struct Options {
    /// Drive what listens here. It is the path of an issue daemon's socket, or the URL of a database:
    /// postgresql:SOCKET, redis:SOCKET, etcd://HOST:PORT
    #[arg(value_name = "TARGET", conflicts_with_all = ["daemon", "socket"])]
    target: Option<String>,
    /// Drive the issue daemon that listens on this socket
    #[arg(long, value_name = "PATH", conflicts_with = "daemon")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    load: LoadOptions,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
struct LoadOptions {
    /// Set the number of agents, each with a connection [default: the scenario's number]
    #[arg(long, short = 'a', value_name = "N")]
    agents: Option<u64>,
    /// Let each agent perform this many operations [default: the scenario's number, or unlimited with --duration]
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "duration")]
    ops: Option<u64>,
    /// Measure for this long [default: 10s, if the scenario has no number of operations]
    #[arg(long, short, value_name = "DURATION", value_parser = duration::parse)]
    duration: Option<Duration>,
    /// Start this many operations per second, however fast the daemon is; without it, each agent waits for its answers
    #[arg(long, short, value_name = "PER_SECOND", conflicts_with_all = ["agents", "ops"])]
    rate: Option<f64>,
}

/// Commands other than a run.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Time create, update, list and ping through a daemon, directly, and by the program issue, in turns
    Benchmark(BenchmarkArgs),
    /// Create an issue on real daemons and databases, and verify what an issue daemon then shows
    ///
    /// Without arguments, every daemon in daemons/ that serves the issue protocol is built, launched and checked. A daemon
    /// whose tool is missing is skipped, unless DROVER_REQUIRE_ALL=1.
    #[command(after_help = EXIT_CODES)]
    Check(DaemonsToCheck),
}

impl LoadOptions {
    fn apply(&self, plan: &mut Plan<Settings>) -> Result<(), Invalid> {
        let is_bulk = |group: &Group| group.name == BULK;
        if let Some(duration) = self.duration {
            set_duration(plan, duration)?;
        }
        if let Some(agents) = self.agents {
            let group = only_group(plan, "--agents", "clients", |group| !is_bulk(group))?;
            (group.rate, group.clients) = (None, agents);
        }
        if self.ops.is_some() {
            only_group(plan, "--ops", "ops", |group| !is_bulk(group))?.ops = self.ops;
        }
        if self.rate.is_some() {
            let group = only_group(plan, "--rate", "rate", |group| !is_bulk(group))?;
            (group.rate, group.clients, group.ops) = (self.rate, 0, None);
        }
        Ok(())
    }
}

impl DriverCli for IssueStress {
    type Options = Options;
    type Command = Command;
    const PROGRAM: Program = Program {
        embedded: "issue-daemon",
        about: "Stress an issue daemon: many agents create, change and read issues at once, and every answer is checked\n\nWithout a target, issue-stress builds a daemon, launches it on a database of its own and stops it at the end. At the end of each run all answers are compared with the rows of the database, and the histories of shared issues are checked for linearizability.",
        examples: &[
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
        ],
        failed: "an operation or the run failed",
        main: &[
            "socket", "scenario", "agents", "ops", "rate", "duration", "timeout", "preload",
        ],
        ..Program::UNKNOWN
    };

    fn plan(options: &Options, mut settings: Settings) -> Plan<Settings> {
        let (agents, ops) = settings.scenario.size();
        let is_timed = options.load.duration.is_some() || options.load.rate.is_some();
        let ops = options.load.ops.or(ops.filter(|_| !is_timed));
        let mut groups = vec![Group {
            ops,
            ..Group::new("agents", agents)
        }];
        if settings.scenario == Scenario::PollingAgents {
            groups.push(Group::new(BULK, 1));
            if settings.batch_size == Settings::default().batch_size {
                settings.batch_size = BULK_SIZE;
            }
        }
        let measure = ops.map_or(DURATION, |_| LONGEST);
        let timeline = Timeline::new(measure, Duration::from_secs(10));
        Plan::new("command-line", timeline, groups, settings)
    }

    fn apply(options: &Options, plan: &mut Plan<Settings>) -> Result<(), Invalid> {
        options.load.apply(plan)
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
        match command {
            Command::Benchmark(args) => benchmark::run(&args).map_err(Failure::Run).map(|()| true),
            Command::Check(options) => smoke::run(&options),
        }
    }
}
