//! Searches for a capacity, run by run. Each run is like any other, so that a search that was cut short can be
//! continued.

use harness::store;
use load::plan::{self, Capacity};
use measure::capacity::LoadOutcome;
use measure::result::RunResult;
use measure::units;

use super::Runner;
use crate::exit;
use crate::matrix::PlannedRun;
use crate::record::{CapacityResult, FailureKind, Inconclusive, RunId};
use crate::search::{self, Bracket, Next, Trial, TrialOutcome};

/// The state of the search on one daemon.
#[derive(Debug, Default)]
struct SearchState {
    tried: Vec<Trial>,
    /// The reasons why runs missed, or were not judged.
    reasons: Vec<(Trial, String)>,
    /// The drivers' exit codes of the runs that held the load.
    codes: Vec<(u64, u8)>,
}

impl Runner<'_> {
    /// Searches on one daemon after the other.
    pub(super) async fn search(
        &mut self,
        search: &Capacity,
        able: &[String],
    ) -> anyhow::Result<()> {
        let plan = plan::load::<toml::Table>(&self.folder.plan(), &[])?;
        for daemon in able {
            let mut search_state = self.search_state(daemon, plan.thresholds.len());
            loop {
                let level = match search::next(search, &search_state.tried) {
                    Next::Try(level) => level,
                    Next::Found(bracket) => {
                        self.record.found.push(search_state.found(daemon, bracket));
                        self.answers.extend(search_state.exit_codes(bracket));
                        break;
                    }
                };
                let run = self.next_run(daemon, level);
                if self.record.stopped(&run.id).is_some() {
                    break;
                }
                let number = self.record.runs.len() + 1;
                let result = self.run_one(&run, number, None).await?;
                if self.interrupted {
                    return Ok(());
                }
                match result {
                    Some((exit, result)) => {
                        search_state.judge(level, exit, &result, plan.thresholds.len());
                    }
                    None => match self.limit(&run.id) {
                        Some(limit) => search_state.add(level, TrialOutcome::Missed, limit),
                        // A failure for another reason is not an answer.
                        None => break,
                    },
                }
            }
        }
        Ok(())
    }

    /// Rebuilds the state of the search from the existing runs.
    fn search_state(&self, daemon: &str, thresholds: usize) -> SearchState {
        let mut search_state = SearchState::default();
        for run in self
            .record
            .runs
            .iter()
            .filter(|run| run.id.daemon == daemon)
        {
            let result = store::read_result(&self.folder.result(&run.id));
            if let (Ok(level), Ok(result)) = (run.id.level.parse(), result) {
                search_state.judge(level, run.exit, &result, thresholds);
            }
        }
        search_state
    }

    /// Returns the next run of a load: the first number without a result, since an earlier one may have been lost.
    fn next_run(&self, daemon: &str, load: u64) -> PlannedRun {
        let mut planned = PlannedRun::new(daemon, self.suite.spec.probe(load), 1);
        while self.record.has_ended(&planned.id) {
            planned.id.run += 1;
        }
        planned
    }

    /// Returns the machine's limit that a load hit, in one line.
    fn limit(&self, id: &RunId) -> Option<String> {
        let missed = self.record.stopped(id)?;
        let line = missed.reason.lines().next().unwrap_or_default();
        (missed.why == FailureKind::Limit).then(|| line.to_owned())
    }
}

impl SearchState {
    /// Judges a run. It held its load if nothing failed that its driver calls a failure, all thresholds were judged,
    /// and [`RunResult::judgement`] says so.
    fn judge(&mut self, level: u64, exit: u8, result: &RunResult, thresholds: usize) {
        let failed = result.operations.failed;
        let (outcome, reason) = match result.load_outcome() {
            LoadOutcome::Inconclusive(why) => (
                TrialOutcome::Inconclusive,
                format!("{} → {}", why.message, why.hint),
            ),
            _ if exit == exit::FAILED && failed > 0 => (
                TrialOutcome::Missed,
                format!("{} failed", units::count(failed)),
            ),
            _ if result.thresholds.len() < thresholds => (
                TrialOutcome::Missed,
                "not all thresholds were judged".to_owned(),
            ),
            LoadOutcome::Failed(mut why) => (TrialOutcome::Missed, why.swap_remove(0)),
            LoadOutcome::Sustained => {
                self.codes.push((level, exit));
                (TrialOutcome::Held, String::new())
            }
        };
        self.add(level, outcome, reason);
    }

    fn add(&mut self, level: u64, outcome: TrialOutcome, reason: String) {
        let tried = Trial { level, outcome };
        self.tried.push(tried);
        self.reasons.push((tried, reason));
    }

    fn found(&self, daemon: &str, bracket: Bracket) -> CapacityResult {
        let reason = |level: u64, outcome: TrialOutcome| {
            let mut reasons = self.reasons.iter();
            let of = reasons.find(|(tried, _)| *tried == Trial { level, outcome });
            of.map(|(_, reason)| reason.clone())
        };
        CapacityResult {
            daemon: daemon.to_owned(),
            held: bracket.held,
            missed: bracket.missed,
            reason: bracket
                .missed
                .and_then(|level| reason(level, TrialOutcome::Missed)),
            unjudged: bracket.unjudged.map(|level| Inconclusive {
                level,
                reason: reason(level, TrialOutcome::Inconclusive).unwrap_or_default(),
            }),
        }
    }

    /// Returns the exit codes of the answer. Misses are part of a search: only the existence of an answer and the runs
    /// that confirm it count.
    fn exit_codes(&self, bracket: Bracket) -> Vec<u8> {
        let unjudged = bracket.unjudged.map(|_| exit::SUSPECT);
        let none_held = bracket.held.is_none() && bracket.missed.is_some();
        let of_answer = self
            .codes
            .iter()
            .filter(|(level, _)| Some(*level) == bracket.held);
        unjudged
            .into_iter()
            .chain(none_held.then_some(exit::MISSED))
            .chain(of_answer.map(|(_, code)| *code))
            .collect()
    }
}
