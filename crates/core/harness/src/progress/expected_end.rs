//! Estimates the end of a run from its plan and the durations of operations so far.

use std::time::Duration;

use load::driver::Phases;
use load::plan::{Group, Plan};

use crate::live::{End, Phase};

/// The durations of the operations that have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Durations {
    pub(super) median: Duration,
    /// Duration of the slowest hundredth, which ends a run.
    pub(super) p99: Duration,
}

/// The expected end of a run.
#[derive(Debug)]
pub(super) struct ExpectedEnd {
    groups: Vec<Group>,
    planned: Duration,
    drain: Duration,
    /// Time at which an interrupted run ends at the latest.
    interrupted: Option<u64>,
}

impl ExpectedEnd {
    pub(super) fn new<D>(plan: &Plan<D>) -> Self {
        Self {
            groups: plan.groups.clone(),
            planned: plan.planned(),
            drain: plan.timeline.drain,
            interrupted: None,
        }
    }

    /// Notes that open operations end until the second `latest`, since the run was interrupted.
    pub(super) fn interrupt(&mut self, latest: u64) {
        self.interrupted = Some(latest);
    }

    /// Returns the latest end of a run whose load begins at `begin` after its first second.
    pub(super) fn latest(&self, begin: Duration) -> u64 {
        let planned = rounded_up(begin + self.planned + self.drain);
        self.interrupted
            .map_or(planned, |latest| latest.min(planned))
    }

    /// Returns the end after `second` seconds. An end that has passed is known to be wrong; then only the latest is
    /// known.
    pub(super) fn end(&self, second: u64, begin: Duration, durations: Option<Durations>) -> End {
        let latest = self.latest(begin);
        let expected = self.expected(durations).map(|end| rounded_up(begin + end));
        match expected {
            _ if self.interrupted.is_some() => End::AtMost(latest.max(second)),
            Some(end) if end.max(1) >= second => End::About(end.clamp(1, latest.max(1))),
            _ => End::AtMost(latest.max(second)),
        }
    }

    /// Returns the expected time from the begin of the load to the end of its last operation. It is unknown if the
    /// plan ends with its operations and none has ended.
    fn expected(&self, durations: Option<Durations>) -> Option<Duration> {
        let Some(Durations { median, p99 }) = durations else {
            let lasts = self.groups.iter().any(|group| group.ops.is_none());
            return lasts.then_some(self.planned);
        };
        let last_starts = self.groups.iter();
        let last_start = last_starts
            .map(|group| group.expected_last_start(self.planned, median))
            .max();
        Some(last_start.unwrap_or_default() + p99)
    }
}

/// Returns the phase of a time since the first second.
pub(super) fn phase(phases: &Phases, at: u64) -> Phase {
    let at = phases.origin + at;
    match at {
        at if at < phases.begin => Phase::Opening,
        at if at < phases.measure => Phase::WarmUp,
        at if at < phases.end => Phase::Measure,
        _ => Phase::Drain,
    }
}

fn rounded_up(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use load::plan::Timeline;

    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn group(text: &str) -> Group {
        toml::from_str(&format!("name = 'g'\n{text}")).unwrap()
    }

    fn end(groups: &[&str]) -> ExpectedEnd {
        let timeline = Timeline::new(s(60), s(30));
        let groups = groups.iter().map(|text| group(text)).collect();
        ExpectedEnd::new(&Plan::new("p", timeline, groups, ()))
    }

    fn took(median_ms: u64, p99_ms: u64) -> Option<Durations> {
        let ms = Duration::from_millis;
        Some(Durations {
            median: ms(median_ms),
            p99: ms(p99_ms),
        })
    }

    #[test]
    fn clients_that_run_once_end_after_their_ramp_and_one_operation() {
        let once = end(&["clients = 100\nramp = '5s'\nops = 1"]);
        assert_eq!(once.end(0, s(0), None), End::AtMost(90));
        assert_eq!(once.end(2, s(0), took(900, 1_100)), End::About(7));
        assert_eq!(once.end(7, s(0), took(900, 1_100)), End::About(7));
        let late = once.end(8, s(0), took(900, 1_100));
        assert_eq!(late, End::AtMost(90), "the estimate was wrong");
    }

    #[test]
    fn a_load_without_a_number_of_operations_ends_with_its_plan() {
        for group in ["clients = 3", "rate = 10.0"] {
            let lasting = end(&[group]);
            assert_eq!(lasting.end(0, s(0), None), End::About(60));
            assert_eq!(lasting.end(9, s(0), took(1, 3)), End::About(61));
            assert_eq!(lasting.end(9, s(4), took(1, 3)), End::About(65), "opening");
        }
    }

    #[test]
    fn operations_one_after_the_other_take_as_long_as_those_so_far() {
        let ten = end(&["clients = 3\nops = 10"]);
        assert_eq!(ten.end(4, s(0), took(2_000, 3_000)), End::About(21));
        let slow = ten.end(4, s(0), took(20_000, 20_000));
        assert_eq!(slow, End::About(80), "nothing starts after the plan's end");
    }

    #[test]
    fn the_longest_group_decides() {
        let both = end(&[
            "clients = 3\nops = 1",
            "rate = 10.0\nops = 200\nramp = '2s'",
        ]);
        assert_eq!(both.end(4, s(0), took(100, 100)), End::About(22));
    }

    #[test]
    fn an_interrupted_run_ends_at_the_latest_when_its_grace_does() {
        let mut lasting = end(&["clients = 3"]);
        lasting.interrupt(15);
        assert_eq!(lasting.end(9, s(0), took(1, 3)), End::AtMost(15));
    }
}
