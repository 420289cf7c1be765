//! Defines the command-line options that all drivers share, and carries out what they describe.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use measure::exit;
use measure::redact;
use measure::report::Format;
use measure::result::RunResult;
use serde::Serialize;

use crate::launcher::remark;
use crate::run::{External, Settings, Subject, run};
use crate::signals::Signals;
use crate::store::{self, Folder};
use crate::{launcher, output};
use load::driver::{Driver, Target, ValidPlan};
use load::limits::{self, TooFewFiles};
use load::plan::{Invalid, Plan, PlanError};
use load::workers::{SHARD_ARGUMENT, shard};
use subject::daemon::DaemonError;
use subject::headroom::CannotHold;
use subject::host;

mod command;

pub use command::{
    COMMAND_EXIT_CODES, exit_with, is_command, lines_of_files, refuse, two_dashes, words,
};

/// File descriptors that a process keeps open besides those of its load.
const OWN_DESCRIPTORS: u64 = 100;
/// Maximum number of driver processes on one machine.
const MOST_PROCESSES: u64 = 256;
/// Maximum number of worker threads on one machine: each has some MiB of histograms.
const MOST_WORKERS: u64 = 1_024;

/// Options that every driver accepts.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Common options")]
pub struct Common {
    /// Launch the daemon with this folder name in daemons/ (default without a target: the embedded one)
    #[arg(long, value_name = "NAME")]
    pub daemon: Option<String>,
    /// Set the name of an already running daemon, for reports and the folder of its results [default: external]
    #[arg(long, value_name = "NAME", conflicts_with = "daemon")]
    pub name: Option<String>,
    /// Compare the driver's counters with this metrics page of an already running daemon (http://, Prometheus text),
    /// as for a launched daemon. Repeat the option for each daemon
    #[arg(long, value_name = "URL", conflicts_with = "daemon")]
    pub daemon_metrics: Vec<String>,
    /// Run this plan (TOML), instead of the load that options describe
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Override a field of the plan, such as timeline.measure=10s or groups.0.rate=500
    #[arg(long, value_name = "PATH=VALUE", requires = "plan")]
    pub set: Vec<String>,
    /// Number of daemon instances to start; they share the load (overrides the plan)
    #[arg(long, value_name = "N")]
    pub instances: Option<u64>,
    /// Add a threshold to those of the plan, such as "first_byte.p99 <= 50ms" (exit code 4 if missed)
    #[arg(long, value_name = "TEXT")]
    pub threshold: Vec<String>,
    /// Print the plan as TOML and exit
    #[arg(long)]
    pub print_plan: bool,
    /// Number of runs; each starts a fresh daemon
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Driver processes; `auto` uses as many as the open-file limit requires
    #[arg(long, value_name = "auto|N", default_value = "auto", value_parser = parse_processes)]
    pub processes: ProcessCount,
    /// Set the worker threads of each process [default: half of the processors divided by the number of processes, so
    /// that the daemon keeps the other half]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: Option<u32>,
    /// Store results below this folder
    #[arg(long, value_name = "DIR", default_value = "bench-results")]
    pub out: PathBuf,
    /// Store this one result in exactly this folder, instead of one below --out
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "repeat"])]
    pub into: Option<PathBuf>,
    /// Also write the result as JSON with the reference tool's keys
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Report format on stdout
    #[arg(long, value_name = "NAME", default_value = "terminal")]
    pub format: Format,
    /// Serve the driver's own metrics at this address during the run, such as 127.0.0.1:9100
    #[arg(long, value_name = "ADDR")]
    pub metrics_addr: Option<SocketAddr>,
    /// Hide the live line and all notes on stderr
    #[arg(long, short)]
    pub quiet: bool,
}

/// The number of driver processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessCount {
    /// The number that the open-file limit requires.
    Auto,
    /// A fixed number.
    Exactly(u64),
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

/// A load to run, as a command line describes it.
#[derive(Debug)]
pub struct Job<C> {
    /// The plan, not yet validated.
    pub plan: Plan<C>,
    /// A daemon that already runs.
    pub target: Option<Target>,
    /// The options that all drivers share.
    pub common: Common,
}

/// An error that prevents a run: a wrong call, a limit of this machine, or a failed step.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The call or the plan is wrong.
    #[error("{0:#}")]
    Call(anyhow::Error),
    /// A limit of this machine is too low.
    #[error("{0:#}")]
    Limit(anyhow::Error),
    /// A step failed.
    #[error("{0:#}")]
    Run(anyhow::Error),
}

