//! Warnings about divided runs.

use super::{Kind, Warning};
use crate::shard::Clock;
use crate::units;

/// Lateness of a shard that is noted, nanoseconds: more than waiting for a common instant takes on a busy machine.
const LATE_NOTED_NS: u64 = 10_000_000;
/// Lateness of a shard that makes a result INVALID, nanoseconds: a whole row of the seconds has no load of it.
const LATE_INVALID_NS: u64 = 1_000_000_000;
/// Number of damaged shards whose problem is reported. The others are counted.
const MOST_PROBLEMS: usize = 3;
/// Movement of a wall clock during a run, and bound of its error, that is noted, nanoseconds.
const CLOCK_NOTED_NS: u64 = 10_000_000;

impl Warning {
    /// Reports shards without a result, with the problems of the damaged ones.
    pub fn shards_missing(missing: &[u64], of: u64, damaged: &[String]) -> Option<Self> {
        (!missing.is_empty()).then(|| {
            let problems = damaged.iter().take(MOST_PROBLEMS);
            let problems: String = problems.map(|problem| format!("; {problem}")).collect();
            let more = match damaged.len().saturating_sub(MOST_PROBLEMS) {
                0 => String::new(),
                more => format!("; {more} more are damaged"),
            };
            Kind::ShardsMissing.invalid(
                format!(
                    "{} of {of} shards are missing: {}; the figures are the others'{problems}{more}",
                    missing.len(),
                    units::ranges(missing)
                ),
                "find their logs or copy their folders again, or repeat the run in a new folder",
            )
        })
    }

    /// Reports that the program that launched the daemon has no result, or a damaged one.
    pub fn daemon_part_missing(damaged: Option<&str>) -> Self {
        let problem = damaged.unwrap_or("the program that launched the daemon has no result");
        Kind::ShardsMissing.suspect(
            format!("{problem}: what the daemon used and counted is not known"),
            "find its log, and repeat the run in a new folder",
        )
    }

    /// Reports a shard whose workers began after the common start.
    pub fn shard_late(late_ns: u64) -> Option<Self> {
        let message = format!("it began {} late", units::duration(late_ns));
        let hint = "start the shards earlier, or give --start-at a later time";
        match late_ns {
            LATE_INVALID_NS.. => Some(Kind::ShardsApart.invalid(message, hint)),
            LATE_NOTED_NS.. => Some(Kind::ShardsApart.note(message, hint)),
            _ => None,
        }
    }

    /// Reports a wall clock that moved during the run, or whose error is large or not known, on a machine of several.
    pub fn clock_uncertain(clock: Clock) -> Option<Self> {
        let hint = "the seconds of the machines may be shifted against each other: run a time service (chrony) on all of them";
        let moved = clock.moved_ns.unsigned_abs();
        let message = match clock.max_error_ns {
            _ if moved >= CLOCK_NOTED_NS => {
                format!(
                    "its clock moved by {} during the run",
                    units::duration(moved)
                )
            }
            None => "its clock is not synchronised".to_owned(),
            Some(bound) if bound >= CLOCK_NOTED_NS => {
                format!("its clock may be wrong by {}", units::duration(bound))
            }
            Some(_) => return None,
        };
        Some(Kind::ShardsApart.note(message, hint))
    }

    /// Reports that a series was measured between the clocks of several machines. The error of a value is at most the error of
    /// two clocks; it is unknown if a clock is not synchronised.
    pub fn latency_between_clocks(series: &str, clocks: &[Clock]) -> Self {
        let bounds: Option<Vec<u64>> = clocks.iter().map(|clock| clock.max_error_ns).collect();
        let Some(mut bounds) = bounds else {
            return Kind::ShardsApart.suspect(
                format!("{series} was measured between the clocks of several machines, which are not all synchronised: its error is unknown"),
                "run a time service (chrony) on all machines, or drive the load from one",
            );
        };
        bounds.sort_unstable();
        let largest = bounds.iter().rev().take(2).sum();
        Kind::ShardsApart.note(
            format!(
                "{series} was measured between the clocks of several machines: each value may be wrong by {}",
                units::duration(largest)
            ),
            "compare it only with differences above that, or drive the load from one machine",
        )
    }

    /// Reports that shards got different answers in their check.
    pub fn shards_answered_differently() -> Self {
        Kind::AnswersDiffer.suspect(
            "the shards got different answers to the check before the run",
            "make sure that all shards reach the same daemon",
        )
    }

    /// Names the part of a divided run that a warning is about: a shard, or the daemon's part.
    pub fn of_part(self, shard: Option<u64>, host: &str) -> Self {
        let part = match shard {
            Some(shard) => format!("shard {shard} on {host}"),
            None => format!("the daemon's machine {host}"),
        };
        Self {
            message: format!("{part}: {}", self.message),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warning::Severity;

    #[test]
    fn missing_shards_are_listed_as_ranges() {
        assert_eq!(units::ranges(&[0, 3, 4, 5, 9]), "0, 3–5, 9");
        assert_eq!(Warning::shards_missing(&[], 3, &[]), None);
        let damaged = ["a", "b", "c", "d", "e"].map(|name| format!("{name} was cut"));
        let warning = Warning::shards_missing(&[0, 3, 4, 5, 9], 10, &damaged).unwrap();
        assert_eq!(
            warning.message,
            "5 of 10 shards are missing: 0, 3–5, 9; the figures are the others'; a was cut; b was cut; c was cut; 2 more are damaged"
        );
    }

    #[test]
    fn a_late_shard_is_noted_and_one_that_missed_a_whole_row_is_invalid() {
        let severity = |ns| Warning::shard_late(ns).map(|warning| warning.severity);
        assert_eq!(severity(9_999_999), None);
        assert_eq!(severity(10_000_000), Some(Severity::Note));
        assert_eq!(severity(999_999_999), Some(Severity::Note));
        assert_eq!(severity(1_000_000_000), Some(Severity::Invalid));
    }

    #[test]
    fn a_latency_between_clocks_is_as_uncertain_as_two_of_them() {
        let clock = |max_error_ns: Option<u64>| Clock {
            synchronised: max_error_ns.is_some(),
            max_error_ns,
            moved_ns: 0,
        };
        let found = |bounds: &[Option<u64>]| {
            let clocks: Vec<Clock> = bounds.iter().map(|bound| clock(*bound)).collect();
            Warning::latency_between_clocks("end_to_end", &clocks)
        };
        let known = found(&[Some(1_000_000), Some(20_000), Some(3_000_000)]);
        assert!(known.message.contains("by 4.00 ms"), "{}", known.message);
        assert_eq!(known.severity, Severity::Note);
        let unknown = found(&[Some(1_000_000), None]);
        assert_eq!(unknown.severity, Severity::Suspect);
    }

    #[test]
    fn a_clock_is_noted_if_it_moved_or_may_be_wrong() {
        let message = |moved_ns, max_error_ns: Option<u64>| {
            let clock = Clock {
                synchronised: max_error_ns.is_some(),
                max_error_ns,
                moved_ns,
            };
            Warning::clock_uncertain(clock).map(|warning| warning.message)
        };
        assert_eq!(message(9_000_000, Some(9_000_000)), None);
        for (moved_ns, max_error_ns, words) in [
            (-10_000_000, Some(0), "moved by 10.0 ms"),
            (0, None, "not synchronised"),
            (0, Some(16_000_000), "wrong by 16.0 ms"),
        ] {
            let message = message(moved_ns, max_error_ns).unwrap();
            assert!(message.contains(words), "{message}");
        }
    }
}
