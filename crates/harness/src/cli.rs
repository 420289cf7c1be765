//! What all drivers' command lines share, and what becomes of it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use measure::redact;
use measure::report::Format;
use measure::result::RunResult;
use serde::Serialize;

use crate::daemon::DaemonError;
use crate::driver::{Driver, Target};
use crate::lanes::{SHARD_ARGUMENT, shard};
use crate::launcher::remark;
use crate::limits::{self, TooFewFiles};
use crate::peer::CannotHold;
use crate::plan::{Invalid, Plan, PlanError};
use crate::run::{External, Settings, Subject, run};
use crate::signals::Signals;
use crate::store::{self, Folder};
use crate::{host, launcher, output};

mod command;
pub(crate) mod exit;

pub use command::{
    COMMAND_EXIT_CODES, exit_with, is_command, lines_of_files, refuse, two_dashes, words,
};

/// Descriptors that a process has open beside those of its load.
const OWN_DESCRIPTORS: u64 = 100;
/// Most processes of one driver on one machine.
const MOST_PROCESSES: u64 = 256;
/// Most worker threads of one driver on one machine: each has some MiB of histograms.
const MOST_WORKERS: u64 = 1_024;

/// Options that every driver has.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Common options")]
pub struct Common {
    /// Daemon to launch, by the name of its folder in daemons/ (without it and without a target: the embedded default)
    #[arg(long, value_name = "NAME")]
    pub daemon: Option<String>,
    /// Name of the daemon that runs already, in reports and of the folder of its results [default: external]
    #[arg(long, value_name = "NAME", conflicts_with = "daemon")]
    pub name: Option<String>,
    /// Metrics page of the daemon that runs already (http://, Prometheus text): its counters are compared with the
    /// driver's, as those of a daemon that is launched. Give it once for each daemon
    #[arg(long, value_name = "URL", conflicts_with = "daemon")]
    pub daemon_metrics: Vec<String>,
    /// Plan to run (TOML), in place of the options that shape the load
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Change a field of the plan, such as timeline.measure=10s or groups.0.rate=500
    #[arg(long, value_name = "PATH=VALUE", requires = "plan")]
    pub set: Vec<String>,
    /// Daemons that are started side by side and share the load, in place of the plan's number
    #[arg(long, value_name = "N")]
    pub instances: Option<u64>,
    /// What the run must meet beside what the plan says, such as "first_byte.p99 <= 50ms" (exit code 4 if missed)
    #[arg(long, value_name = "TEXT")]
    pub threshold: Vec<String>,
    /// Print the plan as TOML and end
    #[arg(long)]
    pub print_plan: bool,
    /// Runs, each with a fresh daemon
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Processes of the driver: auto takes as many as the limit of open files demands
    #[arg(long, value_name = "auto|N", default_value = "auto", value_parser = parse_processes)]
    pub processes: ProcessCount,
    /// Worker threads of each process; by default half of the processors, so that the daemon keeps the other half
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: Option<u32>,
    /// Folder of results
    #[arg(long, value_name = "DIR", default_value = "bench-results")]
    pub out: PathBuf,
    /// Folder of this one result, in place of the one that --out leads to
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "repeat"])]
    pub into: Option<PathBuf>,
    /// File for the result with the keys of the reference tool
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Report on stdout
    #[arg(long, value_name = "NAME", default_value = "terminal")]
    pub format: Format,
    /// Serve the driver's own metrics there while it runs, such as 127.0.0.1:9100
    #[arg(long, value_name = "ADDR")]
    pub metrics_addr: Option<SocketAddr>,
    /// No live line and no remarks on stderr
    #[arg(long, short)]
    pub quiet: bool,
}

/// Processes of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessCount {
    /// As many as the limit of open files demands.
    Auto,
    /// So many.
    Exactly(u64),
}

fn parse_processes(text: &str) -> Result<ProcessCount, String> {
    match (text, text.parse()) {
        ("auto", _) => Ok(ProcessCount::Auto),
        (_, Ok(count @ 1..=MOST_PROCESSES)) => Ok(ProcessCount::Exactly(count)),
        _ => Err(format!(
            "write auto, or a number from 1 to {MOST_PROCESSES}"
        )),
    }
}

/// What a command line asks for.
#[derive(Debug)]
pub struct Job<C> {
    /// The plan, not yet validated.
    pub plan: Plan<C>,
    /// A daemon that runs already.
    pub target: Option<Target>,
    /// The rest.
    pub common: Common,
}