/// The exit code of [`Failure::Limit`].
pub const LIMIT: u8 = 5;

impl Failure {
    /// Returns the exit code of the program.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Run(_) => 1,
            Self::Call(_) => 2,
            Self::Limit(_) => LIMIT,
        }
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        Self::Call(error.into())
    }
}

impl From<Invalid> for Failure {
    fn from(error: Invalid) -> Self {
        Self::Call(error.into())
    }
}

/// Runs the whole `main` of a driver: `job` parses the command line, `seed` renders `--output`.
#[must_use]
pub fn main<D: Driver>(
    job: impl FnOnce() -> Result<Job<D::Config>, Failure>,
    seed: fn(&[RunResult]) -> serde_json::Value,
) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return print_failure(&Failure::Run(error.into())),
    };
    let is_shard = std::env::args_os()
        .nth(1)
        .is_some_and(|argument| argument == SHARD_ARGUMENT);
    let ended = if is_shard {
        runtime
            .block_on(shard::<D>())
            .map(|()| ExitCode::SUCCESS)
            .map_err(Failure::Run)
    } else {
        job().and_then(|job| runtime.block_on(run_job::<D>(job, seed)))
    };
    // The thread that reads a shard's stdin may block forever.
    runtime.shutdown_background();
    ended.unwrap_or_else(|failure| print_failure(&failure))
}

fn print_failure(failure: &Failure) -> ExitCode {
    output::remark(&format!("error: {failure}"));
    ExitCode::from(failure.exit_code())
}

