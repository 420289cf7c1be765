//! How long what is left will take: from the plan's own times, corrected by the runs that have ended.

use std::time::Duration;

/// What a run needs beside its load: a build that is fresh, a start, a check, a stop.
const BESIDE_THE_LOAD: Duration = Duration::from_secs(3);

/// A run that has ended. Builds are not in it: only the first run of a daemon has one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Took {
    /// Its level.
    pub(crate) level: String,
    /// What its plan says.
    pub(crate) planned: Duration,
    /// What its load took.
    pub(crate) took: Duration,
}

/// How long a run of `level` takes: as those before it at that level, else its plan's time by as much as the others
/// differed from theirs.
pub(crate) fn of(level: &str, planned: Duration, ended: &[Took]) -> Duration {
    let sum = |times: &mut dyn Iterator<Item = Duration>| times.sum::<Duration>();
    let alike: Vec<&Took> = ended.iter().filter(|run| run.level == level).collect();
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

/// A time as a person reads it: whole seconds below 10 minutes, whole minutes above.
pub(crate) fn shown(time: Duration) -> String {
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

    fn took(level: &str, planned: u64, took: u64) -> Took {
        Took {
            level: level.to_owned(),
            planned: s(planned),
            took: s(took),
        }
    }

    #[test]
    fn the_first_run_takes_what_its_plan_says_and_later_ones_as_those_before() {
        assert_eq!(of("100", s(7), &[]), s(10));
        assert_eq!(
            of("100", s(7), &[took("100", 7, 6), took("100", 7, 8)]),
            s(10)
        );
        assert_eq!(of("200", s(20), &[took("100", 10, 5)]), s(13));
    }

    #[test]
    fn a_time_is_short() {
        let shown = [0, 59, 72, 599, 600, 2459, 7260].map(|seconds| shown(s(seconds)));
        assert_eq!(
            shown,
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
