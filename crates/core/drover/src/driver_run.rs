//! Performs one run of a suite: starts a driver's process, and evaluates its end.

use std::path::Path;

use harness::command_line::{SUITE_COMMAND, command_line};
use harness::signals::Signals;
use harness::store;
use measure::result::RunResult;
use measure::warning::Kind;
use tokio::process::Command;

use crate::against::Against;
use crate::child::{self, Ending};
use crate::exit;
use crate::folder::Folder;
use crate::matrix::PlannedRun;
use crate::record::{FailureKind, RunId};

/// The outcome of a run.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// There is a result.
    Measured { exit: u8, result: Box<RunResult> },
    /// There is no result.
    Unreached { why: FailureKind, reason: String },
    /// The run was cut short, and its partial result was set aside.
    Interrupted,
}

/// Runs a driver once, with `further` options, against the daemon or another `version` of it. The second value is true if
/// this program was asked to end meanwhile.
///
/// # Errors
/// The driver can't be started.
pub(crate) async fn run(
    program: &Path,
    folder: &Folder,
    run: &PlannedRun,
    version: Option<&Against>,
    further: &[String],
    signals: &mut Signals,
    tick: impl FnMut(),
) -> std::io::Result<(Outcome, bool)> {
    let mut command = Command::new(program);
    command
        .arg("--plan")
        .arg(folder.plan())
        .args(arguments(run, version))
        .args(further)
        .arg("--into")
        .arg(run.id.folder(folder.path()))
        .env(SUITE_COMMAND, command_line("drover"));
    if let Some(version) = version {
        let (set, unset) = version.environment();
        command.envs(set);
        for variable in unset {
            command.env_remove(variable);
        }
    }
    let ending = child::run(command, signals, tick).await?;
    let asked_to_end = ending.interrupts > 0;
    Ok((outcome(folder, &run.id, &ending), asked_to_end))
}

/// Returns the arguments of the driver for a run, apart from its files. `version` is the other version of the daemon, if
/// the run is of that.
pub(crate) fn arguments(run: &PlannedRun, version: Option<&Against>) -> Vec<String> {
    // In quotes: a name that looks like a number is still a name.
    let level = format!("level=\"{}\"", run.id.level);
    let set = run.set.iter().chain([&level]);
    let set = set.flat_map(|set| ["--set", set]).map(str::to_owned);
    let daemon = match version {
        Some(version) => version.arguments().to_vec(),
        None => vec!["--daemon".to_owned(), run.id.daemon.clone()],
    };
    let daemon = daemon.into_iter().chain(["--quiet".to_owned()]);
    daemon.chain(set).collect()
}

/// Returns the outcome of a run with an existing result. A result that was cut short is set aside, and must be
/// measured again.
pub(crate) fn reuse_result(folder: &Folder, id: &RunId) -> Option<Outcome> {
    let result = store::read_result(&folder.result(id)).ok()?;
    if was_interrupted(&result) {
        folder.set_aside(id);
        return None;
    }
    Some(Outcome::Measured {
        exit: measure::exit::code(&[&result]),
        result: Box::new(result),
    })
}

/// Returns the outcome of a run whose driver, or merge, has ended.
pub(crate) fn outcome(folder: &Folder, id: &RunId, ending: &Ending) -> Outcome {
    let status = ending.status;
    match store::read_result(&folder.result(id)) {
        Ok(result) if was_interrupted(&result) => {
            folder.set_aside(id);
            Outcome::Interrupted
        }
        Ok(result) => Outcome::Measured {
            exit: status
                .code()
                .and_then(|code| u8::try_from(code).ok())
                .unwrap_or(exit::FAILED),
            result: Box::new(result),
        },
        Err(_) if ending.interrupts > 0 => Outcome::Interrupted,
        Err(_) => Outcome::Unreached {
            why: match status.code() {
                Some(code) if code == i32::from(harness::failure::LIMIT) => FailureKind::Limit,
                _ => FailureKind::Failed,
            },
            // A long build has a line before the error.
            reason: match ending
                .stderr
                .split_once("error: ")
                .map_or(&*ending.stderr, |(_, error)| error)
            {
                "" => format!("the driver ended without a result or an error message ({status})"),
                stderr => stderr.to_owned(),
            },
        },
    }
}

/// Returns true if the run of a result was cut short.
pub(crate) fn was_interrupted(result: &RunResult) -> bool {
    result
        .warnings
        .iter()
        .any(|warning| warning.kind == Kind::Interrupted)
}
