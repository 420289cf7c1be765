//! Merges the results of the parts of a divided run: the command `merge` of every driver.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use load::driver::{Driver, SharedOperations as _, ValidPlan};
use load::limits;
use load::plan::{Invalid, Plan};
use measure::result::{RunResult, Second};
use measure::shard::Clock;
use measure::spec::SeriesSpec;
use measure::tally::{Counts, OK, STARTED, Tally, UNFINISHED};
use measure::warning::{EndedBy, Kind, Warning};
use serde::de::DeserializeOwned;

use crate::divided::{DAEMON_FOLDER, has_daemon_part, shard_folder, shard_of_folder};
use crate::failure::Failure;
use crate::run::conclude::{Observed, Scope, conclude};
use crate::run::scrape::Counted;
use crate::store::{self, LEDGERS, RESULT, SECONDS, check_sum};
use sum::{Merge, SecondMerge};

mod sum;
#[cfg(test)]
mod tests;

/// Bytes that are read ahead from the seconds of each shard.
const READ_AHEAD: usize = 16 << 10;

/// Merges the results in the folder of a divided run. A part whose files are damaged counts as missing.
///
/// # Errors
/// There is no result, or the results are not of one run.
pub fn merge<D: Driver>(folder: &Path) -> Result<RunResult, Failure> {
    let mut merge = Merge::new(&D::SPEC.series);
    let mut rows = Vec::new();
    let mut ledgers = Ledgers::default();
    let mut daemon_damaged = None;
    for (shard, path) in parts(folder).map_err(Failure::Call)? {
        let result = match read_part(&path) {
            Ok(result) => result,
            Err(error) => {
                let problem = format!("{error:#}");
                match shard {
                    Some(_) => merge.damaged.push(problem),
                    None => daemon_damaged = Some(problem),
                }
                continue;
            }
        };
        if result.driver != D::SPEC.driver {
            let problem = format!("is a result of {0}: merge with `{0} merge`", result.driver);
            return Err(Invalid::new(path.display().to_string(), problem).into());
        }
        if merge.whole.part.is_none() {
            let plan: Plan<D::Config> = plan_of(&result).map_err(Failure::Call)?;
            merge.total = Tally::new(&D::spec(&plan).series);
        }
        let part = result.part.clone();
        let mut warnings = result.warnings.iter();
        let is_whole = warnings.all(|warning| warning.kind != Kind::RowsLost);
        let totals = is_whole.then(|| result.counts.clone());
        if let Some(part) = part.filter(|part| part.shares_operations) {
            ledgers.add(path.join(LEDGERS), part.ledgers == result.processes);
        }
        merge
            .add(result)
            .with_context(|| path.display().to_string())
            .map_err(Failure::Call)?;
        rows.extend(shard.map(|_| Rows::new(path.join(SECONDS), totals)));
    }
    if merge.shards.is_empty() {
        let field = folder.display().to_string();
        let problem = format!("no shard can be merged: {}", merge.damaged.join("; "));
        return Err(Invalid::new(field, problem).into());
    }
    if daemon_damaged.is_some() || !merge.has_daemon_part && has_daemon_part(folder) {
        let warning = Warning::daemon_part_missing(daemon_damaged.as_deref());
        merge.whole.warnings.push(warning);
    }
    finish::<D>(merge, rows, &ledgers).map_err(Failure::Run)
}

/// Reads the result of a part, once its files are known to be as it wrote them.
fn read_part(folder: &Path) -> anyhow::Result<RunResult> {
    check_sum(folder, RESULT)?;
    let result = store::read_result(&folder.join(RESULT))?;
    check_sum(folder, SECONDS)?;
    let ledgers = result.part.as_ref().map_or(0, |part| part.ledgers);
    if ledgers > 0 || folder.join(LEDGERS).exists() {
        check_sum(folder, LEDGERS)?;
    }
    Ok(result)
}

/// The ledgers of the shards, if operations begin in one and end in another.
#[derive(Debug, Default)]
struct Ledgers {
    files: Vec<PathBuf>,
    /// True if the ledger of a process is missing.
    is_short: bool,
}

impl Ledgers {
    fn add(&mut self, file: PathBuf, is_complete: bool) {
        if file.exists() {
            self.files.push(file);
        } else {
            self.is_short = true;
        }
        self.is_short |= !is_complete;
    }

    /// Returns the ledgers, one after the other.
    fn lines(&self) -> impl Iterator<Item = anyhow::Result<String>> {
        self.files.iter().flat_map(|path| {
            let reading = move || format!("reading {}", path.display());
            let (lines, failed) = match store::open(path) {
                Ok(file) => (Some(BufReader::new(file).lines()), None),
                Err(error) => (None, Some(Err(error))),
            };
            let lines = lines.into_iter().flatten().chain(failed);
            lines.map(move |line| line.with_context(reading))
        })
    }
}

