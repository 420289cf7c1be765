//! The times of a series as a tool reported them, judged against each other and the length of the run.

use std::collections::BTreeMap;

use measure::imported::SeriesSummary;
use measure::units;

use super::nanoseconds;

/// The figures that ascend. The mean is apart.
const ASCENDING: [&str; 8] = ["min", "p50", "p75", "p90", "p95", "p99", "p99.9", "max"];
/// Two figures may be rounded differently: wrk prints two decimals, so its `1.00m` is up to 1.005 minutes.
const ROUNDING: f64 = 1.01;

/// The times of a series in seconds, as reported: they may be negative, or not a number.
#[derive(Debug, Default)]
pub(super) struct Times {
    pub(super) name: &'static str,
    /// Values recorded.
    pub(super) count: Option<u64>,
    /// The figures by name: `mean`, or one of [`ASCENDING`].
    pub(super) figures: BTreeMap<&'static str, f64>,
}

impl Times {
    /// Leaves out the figures that are impossible in a run of this length, or contradict others: the one that
    /// contradicts most goes first. Returns a sentence for each.
    pub(super) fn judge(&mut self, wall_s: f64) -> Vec<String> {
        let mut left_out = Vec::new();
        let impossible = |figure| Some((figure, self.impossible(figure, wall_s)?));
        let found: Vec<_> = self
            .figures
            .keys()
            .copied()
            .filter_map(impossible)
            .collect();
        self.leave_out(found, &mut left_out);
        loop {
            let figures = self.figures.keys().copied();
            let rivals: Vec<_> = figures
                .map(|figure| (figure, self.rivals(figure)))
                .collect();
            let most = rivals
                .iter()
                .map(|(_, rivals)| rivals.len())
                .max()
                .unwrap_or(0);
            if most == 0 {
                return left_out;
            }
            let wrong = rivals
                .into_iter()
                .filter(|(_, rivals)| rivals.len() == most);
            let wrong = wrong.map(|(figure, rivals)| {
                let time = units::seconds(self.figures[figure]);
                (figure, format!("{time} contradicts {}", rivals.join(", ")))
            });
            let wrong = wrong.collect();
            self.leave_out(wrong, &mut left_out);
        }
    }

    fn leave_out(&mut self, wrong: Vec<(&'static str, String)>, left_out: &mut Vec<String>) {
        for (figure, problem) in wrong {
            self.figures.remove(figure);
            left_out.push(format!("{figure} of `{}`: {problem}", self.name));
        }
    }

    /// Returns the reason why no run of this length has such a time.
    fn impossible(&self, figure: &str, wall_s: f64) -> Option<String> {
        let seconds = self.figures[figure];
        // Phases of a request may not happen, such as connecting.
        let is_answer = ["response", "service", "ttfb"].contains(&self.name);
        match nanoseconds(seconds) {
            None => Some(format!("{} s is not a time", seconds as f32)),
            Some(0.0) if is_answer => Some("no answer takes 0 s".to_owned()),
            Some(_) if seconds > wall_s * ROUNDING => {
                let [time, run] = [seconds, wall_s].map(units::seconds);
                Some(format!("{time} is longer than the run of {run}"))
            }
            Some(_) => None,
        }
    }

    /// Returns the figures that can't be true together with this one.
    fn rivals(&self, figure: &str) -> Vec<&'static str> {
        let rank = |name: &str| ASCENDING.iter().position(|known| *known == name);
        // The mean lies between the smallest and the largest value only.
        let is_below = |one: &str, other: &str| match (rank(one), rank(other)) {
            (Some(one), Some(other)) => one < other,
            (Some(one), None) => one == 0,
            (None, other) => other == Some(ASCENDING.len() - 1),
        };
        let contradict = |low: &str, high: &str| {
            is_below(low, high) && self.figures[low] > self.figures[high] * ROUNDING
        };
        let others = self.figures.keys().copied();
        others
            .filter(|other| contradict(figure, other) || contradict(other, figure))
            .collect()
    }

    pub(super) fn summary(&self) -> SeriesSummary {
        let exact = |figure| nanoseconds(*self.figures.get(figure)?);
        let ns = |figure| exact(figure).map(|ns| ns.round() as u64);
        SeriesSummary {
            name: self.name.to_owned(),
            count: self.count,
            min_ns: ns("min"),
            mean_ns: exact("mean"),
            p50_ns: ns("p50"),
            p75_ns: ns("p75"),
            p90_ns: ns("p90"),
            p95_ns: ns("p95"),
            p99_ns: ns("p99"),
            p999_ns: ns("p99.9"),
            max_ns: ns("max"),
        }
    }
}
