//! The search for a capacity: which load to try next, as a function of what has been tried.
//!
//! The load is doubled until one is missed, the gap is bisected, and what was found is confirmed. When a confirmation is
//! missed, the answer is unsure there: the search goes down by the width that was asked for, and confirms again.

use std::collections::BTreeMap;

use harness::plan::Capacity;

/// One run at one load, and whether everything that was asked of it held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tried {
    pub(crate) level: u64,
    pub(crate) held: bool,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Run this load.
    Try(u64),
    /// Nothing: this is the answer.
    Found(Bracket),
}

/// The answer lies between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bracket {
    /// The highest load that held and was confirmed; absent where not even a load of 1 did.
    pub(crate) held: Option<u64>,
    /// The lowest load that was missed; absent where the most that was asked for held.
    pub(crate) missed: Option<u64>,
}

/// Decides from the history alone, so that a search which was cut short goes on where it was.
pub(crate) fn next(search: &Capacity, history: &[Tried]) -> Next {
    let levels = Levels::of(history);
    let Some(missed) = levels.lowest_missed() else {
        return levels.upwards(search);
    };
    let held = levels.highest_held_below(missed);
    if levels.is_unsure() {
        let step = (missed as f64 / (1.0 + search.within_pct / 100.0)) as u64;
        let lower = step.min(missed - 1).max(held.unwrap_or(0));
        return levels.confirm(search, lower, Some(missed));
    }
    let low = held.unwrap_or(0);
    let gap = missed - low;
    let narrow = gap as f64 <= low as f64 * search.within_pct / 100.0;
    if gap <= 1 || narrow {
        return levels.confirm(search, low, Some(missed));
    }
    Next::Try(low + gap / 2)
}

/// How often each load held and was missed.
#[derive(Debug, Default)]
struct Levels {
    runs: BTreeMap<u64, (u32, u32)>,
}

impl Levels {
    fn of(history: &[Tried]) -> Self {
        let mut levels = Self::default();
        for tried in history {
            let (held, missed) = levels.runs.entry(tried.level).or_default();
            *if tried.held { held } else { missed } += 1;
        }
        levels
    }

    fn lowest_missed(&self) -> Option<u64> {
        let missed = |(level, (_, missed)): (&u64, &(u32, u32))| (*missed > 0).then_some(*level);
        self.runs.iter().find_map(missed)
    }

    fn highest_held_below(&self, limit: u64) -> Option<u64> {
        self.runs
            .range(..limit)
            .next_back()
            .map(|(level, _)| *level)
    }

    /// Whether the same load held once and was missed once.
    fn is_unsure(&self) -> bool {
        self.runs
            .values()
            .any(|(held, missed)| *held > 0 && *missed > 0)
    }

    /// Nothing was missed yet.
    fn upwards(&self, search: &Capacity) -> Next {
        match self.runs.keys().next_back() {
            None => Next::Try(search.from),
            Some(&highest) if highest >= search.most => self.confirm(search, highest, None),
            Some(&highest) => Next::Try(highest.saturating_mul(2).min(search.most)),
        }
    }

    /// A load is the answer once it held in the run that found it and in those that confirm it.
    fn confirm(&self, search: &Capacity, level: u64, missed: Option<u64>) -> Next {
        let held = self.runs.get(&level).map_or(0, |(held, _)| *held);
        if level == 0 {
            Next::Found(Bracket { held: None, missed })
        } else if held > search.confirm {
            Next::Found(Bracket {
                held: Some(level),
                missed,
            })
        } else {
            Next::Try(level)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn search(from: u64, most: u64, within_pct: f64, confirm: u32) -> Capacity {
        Capacity {
            set: "groups.0.workers".to_owned(),
            from,
            most,
            within_pct,
            confirm,
        }
    }

    /// Searches to the end; returns every load that was tried, and the answer.
    fn play(search: &Capacity, mut holds: impl FnMut(u64) -> bool) -> (Vec<Tried>, Bracket) {
        let mut history = Vec::new();
        loop {
            match next(search, &history) {
                Next::Try(level) => history.push(Tried {
                    level,
                    held: holds(level),
                }),
                Next::Found(bracket) => return (history, bracket),
            }
            assert!(history.len() < 100_000, "the search does not end");
        }
    }

    #[test]
    fn it_doubles_then_bisects_then_confirms() {
        let (history, bracket) = play(&search(5000, 100_000, 5.0, 2), |level| level <= 17_000);
        let levels: Vec<u64> = history.iter().map(|tried| tried.level).collect();
        assert_eq!(
            levels,
            [
                5000, 10_000, 20_000, 15_000, 17_500, 16_250, 16_875, 16_875, 16_875
            ]
        );
        assert_eq!(
            bracket,
            Bracket {
                held: Some(16_875),
                missed: Some(17_500)
            }
        );
    }

    #[test]
    fn the_most_that_was_asked_for_is_confirmed_too() {
        let (history, bracket) = play(&search(5, 12, 5.0, 1), |_| true);
        let levels: Vec<u64> = history.iter().map(|tried| tried.level).collect();
        assert_eq!(levels, [5, 10, 12, 12]);
        assert_eq!(
            bracket,
            Bracket {
                held: Some(12),
                missed: None
            }
        );
    }

    #[test]
    fn a_first_load_that_is_too_much_is_halved() {
        let (_, bracket) = play(&search(1000, 2000, 10.0, 0), |level| level <= 100);
        assert_eq!(
            bracket,
            Bracket {
                held: Some(93),
                missed: Some(101)
            }
        );
        let (_, nothing) = play(&search(1000, 2000, 10.0, 0), |_| false);
        assert_eq!(
            nothing,
            Bracket {
                held: None,
                missed: Some(1)
            }
        );
    }

    #[test]
    fn a_confirmation_that_fails_goes_down_one_step_and_confirms_there() {
        let mut at_100 = 0;
        let (history, bracket) = play(&search(100, 200, 5.0, 2), |level| {
            at_100 += u32::from(level == 100);
            level < 100 || (level == 100 && at_100 == 1)
        });
        let down: Vec<&Tried> = history.iter().filter(|tried| tried.level < 100).collect();
        assert_eq!((down.len(), down[0].level), (3, 95), "{history:?}");
        assert_eq!(
            bracket,
            Bracket {
                held: Some(95),
                missed: Some(100)
            }
        );
    }

    proptest! {
        #[test]
        fn whatever_the_capacity_is_the_bracket_holds_it_and_is_narrow(
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
        fn a_daemon_that_holds_by_chance_ends_the_search_too(
            from in 1_u64..5_000, more in 0_u64..50_000, coins in prop::collection::vec(any::<bool>(), 1..64)
        ) {
            let search = search(from, from + more, 5.0, 2);
            let mut thrown = coins.iter().cycle();
            let (history, bracket) = play(&search, |_| *thrown.next().unwrap());
            if let Some(held) = bracket.held {
                let at: Vec<&Tried> = history.iter().filter(|tried| tried.level == held).collect();
                prop_assert!(at.len() == 3 && at.iter().all(|tried| tried.held), "{at:?}");
                prop_assert!(bracket.missed.is_none_or(|missed| missed > held));
            }
            for cut in 0..history.len() {
                prop_assert_eq!(next(&search, &history[..cut]), Next::Try(history[cut].level));
            }
        }
    }
}
