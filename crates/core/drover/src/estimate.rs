//! Estimates the remaining time of a suite, from the plan's own times, corrected by the runs that have ended.

use std::time::Duration;

/// Time that a run needs in addition to its load: an up-to-date build, a start, a check, a stop.
const BESIDE_THE_LOAD: Duration = Duration::from_secs(3);

/// A run that has ended, without builds: only the first run of a daemon has one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PastRun {
    /// Its level.
    pub(crate) level: String,
    /// The planned duration.
    pub(crate) planned: Duration,
    /// The duration of its load.
    pub(crate) took: Duration,
}

/// Estimates the duration of a run of `level`: the mean of earlier runs at that level, otherwise its planned time,
/// scaled by the deviation of the other runs from their plans.
pub(crate) fn run_time(level: &str, planned: Duration, ended: &[PastRun]) -> Duration {
    let sum = |times: &mut dyn Iterator<Item = Duration>| times.sum::<Duration>();
    let alike: Vec<&PastRun> = ended.iter().filter(|run| run.level == level).collect();
    if !alike.is_empty() {
        return sum(&mut alike.iter().map(|run| run.took)) / alike.len() as u32 + BESIDE_THE_LOAD;
    }
    let before = sum(&mut ended.iter().map(|run| run.planned));
    let factor = if before.is_zero() {
        1.0
    } else {
        sum(&mut ended.iter().map(|run| run.took)).as_secs_f64() / before.as_secs_f64()
    };
    planned.mul_f64(factor) + BESIDE_THE_LOAD
}

/// Formats a time for people: whole seconds below 10 minutes, whole minutes above.
pub(crate) fn format_time(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes @ ..10, seconds) => format!("{minutes}m{seconds:02}s"),
        (0, minutes, seconds) => format!("{} min", minutes + seconds / 30),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn took(level: &str, planned: u64, took: u64) -> PastRun {
        PastRun {
            level: level.to_owned(),
            planned: s(planned),
            took: s(took),
        }
    }

    #[test]
    fn the_first_run_takes_what_its_plan_says_and_later_ones_as_those_before() {
        assert_eq!(run_time("100", s(7), &[]), s(10));
        assert_eq!(
            run_time("100", s(7), &[took("100", 7, 6), took("100", 7, 8)]),
            s(10)
        );
        assert_eq!(run_time("200", s(20), &[took("100", 10, 5)]), s(13));
    }

    #[test]
    fn a_time_is_short() {
        let format_time = [0, 59, 72, 599, 600, 2459, 7260].map(|seconds| format_time(s(seconds)));
        assert_eq!(
            format_time,
            [
                "0s",
                "59s",
                "1m12s",
                "9m59s",
                "10 min",
                "41 min",
                "2 h 1 min"
            ]
        );
    }
}
