//! Orders the runs of a suite: daemons × levels × repetitions.

use crate::record::RunId;
use crate::resolve::{Level, SuiteSpec};

/// A run of a suite that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedRun {
    pub(crate) id: RunId,
    /// The fields that its level changes in the plan: `path=value`.
    pub(crate) set: Vec<String>,
}

impl PlannedRun {
    pub(crate) fn new(daemon: &str, level: Level, run: u32) -> Self {
        Self {
            id: RunId {
                daemon: daemon.to_owned(),
                level: level.name,
                run,
            },
            set: level.set,
        }
    }
}

/// Returns all runs in order. Repetitions are outermost. Within a repetition come the levels from the first to the
/// last, and at each level the daemons run one after the other, so that slow changes of the machine affect all of
/// them. The first daemon rotates from step to step, and the direction alternates, within a level as well as from
/// level to level. With three or more daemons, none always follows the same other one.
pub(crate) fn planned_runs(suite: &SuiteSpec) -> Vec<PlannedRun> {
    let mut planned = Vec::new();
    let count = suite.daemons.len();
    let mut begins = (suite.seed % count.max(1) as u64) as usize;
    for run in 1..=suite.repeat {
        for (step, level) in (u64::from(run - 1)..).zip(&suite.levels) {
            let onward = |offset: usize| match step % 2 {
                0 => begins + offset,
                _ => begins + count - offset,
            };
            let order = (0..count).map(|offset| &suite.daemons[onward(offset) % count]);
            planned.extend(order.map(|daemon| PlannedRun::new(daemon, level.clone(), run)));
            begins = (begins + 1) % count.max(1);
        }
        // If the number of levels is a multiple of the number of daemons, each repetition would otherwise equal the
        // first.
        if count > 0 && suite.levels.len().is_multiple_of(count) {
            begins = (begins + 1) % count;
        }
    }
    planned
}

#[cfg(test)]
mod tests {
    use measure::isolation::Isolation;

    use super::*;

    fn order(daemons: &[&str], levels: &[&str], repeat: u32, seed: u64) -> Vec<String> {
        let level = |name: &&str| Level {
            name: (*name).to_owned(),
            set: Vec::new(),
        };
        let suite = SuiteSpec {
            name: "x".to_owned(),
            protocol: "p".to_owned(),
            plan: String::new(),
            set: Vec::new(),
            daemons: daemons.iter().map(|name| (*name).to_owned()).collect(),
            levels: levels.iter().map(level).collect(),
            against: None,
            capacity: None,
            repeat,
            seed,
            placement: None,
            isolation: Isolation::default(),
            flamegraph: None,
        };
        planned_runs(&suite)
            .iter()
            .map(|PlannedRun { id, .. }| format!("{}{}{}", id.daemon, id.level, id.run))
            .collect()
    }

    #[test]
    fn daemons_take_turns_at_each_level_and_repetitions_are_outermost() {
        assert_eq!(
            order(&["a", "b", "c"], &["1", "2"], 2, 0),
            [
                "a11", "b11", "c11", "b21", "a21", "c21", "c12", "b12", "a12", "a22", "b22", "c22"
            ]
        );
    }

    #[test]
    fn the_seed_says_which_daemon_begins() {
        assert_eq!(order(&["a", "b"], &["1"], 1, 1), ["b11", "a11"]);
        assert_eq!(order(&["a", "b"], &["1"], 1, u64::MAX), ["b11", "a11"]);
    }

    #[test]
    fn no_daemon_always_comes_after_the_same_one() {
        for levels in [&["1"][..], &["1", "2"], &["1", "2", "3"]] {
            let runs = order(&["a", "b", "c"], levels, 2, 0);
            for level in levels {
                let at_level: Vec<&String> =
                    runs.iter().filter(|run| run[1..2] == **level).collect();
                let after_a = at_level
                    .windows(2)
                    .filter(|pair| pair[0].starts_with('a') && pair[0][2..] == pair[1][2..]);
                let after_a: Vec<&str> = after_a.map(|pair| &pair[1][..1]).collect();
                assert!(after_a != ["b", "b"] && after_a != ["c", "c"], "{runs:?}");
            }
        }
    }

    #[test]
    fn every_daemon_begins_equally_often_at_every_level() {
        for levels in [
            &["1"][..],
            &["1", "2"],
            &["1", "2", "3"],
            &["1", "2", "3", "4"],
        ] {
            let runs = order(&["a", "b"], levels, 2, 0);
            assert_eq!(runs.len(), 4 * levels.len());
            let firsts: Vec<&String> = runs.iter().step_by(2).collect();
            for (first, again) in firsts.iter().zip(&firsts[levels.len()..]) {
                assert_ne!(first[..1], again[..1], "{runs:?}");
            }
        }
    }
}
