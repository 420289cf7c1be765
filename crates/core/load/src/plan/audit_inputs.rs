//! Expectations derived from a plan, checked by the audit.

use std::time::Duration;

use measure::result::{AuditInputs, PlannedPhases, RateStep, StagedGroup};

use super::{Group, Plan, PlannedStage};
use crate::schedule::Schedule;

/// Fewest steps of a rate that make a curve.
const FEWEST_STEPS: usize = 3;

impl<D> Plan<D> {
    /// Returns the seconds of load and its stages, and the number of users if each group is a closed loop. The driver
    /// names the series.
    #[must_use]
    pub fn audit_inputs(&self) -> AuditInputs {
        let ends_itself = self.groups.iter().any(|group| group.ops.is_some());
        let planned = self.planned();
        let tails = self.groups.iter().map(|group| group.idle_tail_s(planned));
        AuditInputs {
            users: self.users(),
            load_s: (!ends_itself).then(|| self.load_s()),
            idle_tail_s: tails.reduce(f64::min).unwrap_or(0.0),
            steady_from_s: self.steady_from_s(),
            steady_to_s: self
                .groups
                .iter()
                .filter_map(Group::last_due_s)
                .reduce(f64::min),
            staged: self
                .groups
                .iter()
                .filter_map(|group| group.staged_group(planned))
                .collect(),
            steps: self.rate_steps(),
            ..AuditInputs::default()
        }
    }

    /// Returns the measured steps of the only group's rate while it rises, or none if there are too few for a curve.
    fn rate_steps(&self) -> Vec<RateStep> {
        let group = match self.groups.as_slice() {
            [group] if group.is_open_loop() => group,
            _ => return Vec::new(),
        };
        let mut steps: Vec<RateStep> = Vec::new();
        let (mut begin, warmup) = (0.0, self.timeline.warmup.as_secs_f64());
        for stage in group.rate_stages(self.planned()) {
            let end = begin + stage.over.as_secs_f64();
            let (from_s, highest) = (
                f64::max(begin, warmup),
                steps.last().map_or(0.0, |last| last.per_s),
            );
            if stage.to < highest {
                break;
            }
            if stage.from == stage.to && end > from_s {
                match steps.last_mut() {
                    Some(last) if last.per_s == stage.to => last.to_s = end,
                    _ if stage.to > 0.0 => steps.push(RateStep {
                        from_s,
                        to_s: end,
                        per_s: stage.to,
                        dispersion: group.arrival.dispersion(),
                    }),
                    _ => {}
                }
            }
            begin = end;
        }
        if steps.len() < FEWEST_STEPS {
            steps.clear();
        }
        steps
    }

    /// Returns the seconds until all ramps are over, or `None` if a group has stages, or clients that end by themselves.
    fn steady_from_s(&self) -> Option<f64> {
        let changes = |group: &Group| {
            !group.stages.is_empty() || (group.ops.is_some() && group.last_due_s().is_none())
        };
        let ramps = self.groups.iter().map(|group| group.ramp.as_secs_f64());
        (!self.groups.iter().any(changes)).then(|| ramps.fold(0.0, f64::max))
    }

    /// Returns the planned phases in seconds, as a result stores them.
    #[must_use]
    pub fn phases(&self) -> PlannedPhases {
        PlannedPhases {
            warmup_s: self.timeline.warmup.as_secs_f64(),
            measure_s: self.timeline.measure.as_secs_f64(),
            drain_s: self.timeline.drain.as_secs_f64(),
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
            goes_on.then(|| {
                if group.stages.is_empty() {
                    group.clients as f64 * group.begun_share(from, to)
                } else {
                    group.staged_users(from, to)
                }
            })
        };
        self.groups.iter().map(of).sum()
    }