/// Why nothing was run: the call is wrong, the machine does not allow it, or something failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The call or the plan is wrong.
    #[error("{0:#}")]
    Call(anyhow::Error),
    /// This machine's limits do not allow it.
    #[error("{0:#}")]
    Limit(anyhow::Error),
    /// Something failed.
    #[error("{0:#}")]
    Run(anyhow::Error),
}

/// The exit code of [`Failure::Limit`].
pub const LIMIT: u8 = 5;

impl Failure {
    /// What a program exits with.
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

/// The whole of a driver's `main`: `job` reads the command line, `seed` renders `--output`.
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
        Err(error) => return say_failure(&Failure::Run(error.into())),
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
        job().and_then(|job| runtime.block_on(carry_out::<D>(job, seed)))
    };
    // A shard's reader of stdin may be waiting for ever.
    runtime.shutdown_background();
    ended.unwrap_or_else(|failure| say_failure(&failure))
}

fn say_failure(failure: &Failure) -> ExitCode {
    output::remark(&format!("error: {failure}"));
    ExitCode::from(failure.exit_code())
}

async fn carry_out<D: Driver>(
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
    D::spell_out(&mut plan)?;
    refuse_what_is_redacted(&plan)?;
    plan.validate()?;
    plan.thresholds(D::SERIES, D::ERRORS)?;
    D::validate(&plan)?;
    if common.print_plan {
        let text = printed(&plan).map_err(Failure::Run)?;
        output::print(&text).map_err(|error| Failure::Run(error.into()))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(output) = &common.output {
        store::probe("--output", output).map_err(Failure::Call)?;
    }
    let settings = size::<D>(&plan, &common)?;
    remark(common.quiet, &D::sentence(&plan));
    // Until the daemon is built a signal ends this program at once, and the build with it.
    let subject = subject::<D>(&plan, target, &common)?;
    let mut signals = Signals::listen()
        .context("listening for signals")
        .map_err(Failure::Run)?;
    let (results, failure) = repeat::<D>(&plan, &subject, &settings, &common, &mut signals).await;
    let shown = match results.is_empty() {
        true => Ok(()),
        false => report::<D>(&results, &common, seed).map_err(Failure::Run),
    };
    // Both may have failed, of a full disk.
    if let (Err(error), Some(failure)) = (&shown, &failure) {
        let both = format!("{failure}\nerror: {error}");
        return Err(Failure::Run(anyhow::Error::msg(both)));
    }
    shown?;
    let results: Vec<&RunResult> = results.iter().collect();
    failure.map_or_else(|| Ok(ExitCode::from(exit::code::<D>(&results))), Err)
}

/// Refuses a plan in which a secret was left out: it would be run with what stands there instead.
fn refuse_what_is_redacted<C: Serialize>(plan: &Plan<C>) -> Result<(), Failure> {
    let plain = serde_json::to_value(plan).map_err(|error| Failure::Run(error.into()))?;
    if !redact::is_redacted(&plain) {
        return Ok(());
    }
    let problem = format!(
        "{} stands for a secret that was left out: give it again, a header field by file (headers = [\"@FILE\"])",
        redact::PLACEHOLDER
    );
    Err(Invalid::new("the plan", problem).into())
}

/// The plan as TOML, to be shown and given again: without the secrets in it.
fn printed<C: Serialize>(plan: &Plan<C>) -> anyhow::Result<String> {
    let plain = serde_json::to_value(plan)?;
    let mut redacted = plain.clone();
    redact::value(&mut redacted);
    if redacted == plain {
        return Ok(toml::to_string(plan)?);
    }
    Ok(format!(
        "# Secrets were left out. Where it says {}, give them again: a header field by file (headers = [\"@FILE\"]).\n{}",
        redact::PLACEHOLDER,
        toml::to_string(&redacted)?
    ))
}

/// Shows the results, and writes `--output`: where one of the two fails, the other is done all the same.
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
                "--output {}: the report and the result are whole",
                path.display()
            )
        };
        store::write_whole(path, json.as_bytes()).with_context(field)?;
    }
    shown
}

fn show<D: Driver>(results: &[RunResult], common: &Common) -> anyhow::Result<()> {
    let report = common.format.render(results)?;
    // Formats that a program reads are left as they are.
    let summary = match common.format.name {
        "terminal" => results.last().and_then(D::summary),
        _ => None,
    };
    let text = summary.map_or_else(|| report.clone(), |summary| format!("{summary}\n{report}"));
    output::print_report(common.format.name, &text).context("writing the report to stdout")
}