async fn run_job<D: Driver>(
    job: Job<D::Config>,
    seed: fn(&[RunResult]) -> serde_json::Value,
) -> Result<ExitCode, Failure> {
    let Job {
        mut plan,
        target,
        common,
    } = job;
    plan.instances = common.instances.unwrap_or(plan.instances);
    plan.thresholds.extend(common.threshold.iter().cloned());
    refuse_redacted(&plan)?;
    let load = ValidPlan::new::<D>(plan)?;
    if common.print_plan {
        let text = plan_toml(&load.plan).map_err(Failure::Run)?;
        output::print(&text).map_err(|error| Failure::Run(error.into()))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(output) = &common.output {
        store::probe("--output", output).map_err(Failure::Call)?;
    }
    let settings = size::<D>(&load, &common)?;
    remark(common.quiet, &load.description.sentence);
    // Until the daemon is built a signal ends this program at once, and the build with it.
    let subject = subject::<D>(&load.plan, target, &common)?;
    let mut signals = Signals::listen()
        .context("listening for signals")
        .map_err(Failure::Run)?;
    let (results, failure) = repeat::<D>(&load, &subject, &settings, &common, &mut signals).await;
    let shown = match results.is_empty() {
        true => Ok(()),
        false => report::<D>(&results, &common, seed).map_err(Failure::Run),
    };
    // Both may have failed, for example on a full disk.
    if let (Err(error), Some(failure)) = (&shown, &failure) {
        let both = format!("{failure}\nerror: {error}");
        return Err(Failure::Run(anyhow::Error::msg(both)));
    }
    shown?;
    let results: Vec<&RunResult> = results.iter().collect();
    failure.map_or_else(|| Ok(ExitCode::from(exit::code(&results))), Err)
}

/// Refuses a plan with the placeholder of a removed secret: the run would use the placeholder as the value.
fn refuse_redacted<C: Serialize>(plan: &Plan<C>) -> Result<(), Failure> {
    let plain = serde_json::to_value(plan).map_err(|error| Failure::Run(error.into()))?;
    if !redact::is_redacted(&plain) {
        return Ok(());
    }
    let problem = format!(
        "{} stands for a secret that was removed: set it again, for a header field through a file (headers = [\"@FILE\"])",
        redact::PLACEHOLDER
    );
    Err(Invalid::new("the plan", problem).into())
}

/// Returns the plan as TOML, without its secrets, to be shown and used again.
fn plan_toml<C: Serialize>(plan: &Plan<C>) -> anyhow::Result<String> {
    let plain = serde_json::to_value(plan)?;
    let mut redacted = plain.clone();
    redact::value(&mut redacted);
    if redacted == plain {
        return Ok(toml::to_string(plan)?);
    }
    Ok(format!(
        "# Secrets were removed. Replace each {} with the secret, or read header fields from a file (headers = [\"@FILE\"]).\n{}",
        redact::PLACEHOLDER,
        toml::to_string(&redacted)?
    ))
}

/// Shows the results and writes `--output`. If one of the two fails, the other is still done.
fn report<D: Driver>(
    results: &[RunResult],
    common: &Common,
    seed: fn(&[RunResult]) -> serde_json::Value,
) -> anyhow::Result<()> {
    let shown = show::<D>(results, common);
    if let Some(path) = &common.output {
        let json = serde_json::to_string_pretty(&seed(results))?;
        let field = || {
            format!(
                "writing --output {} (the report and the stored result are complete)",
                path.display()
            )
        };
        store::write_whole(path, json.as_bytes()).with_context(field)?;
    }
    shown
}

fn show<D: Driver>(results: &[RunResult], common: &Common) -> anyhow::Result<()> {
    let report = common.format.render(results)?;
    // Machine-readable formats stay unchanged.
    let summary = match common.format.name {
        "terminal" => results.last().and_then(D::summary),
        _ => None,
    };
    let text = summary.map_or_else(|| report.clone(), |summary| format!("{summary}\n{report}"));
    output::print_report(common.format.name, &text).context("writing the report to stdout")
}

/// Runs the plan `--repeat` times. Returns the results measured before a failure, and the failure.
async fn repeat<D: Driver>(
    load: &ValidPlan<D::Config>,
    subject: &Subject,
    settings: &Settings,
    common: &Common,
    signals: &mut Signals,
) -> (Vec<RunResult>, Option<Failure>) {
    let mut results = Vec::new();
    for _ in 0..common.repeat {
        let folder = match folder(&load.plan, subject, common) {
            Ok(folder) => folder,
            Err(error) => return (results, Some(Failure::Call(error))),
        };
        let result = match run::<D>(load, subject, settings, &folder, signals).await {
            Ok(result) => result,
            Err(error) => {
                folder.release();
                return (results, Some(early_failure(error)));
            }
        };
        let written = folder
            .write_result(&result)
            .map_err(|error| match store::rescue(&result) {
                Ok(path) => error.context(format!(
                    "the result was saved to {} instead",
                    path.display()
                )),
                Err(_) => error.context("the result could not be saved, only the report shows it"),
            });
        results.push(result);
        match written {
            Ok(path) => remark(common.quiet, &format!("Result: {}", path.display())),
            Err(error) => return (results, Some(Failure::Run(error))),
        }
        // A signal that arrives as the load ends also cancels the remaining runs.
        if signals.asked() {
            break;
        }
    }
    (results, None)
}

/// Returns the folder for the next result.
fn folder<C>(plan: &Plan<C>, subject: &Subject, common: &Common) -> anyhow::Result<Folder> {
    match &common.into {
        Some(path) => Folder::at(path),
        None => {
            let host = host::machine().hostname;
            Folder::reserve(
                &common.out,
                &host,
                &plan.name,
                subject.name(),
                &plan.level(),
            )
        }
    }
}

/// Classifies an error from before the load. An error that names a field is a wrong call, a load that the daemon or
/// the machine cannot hold is a limit, and anything else is a failed run.
fn early_failure(error: anyhow::Error) -> Failure {
    if error.is::<CannotHold>() {
        Failure::Limit(error)
    } else if error.is::<Invalid>() {
        Failure::Call(error)
    } else {
        Failure::Run(error)
    }
}

fn subject<D: Driver>(
    plan: &Plan<D::Config>,
    target: Option<Target>,
    common: &Common,
) -> Result<Subject, Failure> {
    match (target, &plan.daemon) {
        (Some(target), _) => {
            let name = common.name.clone();
            let metrics = common.daemon_metrics.clone();
            Ok(Subject::External(External::new(target, name, metrics)?))
        }
        (None, Some(_)) if common.name.is_some() => Err(only_for_running("--name").into()),
        (None, Some(_)) if !common.daemon_metrics.is_empty() => {
            Err(only_for_running("--daemon-metrics").into())
        }
        (None, Some(name)) => {
            let prepared =
                launcher::prepare(&launcher::root()?, name, &D::SPEC.protocol, common.quiet)
                    .map_err(of_the_daemon)?;
            Ok(Subject::Launched(Box::new(prepared)))
        }
        (None, None) => Err(Invalid::new(
            "daemon",
            "no target: name a daemon to launch (--daemon) or the address of a running one",
        )
        .into()),
    }
}

fn only_for_running(option: &str) -> Invalid {
    let problem = "is only for an already running daemon; a launched one has the name and the metrics page of its manifest: drop this option, or give the address of a running daemon (the URL, --socket, --uri)";
    Invalid::new(option, problem)
}

/// Classifies a daemon's error: a wrong name or manifest or a missing tool is a wrong call, any other error a failed
/// run.
#[must_use]
pub fn of_the_daemon(error: DaemonError) -> Failure {
    match error {
        DaemonError::UnknownDaemon { .. }
        | DaemonError::OtherProtocol { .. }
        | DaemonError::BadManifest { .. }
        | DaemonError::ToolMissing { .. } => Failure::Call(error.into()),
        other => Failure::Run(other.into()),
    }
}

/// Returns the numbers of threads and processes: by default as many processes as the open-file limit requires.
fn size<D: Driver>(load: &ValidPlan<D::Config>, common: &Common) -> Result<Settings, Failure> {
    let (plan, can_split) = (&load.plan, !D::SPEC.single_process);
    let (soft, limit) = limits::raise_nofile()
        .context("raising the open-file limit")
        .map_err(Failure::Run)?;
    if soft < limit {
        remark(
            common.quiet,
            &format!("Raised the open-file limit from {soft} to {limit}."),
        );
    }
    let need = load.description.max_open_fds;
    if plan.daemon.is_some() {
        let each = need.div_ceil(plan.instances) + OWN_DESCRIPTORS;
        limits::require_nofile("the daemon", each).map_err(|error| {
            let enough = need.div_ceil(limit.saturating_sub(OWN_DESCRIPTORS).max(1));
            let text = format!(
                "{error}\n  --instances {enough}    # or let several daemons share the load"
            );
            Failure::Limit(anyhow::Error::msg(text))
        })?;
    }
    if !can_split && matches!(common.processes, ProcessCount::Exactly(2..)) {
        let problem =
            "this driver tracks every message in one process and cannot be split: use --threads";
        return Err(Invalid::new("--processes", problem).into());
    }
    let processes = match common.processes {
        ProcessCount::Auto if !can_split => 1,
        ProcessCount::Exactly(processes) => processes,
        ProcessCount::Auto => need
            .div_ceil(limit.saturating_sub(OWN_DESCRIPTORS).max(1))
            .max(1),
    };
    let share = need.div_ceil(processes) + OWN_DESCRIPTORS;
    limits::require_nofile("each process of the driver", share)
        .map_err(|error| too_few(&error, can_split && common.processes != ProcessCount::Auto))?;
    if processes > MOST_PROCESSES {
        let problem = format!(
            "the load needs {processes} processes, at most {MOST_PROCESSES} are allowed: raise the open-file limit (ulimit -n)"
        );
        return Err(Failure::Limit(Invalid::new("--processes", problem).into()));
    }
    // An explicit number needs no notice.
    if processes > 1 && common.processes == ProcessCount::Auto {
        remark(
            common.quiet,
            &format!(
                "Running as {processes} processes: the load needs {need} open files, and one process may open {limit}."
            ),
        );
    }
    let half = std::thread::available_parallelism()
        .map_or(1, |cores| cores.get() as u64 / 2)
        .max(1);
    // Processes share the processors as threads do.
    let threads = common.threads.map_or((half / processes).max(1), u64::from);
    let workers = processes.saturating_mul(threads);
    if workers > MOST_WORKERS {
        let problem = format!(
            "{threads} threads in each of {processes} processes are {workers} workers, at most {MOST_WORKERS} are allowed: use fewer"
        );
        return Err(Invalid::new("--threads", problem).into());
    }
    Ok(Settings {
        processes,
        threads,
        metrics_addr: common.metrics_addr,
        quiet: common.quiet,
    })
}

fn too_few(error: &TooFewFiles, may_be_more: bool) -> Failure {
    let more = match may_be_more {
        true => {
            "\n  --processes auto    # or let the driver start as many processes as the load requires"
        }
        false => "",
    };
    Failure::Limit(anyhow::Error::msg(format!("{error}{more}")))
}
