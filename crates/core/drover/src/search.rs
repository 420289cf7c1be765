//! Searches for a capacity: computes the next load to try from the runs so far.
//!
//! The load is doubled until one is missed, the gap is bisected, and the result is confirmed. If a confirmation is
//! missed, the result is unsure: the search goes down by the requested width, and confirms again. A load that could
//! not be judged is tried again. If that does not help, it bounds the search: the highest load that held below it is
//! confirmed, and is the answer.

use std::collections::BTreeMap;

use load::plan::Capacity;

/// Number of unjudged runs of a load after which it bounds the search. Other activity on the machine may have ended by
/// then; a driver that is too slow for the load stays too slow.
pub(crate) const TRIES: u32 = 3;

/// A run at one load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trial {
    pub(crate) level: u64,
    pub(crate) outcome: TrialOutcome,
}

/// The outcome of a run for its load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrialOutcome {
    /// The daemon held the load.
    Held,
    /// The daemon missed a threshold or failed.
    Missed,
    /// The driver or the machine was at fault: the daemon may have held the load or not.
    Inconclusive,
}

/// The next step of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Run this load.
    Try(u64),
    /// Stop: this is the answer.
    Found(Bracket),
}

/// The answer lies between `held` and the lower of the two others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bracket {
    /// The highest load that held and was confirmed; absent if there is none.
    pub(crate) held: Option<u64>,
    /// The lowest load that was missed; absent if none was.
    pub(crate) missed: Option<u64>,
    /// The load that could not be judged, if that ended the search.
    pub(crate) unjudged: Option<u64>,
}

/// Determines the next step from the history alone, so that a search that was cut short continues where it was.
pub(crate) fn next(search: &Capacity, history: &[Trial]) -> Next {
    let levels = Levels::from_history(history);
    let missed = levels.lowest_missed();
    if let Some(unjudged) = levels.lowest_unjudged_below(missed) {
        let held = levels.highest_held_below(unjudged);
        return levels.confirm(search, held.unwrap_or(0), missed, Some(unjudged));
    }
    let Some(missed) = missed else {
        return levels.upwards(search);
    };
    let held = levels.highest_held_below(missed);
    if levels.is_unsure() {
        let step = (missed as f64 / (1.0 + search.within_pct / 100.0)) as u64;
        let lower = step.min(missed - 1).max(held.unwrap_or(0));
        return levels.confirm(search, lower, Some(missed), None);
    }
    let low = held.unwrap_or(0);
    let gap = missed - low;
    let narrow = gap as f64 <= low as f64 * search.within_pct / 100.0;
    if gap <= 1 || narrow {
        return levels.confirm(search, low, Some(missed), None);
    }
    Next::Try(low + gap / 2)
}

/// Counts of the outcomes at each load.
#[derive(Debug, Default)]
struct Levels {
    runs: BTreeMap<u64, Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    held: u32,
    missed: u32,
    unjudged: u32,
}

impl Levels {
    fn from_history(history: &[Trial]) -> Self {
        let mut levels = Self::default();
        for tried in history {
            let counts = levels.runs.entry(tried.level).or_default();
            *match tried.outcome {
                TrialOutcome::Held => &mut counts.held,
                TrialOutcome::Missed => &mut counts.missed,
                TrialOutcome::Inconclusive => &mut counts.unjudged,
            } += 1;
        }
        levels
    }

    fn lowest_missed(&self) -> Option<u64> {
        let missed = |(level, counts): (&u64, &Counts)| (counts.missed > 0).then_some(*level);
        self.runs.iter().find_map(missed)
    }

    /// Returns the lowest load that is given up, because further runs of it would not be judged either.
    fn lowest_unjudged_below(&self, limit: Option<u64>) -> Option<u64> {
        let given_up =
            |(level, counts): (&u64, &Counts)| (counts.unjudged >= TRIES).then_some(*level);
        let lowest = self.runs.iter().find_map(given_up)?;
        limit.is_none_or(|limit| lowest < limit).then_some(lowest)
    }

    fn highest_held_below(&self, limit: u64) -> Option<u64> {
        let held = |(level, counts): (&u64, &Counts)| (counts.held > 0).then_some(*level);
        self.runs.range(..limit).rev().find_map(held)
    }

