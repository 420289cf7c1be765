//! The search for a capacity, run by run. Each is a run like any other, so a search that was cut short goes on.

use harness::plan::{self, Capacity};
use harness::store::{self, RESULT};
use measure::result::RunResult;
use measure::units;

use super::Runner;
use crate::exit;
use crate::matrix::Place;
use crate::record::{Found, Why};
use crate::search::{self, Bracket, Next, Tried};

/// The search on one daemon so far.
#[derive(Debug, Default)]
struct Story {
    tried: Vec<Tried>,
    /// What was missed at which load.
    missed: Vec<(u64, String)>,
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
            let mut story = self.story(daemon, plan.thresholds.len());
            loop {
                let level = match search::next(search, &story.tried) {
                    Next::Try(level) => level,
                    Next::Found(bracket) => {
                        self.record.found.push(story.found(daemon, bracket));
                        break;
                    }
                };
                let place = self.place(daemon, level);
                if self
                    .record
                    .stopped(daemon, &place.level.name, place.run)
                    .is_some()
                {
                    break;
                }
                let number = self.record.runs.len() + 1;
                let result = self.one(&place, number, None).await?;
                if self.interrupted {
                    return Ok(());
                }
                match result {
                    Some((exit, result)) => {
                        story.add(level, judge(exit, &result, plan.thresholds.len()));
                    }
                    None => match self.limit(daemon, &place.level.name) {
                        Some(limit) => story.add(level, Err(limit)),
                        // It failed for a reason that is no answer: so there is none.
                        None => break,
                    },
                }
            }
        }
        Ok(())
    }

    /// What the runs that are there say.
    fn story(&self, daemon: &str, thresholds: usize) -> Story {
        let mut story = Story::default();
        for run in self.record.runs.iter().filter(|run| run.daemon == daemon) {
            let place = Place {
                daemon: daemon.to_owned(),
                level: self
                    .suite
                    .resolved
                    .probe(run.level.parse().unwrap_or_default()),
                run: run.run,
            };
            let path = self.folder.cell(&place).join(RESULT);
            if let (Ok(level), Ok(result)) = (run.level.parse(), store::read_result(&path)) {
                story.add(level, judge(run.exit, &result, thresholds));
            }
        }
        story
    }

    /// The next run of a load: the first number without a result, since one in between may have been lost.
    fn place(&self, daemon: &str, load: u64) -> Place {
        let level = self.suite.resolved.probe(load);
        let is_free = |run: &u32| self.record.ended(daemon, &level.name, *run).is_none();
        let run = (1..).find(is_free).unwrap_or(u32::MAX);
        Place {
            daemon: daemon.to_owned(),
            run,
            level,
        }
    }

    /// The limit of the machine that a load met, in one line.
    fn limit(&self, daemon: &str, level: &str) -> Option<String> {
        let missed = self.record.stopped(daemon, level, 1)?;
        let line = missed.reason.lines().next().unwrap_or_default();
        (missed.why == Why::Limit).then(|| line.to_owned())
    }

    /// A miss belongs to a search: what counts is the answer.
    pub(super) fn codes_of_search(&self) -> Vec<u8> {
        let of_answer = |found: &Found| {
            let Some(held) = found.held else {
                return vec![exit::MISSED];
            };
            let is_answer =
                |level: &str, daemon: &str| daemon == found.daemon && level == held.to_string();
            let runs = self.record.runs.iter();
            runs.filter(|run| is_answer(&run.level, &run.daemon))
                .map(|run| run.exit)
                .collect()
        };
        self.record.found.iter().flat_map(of_answer).collect()
    }
}

impl Story {
    fn add(&mut self, level: u64, held: Result<(), String>) {
        self.tried.push(Tried {
            level,
            held: held.is_ok(),
        });
        if let Err(reason) = held {
            self.missed.push((level, reason));
        }
    }

    fn found(&self, daemon: &str, bracket: Bracket) -> Found {
        let at = |(level, _): &&(u64, String)| Some(*level) == bracket.missed;
        Found {
            daemon: daemon.to_owned(),
            held: bracket.held,
            missed: bracket.missed,
            reason: self
                .missed
                .iter()
                .find(at)
                .map(|(_, reason)| reason.clone()),
        }
    }
}

/// Whether a load held: nothing failed that its driver calls a failure, all thresholds were judged, and the run held them
/// ([`RunResult::shortfalls`]). What was not judged did not hold.
fn judge(exit: u8, result: &RunResult, thresholds: usize) -> Result<(), String> {
    let failed = result.operations.failed;
    if exit == exit::FAILED && failed > 0 {
        return Err(format!("{} failed", units::count(failed)));
    }
    if result.thresholds.len() < thresholds {
        return Err("not all thresholds were judged".to_owned());
    }
    result.shortfalls().into_iter().next().map_or(Ok(()), Err)
}
