//! Several operations in one request.

use issue_store::{Changes, Error};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::answer::Answer;
use crate::code::Code;
use crate::execute::perform_part;
use crate::operation::{Batch, BatchItem, BatchMode};

#[derive(Serialize)]
struct Results {
    mode: BatchMode,
    /// The operations whose changes stay.
    kept: usize,
    /// The answers, up to and including the failure; of all operations in the mode `continue`.
    results: Vec<Box<RawValue>>,
}

/// The failure of an atomic batch, or of the database.
enum BatchFailure {
    Operation,
    Database(Error),
}

impl From<Error> for BatchFailure {
    fn from(error: Error) -> Self {
        Self::Database(error)
    }
}

/// Performs the operations of a batch in their order, as its mode says.
pub(crate) fn perform(
    changes: &mut Changes<'_>,
    actor: &str,
    batch: &Batch,
) -> Result<Answer, Error> {
    let mut answers = Vec::with_capacity(batch.operations.len());
    if batch.mode == BatchMode::Atomic {
        let whole = changes.nested(|changes| {
            if perform_all(changes, actor, batch, &mut answers)? {
                Ok(())
            } else {
                Err(BatchFailure::Operation)
            }
        });
        match whole {
            Ok(()) | Err(BatchFailure::Operation) => {}
            Err(BatchFailure::Database(error)) => return Err(error),
        }
    } else {
        perform_all(changes, actor, batch, &mut answers)?;
    }
    Ok(answer(batch, &answers))
}

/// Returns false if an operation failed.
fn perform_all(
    changes: &mut Changes<'_>,
    actor: &str,
    batch: &Batch,
    answers: &mut Vec<Answer>,
) -> Result<bool, Error> {
    let mut is_whole = true;
    for item in &batch.operations {
        let answer = perform_item(changes, actor, item)?;
        is_whole &= answer.code().is_none();
        answers.push(answer);
        if !is_whole && batch.mode != BatchMode::Continue {
            break;
        }
    }
    Ok(is_whole)
}

fn perform_item(changes: &mut Changes<'_>, actor: &str, item: &BatchItem) -> Result<Answer, Error> {
    let operation = match item {
        Ok(operation) => operation,
        Err((code, problem)) => return Ok(Answer::failure(*code, problem)),
    };
    match changes.nested(|changes| perform_part(changes, actor, operation)) {
        Err(error) if error.is_of_request() => Ok(error.into()),
        other => other,
    }
}

fn answer(batch: &Batch, answers: &[Answer]) -> Answer {
    let failed = answers
        .iter()
        .filter(|answer| answer.code().is_some())
        .count();
    let first = answers
        .iter()
        .enumerate()
        .find_map(|(index, answer)| Some((index, answer.code()?)));
    let kept = match (batch.mode, first) {
        (BatchMode::Atomic, Some(_)) => 0,
        _ => answers.len() - failed,
    };
    let results = Results {
        mode: batch.mode,
        kept,
        results: answers.iter().map(Answer::object).collect(),
    };
    match first {
        Some((index, code)) if !batch.is_compatible => {
            failure(batch, index, code, kept, failed).with_data(&results)
        }
        _ => Answer::success(&results),
    }
}

fn failure(batch: &Batch, index: usize, code: Code, kept: usize, failed: usize) -> Answer {
    let all = batch.operations.len();
    let outcome = match batch.mode {
        BatchMode::Stop => format!("stopped there, and kept the {kept} before it"),
        BatchMode::Atomic => "nothing was kept".to_owned(),
        BatchMode::Continue => format!("{failed} failed, and {kept} were kept"),
    };
    let problem = format!(
        "operation {} of {all} failed: {outcome}; data.results has the reason",
        index + 1
    );
    Answer::failure(code, &problem)
}