    /// Returns true if the same load held once and was missed once.
    fn is_unsure(&self) -> bool {
        let mut runs = self.runs.values();
        runs.any(|counts| counts.held > 0 && counts.missed > 0)
    }

    /// Returns the next step while nothing was missed.
    fn upwards(&self, search: &Capacity) -> Next {
        match self.highest_held_below(u64::MAX) {
            None => Next::Try(search.from),
            Some(highest) if highest >= search.most => self.confirm(search, highest, None, None),
            Some(highest) => Next::Try(highest.saturating_mul(2).min(search.most)),
        }
    }

    /// Confirms a load. It is the answer once it held in the run that found it and in those that confirm it; a load of
    /// 0 means that there is none.
    fn confirm(
        &self,
        search: &Capacity,
        level: u64,
        missed: Option<u64>,
        unjudged: Option<u64>,
    ) -> Next {
        let held = self.runs.get(&level).map_or(0, |counts| counts.held);
        if level > 0 && held <= search.confirm {
            return Next::Try(level);
        }
        Next::Found(Bracket {
            held: (level > 0).then_some(level),
            missed,
            unjudged,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn search(from: u64, most: u64, within_pct: f64, confirm: u32) -> Capacity {
        Capacity {
            set: "groups.0.clients".to_owned(),
            from,
            most,
            within_pct,
            confirm,
        }
    }

    impl From<bool> for TrialOutcome {
        fn from(held: bool) -> Self {
            if held { Self::Held } else { Self::Missed }
        }
    }

    /// Searches to the end; returns every run, and the answer.
    fn play<C: Into<TrialOutcome>>(
        search: &Capacity,
        mut comes_out: impl FnMut(u64) -> C,
    ) -> (Vec<Trial>, Bracket) {
        let mut history = Vec::new();
        loop {
            match next(search, &history) {
                Next::Try(level) => history.push(Trial {
                    level,
                    outcome: comes_out(level).into(),
                }),
                Next::Found(bracket) => return (history, bracket),
            }
            assert!(history.len() < 100_000, "the search does not end");
        }
    }

    fn levels(history: &[Trial]) -> Vec<u64> {
        history.iter().map(|tried| tried.level).collect()
    }

    fn between(held: Option<u64>, missed: Option<u64>) -> Bracket {
        Bracket {
            held,
            missed,
            unjudged: None,
        }
    }

    #[test]
    fn it_doubles_then_bisects_then_confirms() {
        let (history, bracket) = play(&search(5000, 100_000, 5.0, 2), |level| level <= 17_000);
        assert_eq!(
            levels(&history),
            [
                5000, 10_000, 20_000, 15_000, 17_500, 16_250, 16_875, 16_875, 16_875
            ]
        );
        assert_eq!(bracket, between(Some(16_875), Some(17_500)));
    }

    #[test]
    fn the_most_that_was_asked_for_is_confirmed_too() {
        let (history, bracket) = play(&search(5, 12, 5.0, 1), |_| true);
        assert_eq!(levels(&history), [5, 10, 12, 12]);
        assert_eq!(bracket, between(Some(12), None));
    }

    #[test]
    fn a_first_load_that_is_too_much_is_halved() {
        let (_, bracket) = play(&search(1000, 2000, 10.0, 0), |level| level <= 100);
        assert_eq!(bracket, between(Some(93), Some(101)));
        let (_, nothing) = play(&search(1000, 2000, 10.0, 0), |_| false);
        assert_eq!(nothing, between(None, Some(1)));
    }

    #[test]
    fn a_confirmation_that_fails_goes_down_one_step_and_confirms_there() {
        let mut at_100 = 0;
        let (history, bracket) = play(&search(100, 200, 5.0, 2), |level| {
            at_100 += u32::from(level == 100);
            level < 100 || (level == 100 && at_100 == 1)
        });
        let down: Vec<&Trial> = history.iter().filter(|tried| tried.level < 100).collect();
        assert_eq!((down.len(), down[0].level), (3, 95), "{history:?}");
        assert_eq!(bracket, between(Some(95), Some(100)));
    }

    #[test]
    fn a_load_that_was_not_judged_is_tried_again() {
        let mut tries = BTreeMap::new();
        let (history, bracket) = play(&search(100, 800, 10.0, 1), |level| {
            let before = tries.entry(level).or_insert(0);
            *before += 1;
            match *before {
                1..TRIES => TrialOutcome::Inconclusive,
                _ => TrialOutcome::from(level <= 330),
            }
        });
        let mut seen = levels(&history);
        seen.dedup();
        assert_eq!(seen, [100, 200, 400, 300, 350, 325]);
        assert_eq!(bracket, between(Some(325), Some(350)));
    }

    #[test]
    fn a_load_that_is_never_judged_bounds_the_search_and_what_held_below_it_is_confirmed() {
        let too_much = |limit: u64| {
            move |level| {
                if level > limit {
                    TrialOutcome::Inconclusive
                } else {
                    TrialOutcome::Held
                }
            }
        };
        let search = search(100, 800, 10.0, 1);
        let (history, bracket) = play(&search, too_much(300));
        assert_eq!(levels(&history), [100, 200, 400, 400, 400, 200]);
        let unjudged = |held, missed, level| Bracket {
            unjudged: Some(level),
            ..between(held, missed)
        };
        assert_eq!(bracket, unjudged(Some(200), None, 400));
        let (history, bracket) = play(&search, too_much(0));
        assert_eq!(levels(&history), [100; 3]);
        assert_eq!(bracket, unjudged(None, None, 100));
        // Within a bracket: the missed load above it stays an answer.
        let (history, bracket) = play(&search, |level| match level {
            301..400 => TrialOutcome::Inconclusive,
            _ => TrialOutcome::from(level < 400),
        });
        assert_eq!(levels(&history), [100, 200, 400, 300, 350, 350, 350, 300]);
        assert_eq!(bracket, unjudged(Some(300), Some(400), 350));
    }

    proptest! {
        #[test]
        fn the_bracket_holds_every_capacity_and_is_narrow(
            from in 1_u64..20_000, more in 0_u64..200_000, capacity in 0_u64..250_000, within in 1.0_f64..50.0, confirm in 0_u32..4
        ) {
            let search = search(from, from + more, within, confirm);
            let (history, bracket) = play(&search, |level| level <= capacity);
            let held = bracket.held.unwrap_or(0);
            prop_assert!(held <= capacity);
            if held > 0 {
                let at = history.iter().filter(|tried| tried.level == held).count();
                prop_assert_eq!(at as u32, confirm + 1);
            }
            match bracket.missed {
                None => prop_assert_eq!(held, search.most),
                Some(missed) => {
                    prop_assert!(missed > capacity);
                    prop_assert!(missed - held <= 1 || (missed - held) as f64 <= held as f64 * within / 100.0);
                }
            }
        }

        #[test]
        fn runs_that_come_out_by_chance_end_the_search_too(
            from in 1_u64..5_000, more in 0_u64..50_000, throws in prop::collection::vec(0..5, 1..64)
        ) {
            let search = search(from, from + more, 5.0, 2);
            let mut thrown = throws.iter().cycle();
            let (history, bracket) = play(&search, |_| match thrown.next().unwrap() {
                0 => TrialOutcome::Inconclusive,
                1 | 2 => TrialOutcome::Missed,
                _ => TrialOutcome::Held,
            });
            let count = |level: u64, outcome: TrialOutcome| {
                let of = history.iter().filter(|tried| **tried == Trial { level, outcome });
                of.count() as u32
            };
            if let Some(held) = bracket.held {
                prop_assert_eq!((count(held, TrialOutcome::Held), count(held, TrialOutcome::Missed)), (3, 0));
                prop_assert!(count(held, TrialOutcome::Inconclusive) < TRIES);
                prop_assert!(bracket.missed.is_none_or(|missed| missed > held));
                prop_assert!(bracket.unjudged.is_none_or(|unjudged| unjudged > held));
            }
            if let Some(unjudged) = bracket.unjudged {
                prop_assert_eq!((count(unjudged, TrialOutcome::Inconclusive), count(unjudged, TrialOutcome::Missed)), (TRIES, 0));
                prop_assert!(bracket.missed.is_none_or(|missed| missed > unjudged));
            }
            for cut in 0..history.len() {
                prop_assert_eq!(next(&search, &history[..cut]), Next::Try(history[cut].level));
            }
        }
    }
}
