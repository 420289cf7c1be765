//! Operations that ended in the measured time, compared with the offered load.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::result::Operations;
use crate::spec::{CounterRole, Spec};
use crate::tally::{Measured, OK, OPERATIONS};
use crate::units;
use crate::warning::{Kind, Warning};

/// Share of the offered operations that must end in the measured time; a smaller share is an overload.
const MIN_ENDED_SHARE: f64 = 0.99;
/// Growth of the response time in seconds per second if 1 % of the load is not served. Long operations are also open at
/// the end of the measured time, but their times do not grow from start to start.
const MIN_GROWTH: f64 = 0.01;
/// Standard errors by which the growth must exceed 0, so that the scatter of few operations is not mistaken for growth.
const MIN_STANDARD_ERRORS: f64 = 3.0;

/// Share of the longest time of an operation from which on the mean response time shows a queue. Operations that would
/// have to wait longer end without a response, so times no longer grow.
const QUEUED_SHARE: f64 = 0.5;
/// Standard deviations of a Poisson count by which the operations that ended must exceed those offered, so that a few
/// that were open when the measured time began are not mistaken for a backlog.
const MIN_DEVIATIONS: f64 = 3.0;

/// Operations that ended in the measured time, whenever they started. It includes operations started in the warm-up and
/// excludes operations that ended in the drain phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Throughput {
    /// Seconds of the measured time: less than planned if the run ended early.
    pub measured_s: f64,
    /// Operations that were due in the measured time; absent in a closed loop, which decides when they start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<u64>,
    /// Operations that succeeded in the measured time.
    pub ok: u64,
    /// Operations that failed in the measured time.
    pub failed: u64,
    /// Further counters of the measured time, by name.
    pub counts: BTreeMap<String, u64>,
    /// Growth of response times in seconds per second of due time: the slope of the least-squares line. Absent if fewer
    /// than three operations had a response time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_growth: Option<f64>,
    /// Set if the daemon did not serve the offered load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overload: Option<Overload>,
}

/// A load that the daemon did not serve: operations were due faster than they ended or succeeded, and response times
/// grew, or were already so long that further operations timed out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overload {
    /// Operations due per second.
    pub asked_per_s: f64,
    /// Operations that succeeded per second.
    pub served_per_s: f64,
    /// Operations that failed per second.
    pub failed_per_s: f64,
    /// Growth of the backlog of due but not ended operations, per second.
    pub backlog_per_s: f64,
    /// The figures as a sentence.
    pub headline: String,
}

/// The load of the measured time, from the plan and from the outcomes of its operations.
#[derive(Debug, Clone, Copy, Default)]
pub struct Offer {
    /// Operations that were due; `None` in a closed loop, which decides when they start.
    pub due: Option<u64>,
    /// Operations of these that failed, whenever they ended.
    pub failed: u64,
    /// The longest time that one operation may take, seconds; 0 if it is not known.
    pub longest_s: f64,
}

impl Offer {
    /// Describes the load whose operations had these outcomes.
    pub fn new(is_open_loop: bool, operations: &Operations, longest: Duration) -> Self {
        Self {
            due: is_open_loop.then_some(operations.started + operations.missed),
            failed: operations.failed,
            longest_s: longest.as_secs_f64(),
        }
    }
}

impl Throughput {
    /// Summarizes `measured_s` seconds.
    pub fn new(measured: &Measured, measured_s: f64, offer: &Offer, spec: &Spec) -> Self {
        let mut counts = measured.counts.clone();
        let ok = counts.get(OK).copied().unwrap_or(0);
        let is_sum = |name: &str| {
            let counter = spec.counter(name);
            counter.is_none_or(|counter| counter.role != CounterRole::Held)
        };
        counts.retain(|name, _| !OPERATIONS.contains(&name.as_str()) && is_sum(name));
        let line = measured.responses.line();
        let grows = line.is_some_and(|line| {
            line.slope > MIN_GROWTH && line.slope > MIN_STANDARD_ERRORS * line.slope_error
        });
        let mut throughput = Self {
            measured_s,
            offered: offer.due,
            ok,
            failed: measured.failed,
            counts,
            response_growth: line.map(|line| line.slope),
            overload: None,
        };
        if let Some(due) = offer.due {
            let enough = MIN_ENDED_SHARE * due as f64;
            let is_short = ((ok + measured.failed) as f64) < enough;
            // Operations that time out end as well, at the rate at which they are due.
            let times_out = (ok as f64) < enough && offer.failed as f64 > due as f64 - enough;
            let is_queue = match measured.responses.mean() {
                Some(mean) => {
                    times_out && mean >= QUEUED_SHARE * offer.longest_s && offer.longest_s > 0.0
                }
                // The daemon served only operations of the warm-up. If all others ended, by timing out, these are more
                // than were in flight when the measured time began: a backlog, and not the end of a daemon.
                None => ok > 0 && (is_short || ok as f64 > due as f64 - enough),
            };
            if is_queue || (is_short && grows) {
                throughput.overload = throughput.overload(due);
            }
        }
        throughput
    }

