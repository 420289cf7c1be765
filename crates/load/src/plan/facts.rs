//! Expectations derived from a plan, checked by the audit.

use measure::audit::Facts;

use super::{Group, Plan};

impl<D> Plan<D> {
    /// Returns the seconds of load, and the number of users if each group is a closed loop. The driver names the
    /// series.
    #[must_use]
    pub fn facts(&self) -> Facts {
        let ends_itself = self.groups.iter().any(|group| group.ops.is_some());
        Facts {
            users: self.users(),
            load_s: (!ends_itself).then(|| self.load_s()),
            drain_s: Some(self.timeline.drain.as_secs_f64()),
            ..Facts::default()
        }
    }

    /// Returns true if operations have a due time, before which they do not begin.
    #[must_use]
    pub fn is_paced(&self) -> bool {
        self.groups
            .iter()
            .any(|group| !group.is_closed() || group.ops == Some(1))
    }

    /// Returns true if a schedule alone determines when operations begin. No group may be a closed loop, whose
    /// operations wait for each other, and none may end after a number of operations, before the end of the measured
    /// time.
    #[must_use]
    pub fn is_open_loop(&self) -> bool {
        self.groups.iter().all(Group::is_open_loop)
    }

    /// Returns the average number of users over the measured time, counting only those that the ramp has begun.
    /// Returns `None` if some groups have a rate, or an end of their own.
    fn users(&self) -> Option<f64> {
        let from = self.timeline.warmup.as_secs_f64();
        let to = from + self.timeline.measure.as_secs_f64();
        let of = |group: &Group| {
            let goes_on = group.is_closed() && group.ops.is_none();
            goes_on.then(|| match group.stages.is_empty() {
                true => group.workers as f64 * group.begun_share(from, to),
                false => group.staged_users(from, to),
            })
        };
        self.groups.iter().map(of).sum()
    }

    /// Returns warm-up and measure together, or the longest stages if all groups have stages and end earlier.
    fn load_s(&self) -> f64 {
        let stages = |group: &Group| {
            let each = group.stages.iter().map(|stage| stage.over.as_secs_f64());
            (!group.stages.is_empty()).then(|| each.sum::<f64>())
        };
        let staged: Option<Vec<f64>> = self.groups.iter().map(stages).collect();
        let longest = staged.map_or(f64::INFINITY, |staged| {
            staged.into_iter().fold(0.0, f64::max)
        });
        self.planned().as_secs_f64().min(longest)
    }
}

impl Group {
    /// Returns true if a schedule determines when its operations begin, until the end of the plan.
    #[must_use]
    pub fn is_open_loop(&self) -> bool {
        !self.is_closed() && self.ops.is_none()
    }

    /// Returns the share of its clients that has begun, on average from `from` to `to` (seconds).
    fn begun_share(&self, from: f64, to: f64) -> f64 {
        let ramp = self.ramp.as_secs_f64();
        // The integral of the begun share: a rising line up to the end of the ramp, and 1 from then on.
        let up_to = |at: f64| match at < ramp {
            true => at * at / (2.0 * ramp),
            false => at - ramp / 2.0,
        };
        (up_to(to) - up_to(from)) / (to - from)
    }

    /// Returns the users of its stages, on average from `from` to `to` (seconds).
    fn staged_users(&self, from: f64, to: f64) -> f64 {
        let (mut begin, mut before, mut sum) = (0.0, 0.0, 0.0);
        for stage in &self.stages {
            let (over, after) = (stage.over.as_secs_f64(), stage.users().unwrap_or(0) as f64);
            let end = begin + over;
            let (first, last) = (f64::max(begin, from), f64::min(end, to));
            if first < last {
                // The mean of a line is its value in the middle.
                let middle = ((first + last) / 2.0 - begin) / over;
                sum += (before + (after - before) * middle) * (last - first);
            }
            (begin, before) = (end, after);
        }
        sum / (to - from)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{PlannedStage, Timeline};
    use super::*;
    use crate::schedule::Arrival;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn group(workers: u64, ramp: u64) -> Group {
        Group {
            name: "group".to_owned(),
            workers,
            ramp: s(ramp),
            rate: None,
            arrival: Arrival::Constant,
            stages: Vec::new(),
            ops: None,
        }
    }

    fn facts(groups: &[Group]) -> Facts {
        let timeline = Timeline {
            warmup: s(2),
            measure: s(8),
            drain: s(5),
        };
        Plan::new("facts", timeline, groups.to_vec(), ()).facts()
    }

    #[test]
    fn users_are_those_that_have_begun_on_average_over_the_measured_time() {
        assert_eq!(facts(&[group(100, 0)]).users, Some(100.0));
        assert_eq!(facts(&[group(100, 2), group(10, 0)]).users, Some(110.0));
        // From 20 at 2 s to all at 10 s.
        assert_eq!(facts(&[group(100, 10)]).users, Some(60.0));
        // Half of the time at 60 on average, half at all.
        let rising = facts(&[group(100, 6)]).users.unwrap();
        assert!(
            (rising - (4.0 * 400.0 / 6.0 + 400.0) / 8.0).abs() < 1e-9,
            "{rising}"
        );
    }

    #[test]
    fn users_of_stages_are_the_mean_of_their_curve() {
        let staged = Group {
            stages: vec![
                PlannedStage::to_users(100, s(4)),
                PlannedStage::to_users(0, s(6)),
            ],
            ..group(0, 0)
        };
        // From 2 s on: 50 to 100 within 2 s, then 100 to 0 within 6.
        let users = facts(&[staged]).users.unwrap();
        assert!((users - (150.0 + 300.0) / 8.0).abs() < 1e-9, "{users}");
    }

    #[test]
    fn a_rate_or_an_end_of_their_own_leaves_no_number_of_users() {
        let paced = Group {
            workers: 0,
            rate: Some(5.0),
            ..group(0, 0)
        };
        let limited = Group {
            ops: Some(3),
            ..group(5, 0)
        };
        assert_eq!(facts(&[group(100, 0), paced.clone()]).users, None);
        let limited = facts(&[limited]);
        assert_eq!((limited.users, limited.load_s), (None, None));
        assert_eq!(facts(&[paced]).load_s, Some(10.0));
    }

    #[test]
    fn stages_that_end_before_end_the_load() {
        let staged = |over: u64| Group {
            stages: vec![PlannedStage::to_rate(5.0, s(over))],
            ..group(0, 0)
        };
        assert_eq!(facts(&[staged(4), staged(6)]).load_s, Some(6.0));
        assert_eq!(facts(&[staged(40)]).load_s, Some(10.0));
        assert_eq!(facts(&[staged(4), group(1, 0)]).load_s, Some(10.0));
    }
}
