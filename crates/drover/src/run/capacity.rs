//! The search for a capacity, run by run. Each is a run like any other, so a search that was cut short goes on.

use harness::plan::{self, Capacity};
use harness::store::{self, RESULT};
use measure::held::Judgement;
use measure::result::RunResult;
use measure::units;

use super::Runner;
use crate::exit;
use crate::matrix::Place;
use crate::record::{Found, Unjudged, Why};
use crate::search::{self, Bracket, CameOut, Next, Tried};

/// The search on one daemon so far.
#[derive(Debug, Default)]
struct Story {
    tried: Vec<Tried>,
    /// Why what was tried did not hold, or was not judged.
    reasons: Vec<(Tried, String)>,
    /// What the drivers exited with where the load held.
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
            let mut story = self.story(daemon, plan.thresholds.len());
            loop {
                let level = match search::next(search, &story.tried) {
                    Next::Try(level) => level,
                    Next::Found(bracket) => {
                        self.record.found.push(story.found(daemon, bracket));
                        self.answers.extend(story.codes_of(bracket));
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
                        story.judge(level, exit, &result, plan.thresholds.len());
                    }
                    None => match self.limit(daemon, &place.level.name) {
                        Some(limit) => story.add(level, CameOut::Missed, limit),
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
                story.judge(level, run.exit, &result, thresholds);
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
}

impl Story {
    /// Judges a run. A load held if nothing failed that its driver calls a failure, all thresholds were judged, and the
    /// run held it ([`RunResult::judgement`]).
    fn judge(&mut self, level: u64, exit: u8, result: &RunResult, thresholds: usize) {
        let failed = result.operations.failed;
        let (came_out, reason) = match result.judgement() {
            Judgement::NotJudged(why) => {
                (CameOut::Unjudged, format!("{} → {}", why.message, why.hint))
            }
            _ if exit == exit::FAILED && failed > 0 => {
                (CameOut::Missed, format!("{} failed", units::count(failed)))
            }
            _ if result.thresholds.len() < thresholds => {
                (CameOut::Missed, "not all thresholds were judged".to_owned())
            }
            Judgement::NotHeld(mut why) => (CameOut::Missed, why.swap_remove(0)),
            Judgement::Held => {
                self.codes.push((level, exit));
                (CameOut::Held, String::new())
            }
        };
        self.add(level, came_out, reason);
    }

    fn add(&mut self, level: u64, came_out: CameOut, reason: String) {
        let tried = Tried { level, came_out };
        self.tried.push(tried);
        self.reasons.push((tried, reason));
    }

    fn found(&self, daemon: &str, bracket: Bracket) -> Found {
        let reason = |level: u64, came_out: CameOut| {
            let mut reasons = self.reasons.iter();
            let of = reasons.find(|(tried, _)| *tried == Tried { level, came_out });
            of.map(|(_, reason)| reason.clone())
        };
        Found {
            daemon: daemon.to_owned(),
            held: bracket.held,
            missed: bracket.missed,
            reason: bracket
                .missed
                .and_then(|level| reason(level, CameOut::Missed)),
            unjudged: bracket.unjudged.map(|level| Unjudged {
                level,
                reason: reason(level, CameOut::Unjudged).unwrap_or_default(),
            }),
        }
    }

    /// What the answer exits with. A miss belongs to a search: what counts is that there is an answer, and the runs that
    /// confirm it.
    fn codes_of(&self, bracket: Bracket) -> Vec<u8> {
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