/// Runs the plan as often as asked. What was measured before something failed is given back beside the failure.
async fn repeat<D: Driver>(
    plan: &Plan<D::Config>,
    subject: &Subject,
    settings: &Settings,
    common: &Common,
    signals: &mut Signals,
) -> (Vec<RunResult>, Option<Failure>) {
    let mut results = Vec::new();
    for _ in 0..common.repeat {
        let folder = match folder(plan, subject, common) {
            Ok(folder) => folder,
            Err(error) => return (results, Some(Failure::Call(error))),
        };
        let result = match run::<D>(plan, subject, settings, &folder, signals).await {
            Ok(result) => result,
            Err(error) => {
                folder.release();
                return (results, Some(before_the_load(error)));
            }
        };
        let written = folder
            .write_result(&result)
            .map_err(|error| match store::rescue(&result) {
                Ok(path) => error.context(format!("the result is in {} instead", path.display())),
                Err(_) => error.context("the report is all that is left of the result"),
            });
        results.push(result);
        match written {
            Ok(path) => remark(common.quiet, &format!("Result: {}", path.display())),
            Err(error) => return (results, Some(Failure::Run(error))),
        }
        // A signal that came as the load was over asks for no further run either.
        if signals.asked() {
            break;
        }
    }
    (results, None)
}

/// The folder of the next result.
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

/// What fails before the load is the call's fault where it names a field, and a failed run otherwise; what the daemon or
/// the machine can't hold is a matter of limits.
fn before_the_load(error: anyhow::Error) -> Failure {
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
        (None, Some(_)) if common.name.is_some() => Err(launched_has_its_own("--name").into()),
        (None, Some(_)) if !common.daemon_metrics.is_empty() => {
            Err(launched_has_its_own("--daemon-metrics").into())
        }
        (None, Some(name)) => {
            let prepared = launcher::prepare(&launcher::root()?, name, D::PROTOCOL, common.quiet)
                .map_err(of_the_daemon)?;
            Ok(Subject::Launched(Box::new(prepared)))
        }
        (None, None) => Err(Invalid::new(
            "daemon",
            "no target: name a daemon to launch (--daemon) or one that runs",
        )
        .into()),
    }
}

fn launched_has_its_own(option: &str) -> Invalid {
    let problem = "is for a daemon that runs already, and this one is launched, with the name and the metrics page of its manifest: leave it out, or give the address of one that runs (the URL, --socket, --uri)";
    Invalid::new(option, problem)
}

/// A name or manifest that is wrong is the call's fault; a build or a launch that fails is a failed run.
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

/// Threads and processes: as many processes as the limit of open files demands.
fn size<D: Driver>(plan: &Plan<D::Config>, common: &Common) -> Result<Settings, Failure> {
    let (soft, limit) = limits::raise_nofile()
        .context("raising the limit of open files")
        .map_err(Failure::Run)?;
    if soft < limit {
        remark(
            common.quiet,
            &format!("Raised the limit of open files from {soft} to {limit}."),
        );
    }
    let need = D::descriptors(plan);
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
    if !D::SHARDS && matches!(common.processes, ProcessCount::Exactly(2..)) {
        let problem = "the workers of this driver account together, in one process: use --threads";
        return Err(Invalid::new("--processes", problem).into());
    }
    let processes = match common.processes {
        ProcessCount::Auto if !D::SHARDS => 1,
        ProcessCount::Exactly(processes) => processes,
        ProcessCount::Auto => need
            .div_ceil(limit.saturating_sub(OWN_DESCRIPTORS).max(1))
            .max(1),
    };
    let share = need.div_ceil(processes) + OWN_DESCRIPTORS;
    limits::require_nofile("each process of the driver", share)
        .map_err(|error| too_few(&error, D::SHARDS && common.processes != ProcessCount::Auto))?;
    if processes > MOST_PROCESSES {
        let problem = format!(
            "{processes} would be needed, {MOST_PROCESSES} is the most: raise the limit of open files (ulimit -n)"
        );
        return Err(Failure::Limit(Invalid::new("--processes", problem).into()));
    }
    // Who has named a number knows it.
    if processes > 1 && common.processes == ProcessCount::Auto {
        remark(
            common.quiet,
            &format!(
                "Running as {processes} processes: the load needs {need} open files, one process may have {limit}."
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
            "{threads} in each of {processes} processes are {workers} workers, {MOST_WORKERS} are the most: ask for fewer"
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
        true => "\n  --processes auto    # or let as many processes as it takes share the load",
        false => "",
    };
    Failure::Limit(anyhow::Error::msg(format!("{error}{more}")))
}