    fn overload(&self, offered: u64) -> Option<Overload> {
        let ended = self.ok + self.failed;
        let mut overload = Overload {
            asked_per_s: self.per_second(offered)?,
            served_per_s: self.per_second(self.ok)?,
            failed_per_s: self.per_second(self.failed)?,
            backlog_per_s: self.per_second(offered.saturating_sub(ended))?,
            headline: String::new(),
        };
        overload.headline = overload.to_string();
        Some(overload)
    }

    /// Returns a number of the measured time as a rate per second, or `None` if no time was measured.
    pub fn per_second(&self, number: u64) -> Option<f64> {
        (self.measured_s > 0.0).then(|| number as f64 / self.measured_s)
    }

    /// Returns true if clearly more operations ended than were due, or if only operations of the warm-up succeeded. They
    /// are its backlog, so a rate of the measured time says nothing about the load that was asked for.
    pub fn includes_backlog(&self, operations: &Operations) -> bool {
        let has_more = self.offered.is_some_and(|offered| {
            let more = (self.ok + self.failed) as f64 - offered as f64;
            let share = (1.0 - MIN_ENDED_SHARE) * offered as f64;
            more > share.max(MIN_DEVIATIONS * (offered as f64).sqrt())
        });
        has_more || (operations.ok == 0 && self.ok > 0)
    }

    /// Returns a note if the rates include a backlog of the warm-up.
    pub fn backlog_note(&self, operations: &Operations) -> Option<Warning> {
        if !self.includes_backlog(operations) {
            return None;
        }
        let ended = units::per_second(self.per_second(self.ok + self.failed)?);
        let due = match (operations.ok, self.offered) {
            (1.., Some(offered)) => {
                let offered = units::per_second(self.per_second(offered)?);
                format!("{offered} were offered: the rates include the warm-up's backlog")
            }
            _ => "no operation that began in it succeeded: the rates are the warm-up's backlog"
                .to_owned(),
        };
        let message =
            format!("{ended} ended in the measured time, but {due}, and are not compared");
        let hint = "make the warm-up longer, so that its backlog ends before the measured time, and find out what slowed it down";
        Some(Kind::WarmupBacklog.note(message, hint))
    }

    /// Returns the counter `name` of the measured time.
    pub fn count(&self, name: impl AsRef<str>) -> u64 {
        match name.as_ref() {
            OK => self.ok,
            name => self.counts.get(name).copied().unwrap_or(0),
        }
    }
}

