//! One run of a suite: a driver's process, and what is known once it has ended.

use std::path::Path;

use harness::signals::Signals;
use harness::store::{self, RESULT};
use measure::result::RunResult;
use measure::threshold;
use measure::warning::{Kind, Verdict};
use tokio::process::Command;

use crate::child::{self, Ending};
use crate::exit;
use crate::folder::Folder;
use crate::matrix::Place;
use crate::record::Why;

/// What became of a run.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// There is a result.
    Measured { exit: u8, result: Box<RunResult> },
    /// There is none.
    Unreached { why: Why, reason: String },
    /// It was cut short: what it had measured is set aside.
    Interrupted,
}

/// Runs a driver once. Also says whether this program was asked to end meanwhile.
///
/// # Errors
/// A driver that can't be started.
pub(crate) async fn run(
    program: &Path,
    folder: &Folder,
    place: &Place,
    signals: &mut Signals,
    tick: impl FnMut(),
) -> std::io::Result<(Outcome, bool)> {
    let mut command = Command::new(program);
    command
        .arg("--plan")
        .arg(folder.plan())
        .args(["--daemon", &place.daemon])
        .args(place.level.set.iter().flat_map(|set| ["--set", set]))
        // In quotes: a name that looks like a number is still a name.
        .args(["--set", &format!("level=\"{}\"", place.level.name)])
        .arg("--into")
        .arg(folder.cell(place))
        .arg("--quiet");
    let ending = child::run(command, signals, tick).await?;
    let asked_to_end = ending.interrupts > 0;
    Ok((outcome(folder, place, ending), asked_to_end))
}

/// The outcome of a run whose result is there from before. One that was cut short is set aside, and to be run again.
pub(crate) fn adopt(folder: &Folder, place: &Place) -> Option<Outcome> {
    let result = store::read_result(&folder.cell(place).join(RESULT)).ok()?;
    if was_interrupted(&result) {
        folder.set_aside(place);
        return None;
    }
    Some(Outcome::Measured {
        exit: result.exit_code.unwrap_or_else(|| exit_of(&result)),
        result: Box::new(result),
    })
}

fn outcome(folder: &Folder, place: &Place, ending: Ending) -> Outcome {
    let Ending {
        status,
        said,
        interrupts,
    } = ending;
    match store::read_result(&folder.cell(place).join(RESULT)) {
        Ok(result) if was_interrupted(&result) => {
            folder.set_aside(place);
            Outcome::Interrupted
        }
        Ok(result) => Outcome::Measured {
            exit: status
                .code()
                .and_then(|code| u8::try_from(code).ok())
                .unwrap_or(exit::FAILED),
            result: Box::new(result),
        },
        Err(_) if interrupts > 0 => Outcome::Interrupted,
        Err(_) => Outcome::Unreached {
            why: match status.code() {
                Some(code) if code == i32::from(harness::cli::LIMIT) => Why::Limit,
                _ => Why::Failed,
            },
            reason: match said.trim_start_matches("error: ") {
                "" => format!("the driver ended without a result and without a word ({status})"),
                said => said.to_owned(),
            },
        },
    }
}

/// Whether a result is of a run that was cut short.
pub(crate) fn was_interrupted(result: &RunResult) -> bool {
    result
        .warnings
        .iter()
        .any(|warning| warning.kind == Kind::Interrupted)
}

/// What a driver would have exited with, as far as an older result says it, which does not have its exit code.
fn exit_of(result: &RunResult) -> u8 {
    let judged = |kind: &String| {
        let mut texts = result.thresholds.iter().map(|threshold| &threshold.text);
        texts.any(|text| threshold::judges(text, kind))
    };
    if result.errors.keys().any(|kind| !judged(kind)) {
        exit::FAILED
    } else if result.thresholds.iter().any(|threshold| !threshold.met) {
        exit::MISSED
    } else if result.verdict != Verdict::Valid {
        exit::SUSPECT
    } else {
        exit::FINE
    }
}
