//! The command line of drivers: the options that all share, and the run that they describe.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{ArgMatches, FromArgMatches as _};
use load::redact;
use measure::exit;
use measure::isolation::CpuList;
use measure::load_id::level_with_load_id;
use measure::report::{Format, Options};
use measure::result::RunResult;
use measure::shard::Role;
use serde::Serialize;

use crate::divided::DividedRun;
use crate::failure::Failure;
use crate::launcher::note;
use crate::part::Part;
use crate::processes::{PROCESS_ARGUMENT, process};
use crate::run::{External, Settings, Subject, run, unless_interrupted};
use crate::signals::Signals;
use crate::store::{self, Folder};
use crate::{launcher, output, page};
use load::driver::{Driver, Target, ValidPlan};
use load::limits::{self, TooFewFiles};
use load::plan::{self, Invalid, Plan};
use subject::daemon::DaemonError;
use subject::headroom::CannotHold;
use subject::host;

mod command;
mod common;
mod common_load;
mod driver_cli;
mod help;
mod isolation;
mod merge;
mod mistaken;
mod pages;
mod plan_file;
mod renamed;
mod shards;
mod variables;

pub use command::{complete, exit_with, lines_of_files, refuse, two_dashes};
use common::MOST_PROCESSES;
pub use common::{Common, ProcessCount, ip_address, socket_address};
pub use common_load::{default_settings, only_group, set_duration};
pub use driver_cli::{DriverCli, Job, Program, command, job};
pub use isolation::IsolationOptions;
pub use merge::MergeOptions;
pub use mistaken::explain;
pub use pages::write_pages;
pub use shards::ShardOptions;
pub use variables::load_variables;

/// File descriptors that a process keeps open besides its load.
const OWN_DESCRIPTORS: u64 = 100;
/// Maximum number of worker threads on one machine: each has some MiB of histograms.
const MOST_WORKERS: u64 = 1_024;

/// Runs the whole program of a driver: one of its commands, a run, or a shard of a run. If clap rejects the arguments,
/// the program ends with clap's message and exit code 2.
#[must_use]
pub fn main<D: DriverCli>() -> ExitCode {
    main_of::<D>(env!("CARGO_PKG_VERSION"))
}

/// Runs the whole program like [`main`]; `--version` prints `version`.
#[must_use]
pub fn main_of<D: DriverCli>(version: &'static str) -> ExitCode {
    let is_process = std::env::args_os()
        .nth(1)
        .is_some_and(|argument| argument == PROCESS_ARGUMENT);
    let ended = if is_process {
        in_runtime(async { process::<D>().await.map_err(Failure::Run) }).map(|()| ExitCode::SUCCESS)
    } else {
        parse::<D>(version).and_then(carry_out::<D>)
    };
    ended.unwrap_or_else(|failure| {
        shards::tell_refused(&D::SPEC.driver, &failure.to_string());
        if let Failure::Call(_) = failure {
            note_variables::<D>();
        }
        failure.print()
    })
}

fn note_variables<D: DriverCli>() {
    if let Some(note) = variables::note(&D::SPEC.driver, D::PROGRAM.variables) {
        output::note(&note);
    }
}

fn parse<D: DriverCli>(version: &'static str) -> Result<ArgMatches, Failure> {
    let words = D::words(std::env::args_os().collect())?;
    let words = renamed::replace(words, D::PROGRAM.renamed, &D::SPEC.driver);
    let mut command = complete(command::<D>()).version(version);
    variables::check(&command, &D::SPEC.driver)?;
    let typed = command.try_get_matches_from_mut(&words);
    Ok(typed.unwrap_or_else(|mut error| {
        explain(&mut error, &command, D::PROGRAM.foreign);
        if error.use_stderr() {
            note_variables::<D>();
            let text = error.to_string();
            let problem = text.split("\n\n").next().unwrap_or_default();
            shards::tell_refused(&D::SPEC.driver, problem.trim_start_matches("error: "));
        }
        refuse(&error)
    }))
}

