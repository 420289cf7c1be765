//! Options that all drivers share.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use measure::report::{Format, list_of_names};

use super::isolation::IsolationOptions;
use super::shards::ShardOptions;
use crate::run::Sampled;

/// Maximum number of driver processes on one machine.
pub(super) const MOST_PROCESSES: u64 = 256;

/// Options that every driver accepts.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Common options")]
pub struct Common {
    /// Launch the daemon with this folder name in daemons/ (default without a target: the embedded one)
    #[arg(long, value_name = "NAME")]
    pub daemon: Option<String>,
    /// Set the name of the daemon in reports and in the path of its results, such as mine@before for one of two versions
    /// [default: its folder name, or the address of an already running daemon, such as localhost:8080]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Measure this process of an already running daemon with all processes below it, if it is not found by its
    /// address, as in a container. Repeat the option for each process
    #[arg(long, value_name = "PID", conflicts_with = "daemon", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Vec<u32>,
    /// Compare the driver's counters with this metrics page of an already running daemon (http://, Prometheus text),
    /// as for a launched daemon. Repeat the option for each daemon
    #[arg(long, value_name = "URL", conflicts_with = "daemon")]
    pub daemon_metrics: Vec<String>,
    /// Run this plan (TOML); other options override its fields
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Override a field of the plan, such as timeline.measure=10s or groups.0.rate=500
    ///
    /// It takes precedence over all other options. The plan is --plan's, or the one that the options describe
    /// (--print-plan shows it).
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// Start this many daemons, which share the load [default: 1, or the plan's number]
    #[arg(long, value_name = "N", value_parser = load::number::whole::<u64>)]
    pub instances: Option<u64>,
    /// Count the operations that meet an objective. It is added to the plan's
    #[arg(long, value_name = "TEXT")]
    pub objective: Vec<String>,
    /// Require a threshold. It is added to the plan's; exit code 4 if missed
    #[arg(long, value_name = "TEXT")]
    pub threshold: Vec<String>,
    /// End the run when a threshold is missed, judged each second from this long into --duration on [default: thresholds are
    /// judged at the end]
    #[arg(long, value_name = "DURATION", value_parser = load::duration::parse)]
    pub abort_on_fail: Option<std::time::Duration>,
    /// Print the plan as TOML and exit
    #[arg(long)]
    pub print_plan: bool,
    /// Repeat the run until there are this many results; each starts a fresh daemon
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = load::number::within(1..=1000_u32))]
    pub repeat: u32,
    /// Start this many driver processes; `auto` uses as many as the open-file limit requires
    #[arg(long, value_name = "auto|N", default_value = "auto", value_parser = parse_processes)]
    pub processes: ProcessCount,
    /// Set the worker threads of each process [default: the CPUs of --driver-cpus, or else half of the processors, so that
    /// the daemon keeps the other half, divided by the number of processes]
    #[arg(long, value_name = "N", value_parser = load::number::within(1..=256_u32))]
    pub threads: Option<u32>,
    /// Store results below this folder
    #[arg(long, value_name = "DIR", default_value = "bench-results")]
    pub out: PathBuf,
    /// Store this one result in exactly this folder, instead of one below --out
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "repeat"])]
    pub into: Option<PathBuf>,
    /// Also write the results to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print the report in this format.
    #[arg(long, value_name = "NAME", default_value = "terminal", help = format!("Print the report to stdout in this format. It is one of {}", list_of_names()))]
    pub format: Format,
    /// Print the whole report instead of one screen, like --format markdown
    #[arg(long, conflicts_with = "format")]
    pub full: bool,
    /// Serve the driver's own metrics at this address during the run, such as 127.0.0.1:9100
    #[arg(long, value_name = "ADDR", value_parser = socket_address)]
    pub metrics_addr: Option<SocketAddr>,
    /// Take CPU samples of this side in the measured time, with `perf`, and draw a flame graph beside the result
    #[arg(long, value_name = "SIDE")]
    pub flamegraph: Option<Sampled>,
    /// Hide the live line and notes on stderr, but not long builds
    #[arg(long, short)]
    pub quiet: bool,
    /// The CPUs and limits of driver and daemon.
    #[command(flatten)]
    pub isolation: IsolationOptions,
    /// The part of this program in a run on several machines.
    #[command(flatten)]
    pub shards: ShardOptions,
}

impl Common {
    /// Returns the format of the report.
    pub(super) fn report_format(&self) -> Format {
        if self.full {
            Format::full()
        } else {
            self.format
        }
    }
}

/// The number of driver processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessCount {
    /// The number that the open-file limit requires.
    Auto,
    /// A fixed number.
    Exactly(u64),
}

/// Parses an address to listen on.
///
/// # Errors
/// Any other text, with an example.
pub fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "write it as ADDRESS:PORT, such as 127.0.0.1:9100".to_owned())
}

/// Parses the address of a machine.
///
/// # Errors
/// Any other text, with an example.
pub fn ip_address(text: &str) -> Result<IpAddr, String> {
    text.parse()
        .map_err(|_| "write it as numbers, such as 10.0.0.5".to_owned())
}

fn parse_processes(text: &str) -> Result<ProcessCount, String> {
    match (text, text.parse()) {
        ("auto", _) => Ok(ProcessCount::Auto),
        (_, Ok(count @ 1..=MOST_PROCESSES)) => Ok(ProcessCount::Exactly(count)),
        _ => Err(format!(
            "must be `auto` or a number from 1 to {MOST_PROCESSES}"
        )),
    }
}
