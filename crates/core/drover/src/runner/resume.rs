//! Continues a suite from its files.

use measure::change::FEWEST_RUNS;
use measure::machine::Machine;
use measure::units;

use crate::folder::Folder;
use crate::progress::Progress;
use crate::record::Record;
use crate::resolve::Suite;

/// Prepares the record of a suite that is called again: runs without an intact result are repeated. The record keeps
/// its end if nothing is to be done.
pub(super) fn resume(
    mut record: Record,
    suite: &Suite,
    machine: &Machine,
    folder: &Folder,
    progress: &Progress,
) -> Record {
    record.clear_failures();
    let before = record.runs.len();
    record.runs.retain_mut(|run| match folder.intact(&run.id) {
        Ok(Some(result)) => {
            run.verdict = Some(result.verdict);
            true
        }
        Ok(None) => false,
        Err(error) => {
            progress.say(&format!("Measuring again: {error:#}"));
            false
        }
    });
    let there = record.runs.len();
    let is_search = suite.spec.capacity.is_some();
    let spoiled = if is_search || suite.retry_invalid == 0 {
        0
    } else {
        record.spoiled_runs()
    };
    let earlier = record.suite.repeat;
    if earlier < suite.spec.repeat {
        // Fewer runs have no word, so that nobody has read one.
        let is_compared = earlier as usize >= FEWEST_RUNS && record.suite.daemons.len() > 1;
        record.looks.extend(is_compared.then_some(earlier));
        record.suite.repeat = suite.spec.repeat;
        record.ended_at = None;
    }
    if there < before || spoiled > 0 {
        record.ended_at = None;
    }
    let shown = folder.path().display();
    if record.ended_at.is_some() {
        progress.say(&finished(there, is_search, machine, &shown.to_string()));
        return record;
    }
    let total = suite.spec.total();
    let of = total.map_or(String::new(), |total| format!(" of {total}"));
    let again = match spoiled {
        0 => String::new(),
        spoiled => format!(" ({spoiled} INVALID, to be made again)"),
    };
    progress.say(&format!(
        "{there}{of} runs are complete{again}, continuing in {shown}"
    ));
    if record.git_commit != machine.git_commit && there > 0 {
        progress.say(
            "They were measured with another revision of the sources: use --fresh to measure all with this one.",
        );
    }
    record.git_commit.clone_from(&machine.git_commit);
    record.planned = suite.planned;
    record
}

/// Says that a suite is finished, where its results are, and how to measure again.
fn finished(runs: usize, is_search: bool, machine: &Machine, folder: &str) -> String {
    let what = match (is_search, runs) {
        (true, _) => "the search has its answers".to_owned(),
        (false, 1) => "the only run has its result".to_owned(),
        (false, runs) => format!("all {} runs have results", units::count(runs as u64)),
    };
    // The revision is the same, but not necessarily the sources.
    let changes = match machine.git_dirty {
        Some(true) => ", with the uncommitted changes of the sources",
        _ => "",
    };
    format!("Nothing to do: {what} in {folder}; --fresh starts over{changes}.")
}