    /// Returns warm-up and measure together, or the longest stages if all groups have stages and end earlier.
    fn load_s(&self) -> f64 {
        let stages = |group: &Group| (!group.stages.is_empty()).then(|| group.stages_s());
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

    /// Returns the seconds until the last operation of a group with a rate is due, if its number is limited.
    fn last_due_s(&self) -> Option<f64> {
        Some(self.ops? as f64 / self.rate?)
    }

    /// Returns the seconds of all stages together.
    fn stages_s(&self) -> f64 {
        let each = self.stages.iter().map(|stage| stage.over.as_secs_f64());
        each.sum()
    }

    /// Returns its stages for the audit, unless it has none or ends after a number of operations.
    fn staged_group(&self, planned: Duration) -> Option<StagedGroup> {
        (!self.stages.is_empty() && self.ops.is_none()).then(|| StagedGroup {
            group: self.name.clone(),
            planned_s: self.stages_s(),
            idle_tail_s: self.idle_tail_s(planned),
        })
    }

    /// Returns the seconds at the end of the load, or of its stages, in which perhaps no operation is due. At a rate, it
    /// is the time after the last operation. A user leaves when the curve falls below the user's number, the last one
    /// below 1.
    #[must_use]
    pub fn idle_tail_s(&self, planned: Duration) -> f64 {
        if !self.is_closed() {
            let stages = self.rate_stages(planned);
            return Schedule::idle_tail(&stages, self.arrival).as_secs_f64();
        }
        let mut tail_s = 0.0;
        for (index, stage) in self.stages.iter().enumerate().rev() {
            let users = |stage: &PlannedStage| stage.users().unwrap_or(0) as f64;
            if users(stage) > 0.0 {
                break;
            }
            let before = index.checked_sub(1).map(|before| &self.stages[before]);
            let (over_s, from) = (stage.over.as_secs_f64(), before.map_or(0.0, users));
            if from > 0.0 {
                return tail_s + (over_s / from).min(over_s);
            }
            tail_s += over_s;
        }
        tail_s
    }

    /// Returns the share of its clients that has begun, on average from `from` to `to` (seconds).
    fn begun_share(&self, from: f64, to: f64) -> f64 {
        let ramp = self.ramp.as_secs_f64();
        // The integral of the begun share: a rising line up to the end of the ramp, and 1 from then on.
        let up_to = |at: f64| {
            if at < ramp {
                at * at / (2.0 * ramp)
            } else {
                at - ramp / 2.0
            }
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
    use super::super::Timeline;
    use super::*;
    use crate::schedule::Arrival;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn group(workers: u64, ramp: u64) -> Group {
        Group {
            ramp: s(ramp),
            ..Group::new("group", workers)
        }
    }

    fn inputs(groups: &[Group]) -> AuditInputs {
        let timeline = Timeline {
            warmup: s(2),
            measure: s(8),
            drain: s(5),
        };
        Plan::new("inputs", timeline, groups.to_vec(), ()).audit_inputs()
    }

    #[test]
    fn users_are_those_that_have_begun_on_average_over_the_measured_time() {
        assert_eq!(inputs(&[group(100, 0)]).users, Some(100.0));
        assert_eq!(inputs(&[group(100, 2), group(10, 0)]).users, Some(110.0));
        // From 20 at 2 s to all at 10 s.
        assert_eq!(inputs(&[group(100, 10)]).users, Some(60.0));
        // Half of the time at 60 on average, half at all.
        let rising = inputs(&[group(100, 6)]).users.unwrap();
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
        let users = inputs(&[staged]).users.unwrap();
        assert!((users - (150.0 + 300.0) / 8.0).abs() < 1e-9, "{users}");
    }

    #[test]
    fn a_rate_or_an_end_of_their_own_leaves_no_number_of_users() {
        let paced = Group {
            clients: 0,
            rate: Some(5.0),
            ..group(0, 0)
        };
        let limited = Group {
            ops: Some(3),
            ..group(5, 0)
        };
        assert_eq!(inputs(&[group(100, 0), paced.clone()]).users, None);
        let limited = inputs(&[limited]);
        assert_eq!((limited.users, limited.load_s), (None, None));
        assert_eq!(inputs(&[paced]).load_s, Some(10.0));
    }

    #[test]
    fn the_load_is_steady_until_its_operations_at_a_rate_have_begun() {
        let paced = Group {
            rate: Some(5.0),
            ops: Some(30),
            ..group(0, 1)
        };
        let steady = |group| {
            let inputs = inputs(&[group]);
            (inputs.steady_from_s, inputs.steady_to_s)
        };
        assert_eq!(steady(paced.clone()), (Some(1.0), Some(6.0)));
        assert_eq!(steady(Group { ops: None, ..paced }), (Some(1.0), None));
        let leaving = Group {
            ops: Some(3),
            ..group(5, 0)
        };
        assert_eq!(steady(leaving), (None, None));
    }

    /// The last of five users leaves when the curve falls below one, so nobody is left before the end. A rate that falls
    /// to 0 has its last operation some time before the end.
    #[test]
    fn the_end_of_a_ramp_down_is_idle() {
        let tail = |stages: &[PlannedStage]| {
            let staged = Group {
                stages: stages.to_vec(),
                ..group(0, 0)
            };
            let inputs = inputs(&[staged]);
            assert_eq!(inputs.staged[0].planned_s, 4.0);
            assert_eq!(inputs.staged[0].idle_tail_s, inputs.idle_tail_s);
            inputs.idle_tail_s
        };
        let (users, rate) = (PlannedStage::to_users, PlannedStage::to_rate);
        assert_eq!(tail(&[users(5, s(2)), users(0, s(2))]), 0.4);
        assert_eq!(tail(&[users(1, s(0)), users(0, s(1)), users(0, s(3))]), 4.0);
        assert_eq!(tail(&[rate(4.0, s(2)), rate(0.0, s(2))]), 1.0);
        assert_eq!(tail(&[rate(4.0, s(3)), rate(4.0, s(1))]), 0.25);
        let (at_once, ends) = (rate(4.0, s(0)), rate(0.0, s(0)));
        assert_eq!(
            tail(&[at_once, rate(4.0, s(3)), ends, rate(0.0, s(1))]),
            1.25
        );
        assert_eq!(tail(&[users(5, s(2)), users(1, s(2))]), 0.0);
        assert_eq!(inputs(&[group(5, 0)]).idle_tail_s, 0.0);
    }

    /// Rates of a plan of 10 s.
    #[test]
    fn a_rate_is_idle_after_its_last_operation() {
        let tail = |rate: f64, arrival: Arrival, ramp: u64| {
            let paced = Group {
                rate: Some(rate),
                arrival,
                ..group(0, ramp)
            };
            inputs(&[paced]).idle_tail_s
        };
        assert_eq!(tail(1.0, Arrival::Constant, 0), 1.0);
        assert_eq!(tail(4.0, Arrival::Constant, 9), 0.25);
        assert_eq!(tail(0.1, Arrival::Constant, 0), 10.0);
        assert_eq!(tail(5.0, Arrival::Poisson, 0), 2.0);
        // Fewer than ten in all.
        assert_eq!(tail(0.9, Arrival::Poisson, 0), 10.0);
    }

    #[test]
    fn stages_that_end_before_end_the_load() {
        let staged = |over: u64| Group {
            stages: vec![PlannedStage::to_rate(5.0, s(over))],
            ..group(0, 0)
        };
        assert_eq!(inputs(&[staged(4), staged(6)]).load_s, Some(6.0));
        assert_eq!(inputs(&[staged(40)]).load_s, Some(10.0));
        assert_eq!(inputs(&[staged(4), group(1, 0)]).load_s, Some(10.0));
    }

    /// Plans of a warm-up of 2 s, and 8 s that are measured.
    #[test]
    fn steps_of_a_rate_are_the_times_in_which_it_stays_the_same_while_it_rises() {
        let steps = |rates: &[(f64, u64)]| -> Vec<(f64, f64, f64)> {
            let stages = rates.iter();
            let stages = stages.map(|(rate, over)| PlannedStage::to_rate(*rate, s(*over)));
            let staged = Group {
                stages: stages.collect(),
                ..group(0, 0)
            };
            let steps = inputs(&[staged]).steps.into_iter();
            steps
                .map(|step| (step.from_s, step.to_s, step.per_s))
                .collect()
        };
        let (first, second, third) = ((10.0, 0), (20.0, 0), (30.0, 0));
        let at = |(rate, _): (f64, u64), over| (rate, over);
        let all = [
            first,
            at(first, 4),
            second,
            at(second, 3),
            third,
            at(third, 3),
        ];
        assert_eq!(
            steps(&all),
            [(2.0, 4.0, 10.0), (4.0, 7.0, 20.0), (7.0, 10.0, 30.0)]
        );
        // A step that is over before the measured time leaves two; and so does a rate that falls.
        let early = [
            first,
            at(first, 2),
            second,
            at(second, 4),
            third,
            at(third, 4),
        ];
        assert_eq!(steps(&early), []);
        let fallen = [
            second,
            at(second, 4),
            third,
            at(third, 3),
            first,
            at(first, 3),
        ];
        assert_eq!(steps(&fallen), []);
        // Two stages of one rate are one step, and the rise between two steps is none.
        let gentle = [
            at(first, 1),
            at(first, 2),
            at(first, 2),
            at(second, 1),
            at(second, 2),
            at(third, 1),
            at(third, 1),
        ];
        assert_eq!(
            steps(&gentle),
            [(2.0, 5.0, 10.0), (6.0, 8.0, 20.0), (9.0, 10.0, 30.0)]
        );
        assert_eq!(
            inputs(&[Group {
                rate: Some(5.0),
                ..group(0, 0)
            }])
            .steps,
            []
        );
    }
}