impl fmt::Display for Overload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [asked, served, failed, backlog] = [
            self.asked_per_s,
            self.served_per_s,
            self.failed_per_s,
            self.backlog_per_s,
        ]
        .map(units::per_second);
        write!(formatter, "overloaded: offered {asked}, served {served}")?;
        if self.failed_per_s > 0.0 {
            write!(formatter, ", {failed} failed")?;
        }
        if self.backlog_per_s > 0.0 {
            write!(formatter, ", backlog grew by {backlog}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::regression::RegressionSums;
    use crate::spec::CounterSpec;
    use crate::tally::{STARTED, add};

    use super::*;

    /// `ok` and `failed` operations that ended in three seconds, and response times that grow by `growth` for each second
    /// of due times, in turn higher and lower by `scatter`.
    fn measured(ok: u64, failed: u64, growth: f64, scatter: f64) -> Measured {
        let mut measured = Measured {
            failed,
            ..Measured::default()
        };
        add(&mut measured.counts, OK, ok);
        for step in 0..300 {
            let due = f64::from(step) / 100.0;
            let sign = if step % 2 == 0 { 1.0 } else { -1.0 };
            let response = 0.1 + growth * due + sign * scatter;
            measured.responses.add(due, response);
        }
        measured
    }

    fn headline(measured: &Measured, offered: Option<u64>) -> Option<String> {
        headline_of(
            measured,
            &Offer {
                due: offered,
                ..Offer::default()
            },
        )
    }

    fn headline_of(measured: &Measured, offer: &Offer) -> Option<String> {
        let throughput = Throughput::new(measured, 3.0, offer, &Spec::default());
        throughput.overload.map(|overload| overload.headline)
    }

    /// Response times that no longer grow, of `mean` seconds.
    fn saturated(ok: u64, failed: u64, mean: f64) -> Measured {
        let mut measured = measured(ok, failed, 0.0, 0.02);
        measured.responses = RegressionSums::default();
        (0..300).for_each(|step| measured.responses.add(f64::from(step) / 100.0, mean));
        measured
    }

    #[test]
    fn an_overload_whose_operations_time_out_is_an_overload() {
        let offer = |failed| Offer {
            due: Some(4_500),
            failed,
            longest_s: 2.0,
        };
        // 1,500/s against 500/s, once the queue is as long as the timeout: as many end as are due.
        assert_eq!(
            headline_of(&saturated(1_500, 3_000, 1.9), &offer(3_000)).as_deref(),
            Some("overloaded: offered 1,500/s, served 500/s, 1,000/s failed")
        );
        // No operation of the measured time was served in time, but older ones were.
        let none = Measured {
            responses: RegressionSums::default(),
            ..measured(1_500, 0, 0.0, 0.0)
        };
        assert_eq!(
            headline_of(&none, &offer(4_500)).as_deref(),
            Some("overloaded: offered 1,500/s, served 500/s, backlog grew by 1,000/s")
        );
        // A backlog that began in the warm-up: all operations of the measured time ended, by timing out.
        let backlog = |ok| Measured {
            responses: RegressionSums::default(),
            ..measured(ok, 4_500 - ok, 0.0, 0.0)
        };
        assert_eq!(
            headline_of(&backlog(600), &offer(4_500)).as_deref(),
            Some("overloaded: offered 1,500/s, served 200/s, 1,300/s failed")
        );
        assert_eq!(
            headline_of(&backlog(40), &offer(4_500)),
            None,
            "in flight when the daemon began to fail"
        );
        // A daemon that fails at once, or that loses requests, is not overloaded.
        assert_eq!(
            headline_of(&saturated(1_500, 3_000, 0.01), &offer(3_000)),
            None
        );
        assert_eq!(headline_of(&saturated(4_300, 100, 0.01), &offer(200)), None);
        let dead = Measured {
            responses: RegressionSums::default(),
            ..measured(0, 4_500, 0.0, 0.0)
        };
        assert_eq!(headline_of(&dead, &offer(4_500)), None);
    }

    #[test]
    fn a_rate_above_the_offered_one_is_the_backlog_of_the_warm_up() {
        let of = |ok, offered| {
            let offer = Offer {
                due: offered,
                ..Offer::default()
            };
            Throughput::new(&measured(ok, 0, 0.0, 0.01), 3.0, &offer, &Spec::default())
        };
        let note = |ended, offered, ok| {
            let operations = Operations {
                ok,
                ..Operations::default()
            };
            let note = of(ended, offered).backlog_note(&operations);
            note.map_or(String::new(), |note| note.message)
        };
        let late = note(1_771, Some(1_500), 1_500);
        assert!(
            late.starts_with("590/s ended in the measured time, but 500/s were offered"),
            "{late}"
        );
        assert_eq!(note(1_510, Some(1_500), 1_500), "");
        assert_eq!(note(104, Some(100), 100), "", "open at the begin");
        assert_eq!(note(1_771, None, 1_771), "", "a closed loop offers nothing");
        let all = note(267, Some(6_000), 0);
        assert!(
            all.contains("89.0/s ended in the measured time, but no operation"),
            "{all}"
        );
        assert_eq!(note(0, Some(6_000), 0), "");
    }

    #[test]
    fn operations_that_were_due_and_did_not_end_are_an_overload() {
        let overloaded = measured(23_100, 0, 1.6, 0.01);
        assert_eq!(
            headline(&overloaded, Some(60_000)).as_deref(),
            Some("overloaded: offered 20,000/s, served 7,700/s, backlog grew by 12,300/s")
        );
        assert_eq!(headline(&overloaded, None), None, "a closed loop waits");
        let failing = measured(150, 60, 1.6, 0.01);
        assert_eq!(
            headline(&failing, Some(300)).as_deref(),
            Some("overloaded: offered 100/s, served 50.0/s, 20.0/s failed, backlog grew by 30.0/s")
        );
    }

    #[test]
    fn operations_that_take_long_and_no_longer_are_no_overload() {
        // A tenth is open at the end since each takes a tenth of the time.
        assert_eq!(headline(&measured(270, 0, 0.0, 0.02), Some(300)), None);
        // Times that scatter have a slope by chance.
        assert_eq!(headline(&measured(270, 0, 0.011, 3.0), Some(300)), None);
        // All that was due has ended, if late.
        assert_eq!(headline(&measured(299, 0, 0.5, 0.01), Some(300)), None);
        let nothing = Measured {
            responses: RegressionSums::default(),
            ..measured(0, 0, 0.0, 0.0)
        };
        assert_eq!(headline(&nothing, Some(300)), None);
    }

    #[test]
    fn counts_that_are_not_sums_over_the_measured_time_are_left_out() {
        let spec = Spec {
            counters: [CounterSpec::new("held", "held", CounterRole::Held)][..]
                .to_owned()
                .into(),
            ..Spec::default()
        };
        let mut measured = measured(3, 0, 0.0, 0.0);
        for name in ["held", STARTED, "meals"] {
            add(&mut measured.counts, name, 6);
        }
        let throughput = Throughput::new(&measured, 3.0, &Offer::default(), &spec);
        let names: Vec<&str> = throughput.counts.keys().map(String::as_str).collect();
        assert_eq!(names, ["meals"]);
        assert_eq!((throughput.count(OK), throughput.count("held")), (3, 0));
        assert_eq!(throughput.per_second(6), Some(2.0));
    }
}