fn carry_out<D: DriverCli>(mut typed: ArgMatches) -> Result<ExitCode, Failure> {
    if let Some(written) = write_pages(&command::<D>(), &typed) {
        return written.map(|()| ExitCode::SUCCESS);
    }
    if let Some((merge::COMMAND, arguments)) = typed.subcommand() {
        return merge::run::<D>(arguments);
    }
    if typed.subcommand_name().is_some() {
        let command = D::Command::from_arg_matches_mut(&mut typed);
        let command = command.unwrap_or_else(|error| refuse(&error));
        return Ok(exit_with(D::run_command(command)));
    }
    let job = driver_cli::job::<D>(typed)?;
    in_runtime(run_job::<D>(job))
}

fn in_runtime<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = launcher::runtime()?;
    let ended = runtime.block_on(work);
    // The thread that reads a shard's stdin may block forever.
    runtime.shutdown_background();
    ended
}

async fn run_job<D: DriverCli>(job: Job<D::Config>) -> Result<ExitCode, Failure> {
    let Job {
        plan,
        target,
        common,
    } = job;
    let mut load = ValidPlan::new::<D>(plan)?;
    refuse_redacted(&load.plan)?;
    if common.print_plan {
        // Elsewhere, no folder says which driver the plan is for.
        load.plan.protocol = Some(D::SPEC.protocol.clone().into_owned());
        load.plan.targets = target.map_or_else(Vec::new, |target| target.to_plan());
        let text = plan_toml(&load.plan).map_err(Failure::Run)?;
        output::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(output) = &common.output {
        store::probe("--output", output).map_err(Failure::Call)?;
    }
    let whole = load.plan.to_json()?;
    let divided = common.shards.divided(whole, target.is_some())?;
    if let Some(divided) = &divided {
        let ended = run_part::<D>(&mut load, target, divided, &common).await;
        if let Err(failure) = &ended {
            divided.give_up(&failure.to_string());
        }
        return ended;
    }
    let settings = size::<D>(&load, &common, Part::Whole)?;
    // Until the daemon is built a signal ends this program at once, and the build with it.
    let subject = subject::<D>(&load, target, &common)?;
    let mut signals = Signals::listen()
        .context("listening for signals")
        .map_err(Failure::Run)?;
    let (stored, failure) = repeat::<D>(&load, &subject, &settings, &common, &mut signals).await;
    let Stored { results, last } = stored;
    let shown = if results.is_empty() {
        Ok(())
    } else {
        report::<D>(&results, last.as_deref(), &common).map_err(Failure::Run)
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

/// Runs one part of a divided run, and stores its result in the common folder.
async fn run_part<D: DriverCli>(
    load: &mut ValidPlan<D::Config>,
    target: Option<Target>,
    divided: &DividedRun,
    common: &Common,
) -> Result<ExitCode, Failure> {
    let share = divided.share();
    if D::SPEC.single_process && share.of > 1 && divided.role() != Role::Both {
        let problem = "this driver records all answers of a daemon in one process: take --role both, so that each shard has a daemon of its own";
        return Err(Invalid::new("--shard", problem).into());
    }
    if load.description.shares_operations && divided.role() == Role::Both && share.of > 1 {
        let problem = "gives each shard a daemon of its own, but operations begin in one shard and end in another: launch one daemon with --role daemon, and take --role load for the shards";
        return Err(Invalid::new("--role both", problem).into());
    }
    let settings = size::<D>(load, common, Part::Divided(divided.clone()))?;
    if let Some(listen) = settings.listen.filter(|address| !address.is_loopback()) {
        let text = format!(
            "The daemon listens on {listen}: every machine that reaches this address can use it."
        );
        output::note(&text);
    }
    let mut signals = Signals::listen()
        .context("listening for signals")
        .map_err(Failure::Run)?;
    let subject = match (divided.role(), target) {
        (Role::Load, None) => {
            let host = host::hostname();
            let waiting = divided.published_daemon(&host);
            let waited = unless_interrupted(&mut signals, waiting).await;
            let daemon = waited.and_then(|daemon| daemon).map_err(Failure::Run)?;
            let external = External::new(daemon.target, Some(daemon.name), Vec::new(), Vec::new());
            Subject::External(external?)
        }
        (_, target) => subject::<D>(load, target, common)?,
    };
    if divided.role() == Role::Load {
        // The part that launches the daemon injects them.
        load.plan.faults.clear();
        load.plan.instances = 1;
    }
    let folder = Folder::at(&divided.result_folder()).map_err(Failure::Call)?;
    let ran = run::<D>(load, &subject, &settings, &folder, &mut signals).await;
    let result = ran.map_err(|error| {
        folder.release();
        early_failure(error)
    })?;
    let path = folder
        .write_part(&result)
        .map_err(|error| Failure::Run(saved_elsewhere(error, &result)))?;
    if divided.role() == Role::Daemon {
        note(common.quiet, &format!("Result: {}", path.display()));
    } else {
        show::<D>(std::slice::from_ref(&result), Some(&path), common).map_err(Failure::Run)?;
    }
    Ok(ExitCode::from(exit::code(&[&result])))
}

/// Refuses a plan with the placeholder of a removed secret: the run would use the placeholder as the value.
fn refuse_redacted<C: Serialize>(plan: &Plan<C>) -> Result<(), Failure> {
    if !redact::is_redacted(&plan.to_json()?) {
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
    let plain = plan.to_json()?;
    let mut redacted = plain.clone();
    redact::value(&mut redacted);
    if redacted == plain {
        return Ok(plan.to_toml()?);
    }
    Ok(format!(
        "# Secrets were removed. Replace each {} with the secret, or read header fields from a file (headers = [\"@FILE\"]).\n{}",
        redact::PLACEHOLDER,
        toml::to_string(&redacted)?
    ))
}

/// Shows the results and writes `--output`. If one of the two fails, the other is still done.
fn report<D: DriverCli>(
    results: &[RunResult],
    stored: Option<&Path>,
    common: &Common,
) -> anyhow::Result<()> {
    let shown = show::<D>(results, stored, common);
    if let Some(path) = &common.output {
        let json = serde_json::to_string_pretty(&D::json(results))?;
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

fn show<D: Driver>(
    results: &[RunResult],
    stored: Option<&Path>,
    common: &Common,
) -> anyhow::Result<()> {
    show_as::<D>(results, stored, common.report_format(), common.quiet)
}

/// Prints the report of results. `stored` is the path of the last one.
fn show_as<D: Driver>(
    results: &[RunResult],
    stored: Option<&Path>,
    format: Format,
    quiet: bool,
) -> anyhow::Result<()> {
    let page = stored
        .and_then(page_beside)
        .map(|page| page.display().to_string());
    // The screen names the page and the result beside it.
    if let Some(path) = stored.filter(|_| format.name != Format::screen().name || page.is_none()) {
        note_result(path, quiet);
    }
    let options = Options {
        width: output::columns(),
        page: page.as_deref(),
        more: page
            .as_ref()
            .map(|_| "--full; the page, beside result.json:"),
    };
    let report = format.render_suite(&results.into(), &options)?;
    // Machine-readable formats stay unchanged.
    let summary = |result| match format.name {
        "markdown" => D::summary(result).map(|text| format!("```text\n{}\n```\n", text.trim_end())),
        "terminal" if D::SUMMARY_IS_READ => D::summary(result),
        _ => None,
    };
    let summary = results.last().and_then(summary);
    let text = summary.map_or_else(|| report.clone(), |summary| format!("{summary}\n{report}"));
    output::print_report(format, &text).context("writing the report to stdout")
}

/// Returns the page of a stored result, if it was written.
fn page_beside(result: &Path) -> Option<PathBuf> {
    let page = result.with_file_name(page::PAGE);
    page.is_file().then_some(page)
}

/// The results of a call.
#[derive(Debug, Default)]
struct Stored {
    results: Vec<RunResult>,
    /// Path of the last one.
    last: Option<PathBuf>,
}

/// Runs the plan `--repeat` times. Returns the results measured before a failure, and the failure.
async fn repeat<D: Driver>(
    load: &ValidPlan<D::Config>,
    subject: &Subject,
    settings: &Settings,
    common: &Common,
    signals: &mut Signals,
) -> (Stored, Option<Failure>) {
    let mut stored = Stored::default();
    for _ in 0..common.repeat {
        // The report names the result of the last run.
        if let Some(path) = &stored.last {
            note_result(path, common.quiet);
        }
        let folder = match folder(&load.plan, subject, common) {
            Ok(folder) => folder,
            Err(error) => return (stored, Some(Failure::Call(error))),
        };
        let result = match run::<D>(load, subject, settings, &folder, signals).await {
            Ok(result) => result,
            Err(error) => {
                folder.release();
                return (stored, Some(early_failure(error)));
            }
        };
        let written = folder
            .write_result(&result)
            .map_err(|error| saved_elsewhere(error, &result));
        let written = written.map(|path| {
            write_page(&folder, &result);
            stored.last = Some(path);
        });
        stored.results.push(result);
        if let Err(error) = written {
            return (stored, Some(Failure::Run(error)));
        }
        // A signal that arrives as the load ends also cancels the remaining runs.
        if signals.has_received() {
            break;
        }
    }
    (stored, None)
}

/// Saves a result below the folder for temporary files, because it could not be written to its own; `error` says why.
fn saved_elsewhere(error: anyhow::Error, result: &RunResult) -> anyhow::Error {
    match store::rescue(result) {
        Ok(path) => error.context(format!(
            "the result was saved to {} instead",
            path.display()
        )),
        Err(_) => error.context("the result could not be saved, only the report shows it"),
    }
}

/// Writes the page of a run. The result is stored already, so a page that cannot be written is only noted.
fn write_page(folder: &Folder, result: &RunResult) {
    if let Err(error) = page::write(folder, result) {
        output::note(&format!(
            "The page of the run was not written: {error:#}. The result is complete; make the page later: drover report {} --format html",
            folder.path().display()
        ));
    }
}

/// Says where a result is that the report does not name.
fn note_result(path: &Path, quiet: bool) {
    let beside = page_beside(path).map_or("", |_| ", with report.html beside it");
    note(quiet, &format!("Result: {}{beside}", path.display()));
}

/// Returns the folder for the next result.
fn folder<C: Serialize>(
    plan: &Plan<C>,
    subject: &Subject,
    common: &Common,
) -> anyhow::Result<Folder> {
    match &common.into {
        Some(path) => Folder::at(path),
        None => {
            let host = host::hostname();
            let mut stored = plan.to_json()?;
            redact::value(&mut stored);
            let target = subject.target();
            Folder::reserve(
                &common.out,
                &host,
                &plan.name,
                &subject.folder_name(),
                &level_with_load_id(&plan.level(), &stored, &redact::text(&target)),
            )
        }
    }
}

/// Classifies an error from before the load. An error that names a field is a wrong call, a load that the daemon or
/// the machine cannot hold is a limit, and anything else is a failed run.
fn early_failure(error: anyhow::Error) -> Failure {
    if error.is::<CannotHold>() {
        return Failure::Limit(error);
    }
    if error.is::<Invalid>() {
        return Failure::Call(error);
    }
    error
        .downcast::<DaemonError>()
        .map_or_else(Failure::Run, Failure::from)
}

/// Classifies the error of a daemon that cannot be prepared. If an option of the driver chooses the daemon's protocol, the
/// error names it.
fn unprepared<D: DriverCli>(error: DaemonError) -> Failure {
    let DaemonError::OtherProtocol { serves, .. } = &error else {
        return error.into();
    };
    let mut options = D::PROGRAM.protocols.iter();
    let option = options.find(|(protocol, _)| serves.iter().any(|served| served == protocol));
    match option {
        Some((protocol, option)) => Failure::Call(anyhow::anyhow!(
            "{error}\n  or measure its protocol, {protocol}, with {option}"
        )),
        None => error.into(),
    }
}

fn subject<D: DriverCli>(
    load: &ValidPlan<D::Config>,
    target: Option<Target>,
    common: &Common,
) -> Result<Subject, Failure> {
    match (target, &load.plan.daemon) {
        (Some(target), _) => {
            let name = common.name.clone();
            let metrics = common.daemon_metrics.clone();
            let pids = common.pid.clone();
            Ok(Subject::External(External::new(
                target, name, metrics, pids,
            )?))
        }
        (None, Some(_)) if !common.pid.is_empty() => Err(only_for_running("--pid").into()),
        (None, Some(_)) if !common.daemon_metrics.is_empty() => {
            Err(only_for_running("--daemon-metrics").into())
        }
        (None, Some(daemon)) => {
            if let Some(name) = &common.name {
                plan::check_folder_name("--name", name)?;
            }
            let name = common.name.as_ref().unwrap_or(daemon);
            let root = launcher::root()?;
            let prepared = launcher::prepare(&root, daemon, &load.spec.protocol, common.quiet)
                .map_err(unprepared::<D>)?;
            Ok(Subject::Launched {
                prepared: Box::new(prepared),
                name: name.clone(),
            })
        }
        (None, None) => Err(Invalid::new(
            "daemon",
            "no target: name a daemon to launch (--daemon) or the address of a running one",
        )
        .into()),
    }
}

fn only_for_running(option: &str) -> Invalid {
    let problem = "is only for an already running daemon; a launched one has the processes and the metrics page of its manifest: drop this option, or give the address of a running daemon (the URL, --socket, --uri)";
    Invalid::new(option, problem)
}

/// Returns the numbers of threads and processes: by default as many processes as the open-file limit requires.
fn size<D: Driver>(
    load: &ValidPlan<D::Config>,
    common: &Common,
    part: Part,
) -> Result<Settings, Failure> {
    let (plan, can_split) = (&load.plan, !D::SPEC.single_process);
    let (soft, limit) = limits::raise_nofile()
        .context("raising the open-file limit")
        .map_err(Failure::Run)?;
    if soft < limit {
        note(
            common.quiet,
            &format!("Raised the open-file limit from {soft} to {limit}."),
        );
    }
    let need = part.share().count(load.description.max_open_fds);
    let launches = plan.daemon.is_some() && part.role() != Role::Load;
    let isolation = common.isolation.checked(launches)?;
    if launches {
        let each = need.div_ceil(plan.instances) + OWN_DESCRIPTORS;
        limits::require_nofile("the daemon", each).map_err(|error| {
            let enough = need.div_ceil(limit.saturating_sub(OWN_DESCRIPTORS).max(1));
            // A driver in a single process drives one daemon, and each daemon needs descriptors of its own.
            let text = if can_split && limit > OWN_DESCRIPTORS {
                format!(
                    "{error}\n  --instances {enough}    # or let several daemons share the load"
                )
            } else {
                error.to_string()
            };
            Failure::Limit(anyhow::Error::msg(text))
        })?;
    }
    let processes = processes(need, limit, common, can_split)?;
    let half = || std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64 / 2);
    let own = isolation.driver_cpus.as_ref();
    let cpus = own.map_or_else(half, CpuList::count);
    // Processes share the processors as threads do.
    let threads = common.threads.map_or((cpus / processes).max(1), u64::from);
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
        lines_on_stdout: D::SUMMARY_IS_READ
            && !common.quiet
            && common.report_format().name == Format::screen().name,
        listen: common.shards.listen,
        isolation,
        flamegraph: common.flamegraph,
        part,
    })
}

/// Returns the number of processes for a load that needs `need` open files; one process may open `limit`.
fn processes(need: u64, limit: u64, common: &Common, can_split: bool) -> Result<u64, Failure> {
    let required = need
        .div_ceil(limit.saturating_sub(OWN_DESCRIPTORS).max(1))
        .max(1);
    let is_explicit = common.processes != ProcessCount::Auto;
    let processes = match common.processes {
        ProcessCount::Exactly(2..) if !can_split => {
            let problem =
                "this driver records all answers in one process and cannot be split: use --threads";
            return Err(Invalid::new("--processes", problem).into());
        }
        ProcessCount::Auto if !can_split => 1,
        ProcessCount::Exactly(processes) => processes,
        ProcessCount::Auto => required,
    };
    let share = need.div_ceil(processes) + OWN_DESCRIPTORS;
    limits::require_nofile("each process of the driver", share)
        .map_err(|error| too_few(&error, can_split && is_explicit))?;
    if processes > MOST_PROCESSES {
        let problem = format!(
            "the load needs {processes} processes, at most {MOST_PROCESSES} are allowed: raise the open-file limit (ulimit -n)"
        );
        return Err(Failure::Limit(Invalid::new("--processes", problem).into()));
    }
    // An explicit number needs no notice.
    if processes > 1 && !is_explicit {
        let text = format!(
            "Running as {processes} processes: the load needs {need} open files, and one process may open {limit}."
        );
        note(common.quiet, &text);
    }
    Ok(processes)
}

fn too_few(error: &TooFewFiles, may_be_more: bool) -> Failure {
    let more = if may_be_more {
        "\n  --processes auto    # or let the driver start as many processes as the load requires"
    } else {
        ""
    };
    Failure::Limit(anyhow::Error::msg(format!("{error}{more}")))
}