/// Returns the folders with the results of the parts, each with its shard, the daemon's first. A result file is
/// complete, because it is written last.
fn parts(folder: &Path) -> anyhow::Result<Vec<(Option<u64>, PathBuf)>> {
    let reading = || format!("reading {}", folder.display());
    let mut shards = Vec::new();
    for entry in fs::read_dir(folder).with_context(reading)? {
        let name = entry.with_context(reading)?.file_name();
        shards.extend(shard_of_folder(&name.to_string_lossy()));
    }
    shards.sort_unstable();
    shards.dedup();
    let folders = shards
        .into_iter()
        .map(|index| (Some(index), folder.join(shard_folder(index))));
    let found: Vec<_> = [(None, folder.join(DAEMON_FOLDER))]
        .into_iter()
        .chain(folders)
        .filter(|(_, part)| part.join(RESULT).exists())
        .collect();
    ensure!(
        found.iter().any(|(shard, _)| shard.is_some()),
        "{}: has no shard-I/{RESULT}: name the folder of --result-dir, once a shard has ended",
        folder.display()
    );
    Ok(found)
}

/// The rows of one shard, read one after the other.
#[derive(Debug)]
struct Rows {
    path: PathBuf,
    read: u64,
    file: Option<BufReader<File>>,
    line: String,
    /// The counters of the shard's result that the rows have not added up to so far; absent if rows were lost.
    left: Option<Counts>,
}

impl Rows {
    fn new(path: PathBuf, totals: Option<Counts>) -> Self {
        Self {
            path,
            read: 0,
            file: None,
            line: String::new(),
            left: totals,
        }
    }

    /// Returns the next row, or `None` after the last one.
    ///
    /// # Errors
    /// A row that cannot be read, or rows that do not add up to the result of the shard.
    fn next(&mut self) -> anyhow::Result<Option<Second>> {
        let reading = || format!("reading {}", self.path.display());
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let file = store::open(&self.path).with_context(reading)?;
                self.file.insert(BufReader::with_capacity(READ_AHEAD, file))
            }
        };
        self.line.clear();
        if file.read_line(&mut self.line).with_context(reading)? == 0 {
            let missing = [STARTED, OK].into_iter().find(|name| {
                let left = self.left.iter().find_map(|left| left.get(*name));
                left.is_some_and(|left| *left > 0)
            });
            ensure!(missing.is_none(), self.misfit(missing.unwrap_or(OK)));
            return Ok(None);
        }
        self.read += 1;
        let row: Second = serde_json::from_str(&self.line)
            .with_context(|| format!("{}, line {}", self.path.display(), self.read))?;
        for (name, number) in &row.counts {
            let Some(left) = &mut self.left else {
                break;
            };
            let left = left.entry(name.clone()).or_default();
            match left.checked_sub(*number) {
                Some(rest) => *left = rest,
                None => bail!(self.misfit(name)),
            }
        }
        Ok(Some(row))
    }

    fn misfit(&self, counter: &str) -> String {
        format!(
            "the rows of {} do not add up to `counts.{counter}` of its {RESULT}: one of the two is of another run or was \
             changed; copy the folder of the shard again",
            self.path.display()
        )
    }
}

/// Shards whose rows are merged by one thread.
#[derive(Debug)]
struct Group {
    /// The shards, each with its next row. A shard without operations in a second may have no row for it.
    shards: Vec<(Rows, Option<Second>)>,
    sum: SecondMerge,
}

impl Group {
    fn new(specs: &[SeriesSpec], mut shards: Vec<Rows>) -> anyhow::Result<Self> {
        let next = shards.iter_mut().map(Rows::next);
        let next: Vec<Option<Second>> = next.collect::<anyhow::Result<_>>()?;
        Ok(Self {
            shards: shards.into_iter().zip(next).collect(),
            sum: SecondMerge::new(specs),
        })
    }

    /// Returns the next second of any shard.
    fn next_second(&self) -> Option<u64> {
        let rows = self.shards.iter().filter_map(|(_, row)| row.as_ref());
        rows.map(|row| row.second).min()
    }

    /// Adds the rows of a second.
    fn add(&mut self, second: u64) -> anyhow::Result<()> {
        for (shard, next) in &mut self.shards {
            let Some(row) = next.take_if(|row| row.second == second) else {
                continue;
            };
            self.sum
                .add(&row)
                .with_context(|| format!("{}, line {}", shard.path.display(), shard.read))?;
            *next = shard.next()?;
        }
        Ok(())
    }
}

