//! Calibration: what a driver measures on a peer with known delays.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use load::clock;

use crate::result::ResultFile;

/// A series, a figure of it, and the planned value in ms: `("first_byte", "p99_ns", 60.0)`.
pub type Planned = (&'static str, &'static str, f64);

/// Returns delays for a peer to use in turn: this many of each, in ms. Of a hundred requests with 83 delays of 20 ms, 15
/// of 80 and 2 of 200, p50, p90 and p99 lie in the middle of their group, where a few delayed requests change nothing.
#[must_use]
pub fn in_turn<const N: usize>(delays: [(usize, u64); N]) -> Vec<Duration> {
    let each = delays.map(|(count, ms)| vec![Duration::from_millis(ms); count]);
    each.concat()
}

/// Runs a driver until each figure was right in one of its runs. A busy machine delays peer and driver alike, but a wrong
/// instrument is wrong in every run.
///
/// `run` gets the number of the attempt. It returns the result and a function from a planned value to the values that
/// are right, in ms; or `None` if the arithmetic does not apply to this run.
///
/// # Panics
/// A figure was wrong in every run.
#[track_caller]
pub fn calibrate<T>(
    attempts: u32,
    planned: &[Planned],
    mut run: impl FnMut(u32) -> Option<(ResultFile, T)>,
) where
    T: Fn(f64) -> RangeInclusive<f64>,
{
    let mut open = planned.to_vec();
    let mut found = Vec::new();
    for attempt in 0..attempts {
        let Some((result, right)) = run(attempt) else {
            continue;
        };
        open.retain(|(name, figure, planned)| !right(*planned).contains(&result.ms(name, figure)));
        if open.is_empty() {
            return;
        }
        let wrong = |(name, figure, planned): &Planned| {
            let (measured, right) = (result.ms(name, figure), right(*planned));
            format!("{name} {figure}: {measured} ms, planned {planned} ms, right is {right:?} ms")
        };
        found.push(open.iter().map(wrong).collect::<Vec<_>>());
    }
    panic!("{found:#?}");
}

/// Measures how late this machine wakes a thread while `body` runs, in ms at the 99th percentile; returns that and the
/// result of `body`.
pub fn lateness<T>(body: impl FnOnce() -> T) -> (f64, T) {
    const ASLEEP: Duration = Duration::from_millis(1);
    let over = Arc::new(AtomicBool::new(false));
    let is_over = Arc::clone(&over);
    // Not scoped: a panic of `body` would wait for it.
    let watching = std::thread::spawn(move || {
        let mut late = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            let begins = clock::now();
            // Measures how late this sleep ends.
            std::thread::sleep(ASLEEP);
            late.push(clock::now() - begins - ASLEEP.as_nanos() as u64);
        }
        late.sort_unstable();
        late.get(late.len() * 99 / 100).copied().unwrap_or(0)
    });
    let of_body = body();
    over.store(true, Ordering::Relaxed);
    let late_ns = watching.join().expect("sorting does not panic");
    (late_ns as f64 / 1e6, of_body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of_series(p50_ns: u64, max_ns: u64) -> ResultFile {
        ResultFile(json!({ "series": [{ "name": "a", "p50_ns": p50_ns, "max_ns": max_ns }] }))
    }

    const PLANNED: [Planned; 2] = [("a", "p50_ns", 5.0), ("a", "max_ns", 9.0)];

    fn near(planned: f64) -> RangeInclusive<f64> {
        planned - 1.0..=planned + 1.0
    }

    #[test]
    fn each_figure_must_be_right_once() {
        let mut runs = [(5_500_000, 99_000_000), (77_000_000, 10_000_000)].into_iter();
        calibrate(2, &PLANNED, |_| {
            let (p50_ns, max_ns) = runs.next()?;
            Some((of_series(p50_ns, max_ns), near))
        });
        assert_eq!(runs.next(), None);
    }

    #[test]
    #[should_panic(expected = "a max_ns: 99 ms, planned 9 ms, right is 8.0..=10.0 ms")]
    fn a_figure_that_is_always_wrong_is_named() {
        calibrate(2, &PLANNED, |attempt| {
            (attempt == 1).then(|| (of_series(5_000_000, 99_000_000), near))
        });
    }
}