/// Merges the rows of all shards, second by second, in as many threads as there are processors.
fn seconds(specs: &[SeriesSpec], mut rows: Vec<Rows>) -> anyhow::Result<Vec<Second>> {
    // Each shard needs a file.
    limits::raise_nofile().context("raising the open-file limit")?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let each = rows.len().div_ceil(threads).max(1);
    let mut groups = Vec::new();
    while !rows.is_empty() {
        let rest = rows.split_off(each.min(rows.len()));
        groups.push(Group::new(specs, std::mem::replace(&mut rows, rest))?);
    }
    let mut merged = Vec::new();
    while let Some(second) = groups.iter().filter_map(Group::next_second).min() {
        std::thread::scope(|scope| {
            let adding: Vec<_> = groups
                .iter_mut()
                .map(|group| scope.spawn(move || group.add(second)))
                .collect();
            let mut added = adding.into_iter().map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            added.try_for_each(|added| added)
        })?;
        let (first, others) = groups.split_first_mut().context("there are no rows")?;
        for other in others {
            first.sum.merge(&mut other.sum);
        }
        merged.push(first.sum.finish());
    }
    Ok(merged)
}

/// Counts the operations that are open at the end of each second. A shard's own count is meaningless if other shards
/// end its operations.
fn count_open(seconds: &mut [Second]) {
    let (mut begun, mut ended) = (0, 0);
    for row in seconds {
        let counted = |name: &str| row.counts.get(name).copied().unwrap_or(0);
        begun += counted(STARTED);
        ended += counted(OK) + counted(UNFINISHED) + row.errors.values().sum::<u64>();
        row.active = begun.saturating_sub(ended);
        row.active_peak = row.active;
    }
}

/// Reads the plan of a part.
fn plan_of<C: DeserializeOwned>(part: &RunResult) -> anyhow::Result<Plan<C>> {
    serde_json::from_value(part.plan.clone()).context(
        "the plan of the first part cannot be read: merge with the version that made the results",
    )
}

/// Concludes the sum.
fn finish<D: Driver>(
    mut merge: Merge,
    rows: Vec<Rows>,
    ledgers: &Ledgers,
) -> anyhow::Result<RunResult> {
    let load = ValidPlan::new::<D>(plan_of(&merge.whole)?)?;
    let mut seconds = seconds(&load.spec.series, rows)?;
    let missing = merge.missing();
    let shares_operations = !ledgers.files.is_empty() || ledgers.is_short;
    if shares_operations {
        let (total, is_complete) = (&mut merge.total, missing.is_empty() && !ledgers.is_short);
        let reconciliation =
            D::Shared::reconcile(&load.plan, &mut ledgers.lines(), is_complete, total)
                .with_context(|| format!("the {LEDGERS} of the shards: copy them again"))?;
        reconciliation.apply(total, &mut seconds)?;
        count_open(&mut seconds);
    }
    let of = merge.whole.part.as_ref().map_or(0, |part| part.of);
    let mut warnings = Vec::from_iter(Warning::shards_missing(&missing, of, &merge.damaged));
    warnings.append(&mut merge.whole.warnings);
    let unmeasured = merge.unmeasured.take();
    warnings.extend(unmeasured.filter(|_| merge.whole.usage.daemon.is_none()));
    let was_raised = |kind| warnings.iter().any(|warning| warning.kind == kind);
    let ended_by = if was_raised(Kind::Interrupted) {
        EndedBy::Interrupt
    } else {
        EndedBy::Plan
    };
    let is_short = !missing.is_empty() || was_raised(Kind::WorkersFailed);
    let response = load.description.response;
    let shared = shares_operations.then(|| load.spec.series[response.0].name.as_ref());
    warnings.extend(of_clocks(&merge, shared));
    if merge.answers_differ() {
        warnings.push(Warning::shards_answered_differently());
    }
    let daemon_counts = merge.daemon_counts.iter().map(|(counter, counts)| {
        let (number, complete) = (counts.0 as f64, counts.1);
        (counter.clone(), Counted { number, complete })
    });
    let observed = Observed {
        scope: Scope::Sum,
        seconds,
        measured_s: merge.measured_s,
        ended_by: shares_operations.then_some(ended_by),
        daemon_counts: daemon_counts.collect(),
        is_short,
        workers: merge.whole.threads,
        thresholds: load.plan.thresholds(load.spec)?,
        worker_cpu_pct: merge.whole.audit_inputs.worker_cpu_pct,
        opening: merge.whole.audit_inputs.opening.take(),
        total: std::mem::replace(&mut merge.total, Tally::new(&load.spec.series)),
        facts: merge.into_facts(warnings),
    };
    Ok(conclude::<D>(&load, observed))
}

/// Returns the warnings about the clocks of several machines. `response` is the series of operations that may begin on
/// one and end on another, if there are any.
fn of_clocks(merge: &Merge, response: Option<&str>) -> Vec<Warning> {
    if merge.hosts() < 2 {
        return Vec::new();
    }
    let shards = merge.shards.values();
    let uncertain = shards.clone().filter_map(|shard| {
        let warning = Warning::clock_uncertain(shard.clock)?;
        Some(warning.of_part(Some(shard.shard), &shard.machine.hostname))
    });
    let clocks: Vec<Clock> = shards.clone().map(|shard| shard.clock).collect();
    let between = response.map(|response| Warning::latency_between_clocks(response, &clocks));
    uncertain.chain(between).collect()
}
