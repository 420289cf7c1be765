//! Steady state: do response times stay alike over the measured seconds, or do they drift, jump, or pause regularly?
//!
//! Each test looks at one value per second: the median, or the longest time. Seconds depend on each other, so the limits
//! come from the scatter of the seconds themselves, and from simulations (the tests below). In doubt nothing is reported.

use crate::result::{RunResult, SecondSeries};
use crate::summary::{SummaryStats, moments, t_quantile};
use crate::units;
use crate::warning::{Kind, Warning};

/// Seconds that a judgement needs: on fewer, dependent noise looks like a drift or a jump.
const MIN_SECONDS: usize = 10;
/// Values that a second needs for its median.
const MIN_VALUES: u64 = 5;
/// Median response time, in seconds, from which the first seconds have too few of the long operations: these end later.
const LONG_S: f64 = 0.25;
/// Blocks whose differences are the values of a drift.
const BLOCKS: usize = 10;
/// Quantile of Student's t for a drift: 0.5 % of false alarms in each direction.
const T_SHARE: f64 = 0.995;
/// Share of the median response time by which a proven drift must change it over the run.
const MIN_DRIFT: f64 = 0.1;
/// Change in seconds that is relevant: wake-ups of virtual CPUs alone take half of it.
const MIN_CHANGE_S: f64 = 100e-6;
/// Fewest seconds on each side of a jump: two slow seconds are a disturbance.
const MIN_SIDE: usize = 3;
/// Distance of a jump from the values on its longer side, as a multiple of their range. All are logarithms.
const MIN_RANGES: f64 = 4.0;
/// Least range of the longer side: a tenth. A smaller one is a coincidence of few seconds.
const MIN_RANGE: f64 = 0.1;
/// Longest time of a second with a pause, in seconds: a busy machine makes shorter ones.
const MIN_PAUSE_S: f64 = 0.1;
/// The same, as a multiple of a usual second's longest time.
const MIN_PAUSE_RATIO: f64 = 10.0;
/// Fewest pauses that can be called regular.
const MIN_PAUSES: usize = 3;
/// Least seconds from pause to pause; closer ones are the usual state.
const MIN_PERIOD_S: f64 = 4.0;

/// A second of the steady load.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sample {
    /// Seconds from the begin of the measured time.
    at_s: f64,
    /// Median response time, seconds.
    median_s: f64,
    /// Longest response time, seconds.
    longest_s: f64,
}

/// A way in which a run is not steady.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Unsteady {
    /// Response times jumped at `at_s`, from one median to another. `early` is true in the first half of the run.
    Jump {
        at_s: f64,
        before_s: f64,
        after_s: f64,
        early: bool,
    },
    /// Response times grew by this many seconds per second.
    Drift(f64),
    /// Pauses of up to `longest_s`, one every `period_s`.
    Pauses { longest_s: f64, period_s: f64 },
}

impl RunResult {
    /// Returns a warning if the times of `response`, the series of the response time, did not stay alike while the
    /// planned load did. Overload and injected faults have their own words, and a part of a divided run is not judged.
    pub fn unsteady(&self, response: &str) -> Option<Warning> {
        let unsteady = Unsteady::find(&self.steady_part(response)?)?;
        let warmup_s = self.phases.map_or(0.0, |phases| phases.warmup_s);
        Some(unsteady.warning(warmup_s))
    }

    /// Returns the measured seconds in which the planned load did not change, or `None` if it always does.
    fn steady_part(&self, response: &str) -> Option<Vec<Sample>> {
        let inputs = &self.audit_inputs;
        let (steady_from_s, throughput) = (inputs.steady_from_s?, self.throughput.as_ref()?);
        // Without due times or users, such as with free-running publishers, queues fill by intention.
        let has_load = throughput.offered.is_some() || inputs.users.is_some();
        let is_judged = self.part.is_none() && self.faults.is_empty() && self.overload().is_none();
        if !has_load || !is_judged {
            return None;
        }
        let warmup_s = self.phases?.warmup_s;
        let measure = self.opening_s() + warmup_s;
        let median_s = self.series(response)?.p50_ns as f64 / 1e9;
        let settling_s = if median_s < LONG_S {
            0.0
        } else {
            2.0 * median_s
        };
        let from = measure + settling_s.max(steady_from_s - warmup_s);
        let steady_to = inputs.steady_to_s.map(|to_s| self.opening_s() + to_s);
        let end = (measure + throughput.measured_s).min(steady_to.unwrap_or(f64::INFINITY));
        let seconds = self.seconds.iter().filter(|row| {
            let second = row.second as f64;
            second >= from && second + 1.0 <= end
        });
        let sample = |second: u64, series: &SecondSeries| Sample {
            at_s: second as f64 - measure,
            median_s: series.p50_ns as f64 / 1e9,
            longest_s: series.max_ns as f64 / 1e9,
        };
        let samples = seconds.filter_map(|row| {
            let series = row.series.iter().find(|series| series.name == response)?;
            (series.count >= MIN_VALUES).then(|| sample(row.second, series))
        });
        Some(samples.collect())
    }
}

impl Unsteady {
    fn find(samples: &[Sample]) -> Option<Self> {
        if samples.len() < MIN_SECONDS {
            return None;
        }
        let medians: Vec<f64> = samples.iter().map(|sample| sample.median_s).collect();
        let jump = || {
            let at = jump(&medians)?;
            Some(Self::Jump {
                at_s: samples[at].at_s,
                before_s: median(&medians[..at]),
                after_s: median(&medians[at..]),
                early: 2 * at <= samples.len(),
            })
        };
        let drift = || drift(&medians).map(Self::Drift);
        jump().or_else(drift).or_else(|| pauses(samples))
    }

    fn warning(self, warmup_s: f64) -> Warning {
        match self {
            Self::Jump {
                at_s,
                before_s,
                after_s,
                early,
            } => {
                let second = at_s.ceil();
                let [before, after] = [before_s, after_s].map(units::seconds);
                let longer = format!("--warmup {:.0}s", (warmup_s + second).ceil());
                let (verb, reason, hint) = if early && after_s < before_s {
                    let hint = format!("leave the beginning out of the figures: {longer}");
                    ("fell", ": the warm-up was too short", hint)
                } else {
                    let hint = format!(
                        "the percentiles mix two states of the daemon: look in its log for what changed then, or measure only the second state ({longer}, and as long again)"
                    );
                    let verb = if after_s < before_s { "fell" } else { "rose" };
                    (verb, "", hint)
                };
                let message = format!(
                    "no steady state: response {verb} from {before} to {after} at second {second:.0} of the measured time{reason}"
                );
                Kind::NoSteadyState.suspect(message, hint)
            }
            Self::Drift(growth) => {
                let verb = if growth < 0.0 { "fell" } else { "grew" };
                let growth = units::seconds(growth.abs());
                let message = format!("no steady state: response {verb} by {growth} per second");
                let hint = "the percentiles depend on how long the run is: find out what changes with time; if that ends by itself, give a longer --warmup";
                Kind::NoSteadyState.suspect(message, hint)
            }
            Self::Pauses {
                longest_s,
                period_s,
            } => {
                let longest = units::seconds(longest_s);
                let message =
                    format!("response pauses for up to {longest} about every {period_s:.0} s");
                let hint = "the high percentiles depend on how many pauses a run has: compare only runs of many periods";
                Kind::NoSteadyState.note(message, hint)
            }
        }
    }
}

/// Returns the index of the first value after a jump. All values of the shorter side but a tenth must lie far away from
/// the values of the longer side, compared with the range of these without a tenth at each end.
fn jump(medians: &[f64]) -> Option<usize> {
    let logs: Vec<f64> = medians.iter().map(|value| value.max(1e-9).ln()).collect();
    let weight = |at: usize| {
        let (left, right) = logs.split_at(at);
        let (long, short) = if left.len() < right.len() {
            (right, left)
        } else {
            (left, right)
        };
        let middle = median(long);
        let sign = (median(short) - middle).signum();
        let far = sorted(short.iter().map(|value| (value - middle) * sign));
        let near = far[far.len() / 10];
        let long = sorted(long.iter().copied());
        let cut = long.len() / 10;
        let range = long[long.len() - 1 - cut] - long[cut];
        let change_s = (median(&medians[..at]) - median(&medians[at..])).abs();
        let is_jump = near > MIN_RANGES * range.max(MIN_RANGE) && change_s > MIN_CHANGE_S;
        // The between-group variance, whose maximum is where the levels are divided best.
        let share = at as f64 / logs.len() as f64;
        is_jump.then(|| share * (1.0 - share) * (median(short) - middle).powi(2))
    };
    let weighed = (MIN_SIDE..=logs.len() - MIN_SIDE).filter_map(|at| Some((weight(at)?, at)));
    let best = weighed.max_by(|one, other| one.0.total_cmp(&other.0));
    best.map(|(_, at)| at)
}

/// Returns the drift in seconds per second, if its interval proves a relevant change. As for a
/// [`Trend`](crate::growth::Trend), the differences between neighbouring blocks are the values.
fn drift(medians: &[f64]) -> Option<f64> {
    let length = medians.len() / BLOCKS;
    let blocks = medians.rchunks_exact(length).take(BLOCKS);
    let mut means: Vec<f64> = blocks
        .map(|block| block.iter().sum::<f64>() / length as f64)
        .collect();
    means.reverse();
    let steps = means.windows(2);
    let steps: Vec<f64> = steps
        .map(|pair| (pair[1] - pair[0]) / length as f64)
        .collect();
    let (slope, variance) = moments(&steps)?;
    let half =
        t_quantile(T_SHARE, steps.len() as f64 - 1.0) * (variance / steps.len() as f64).sqrt();
    let proven_s = (slope.abs() - half) * (medians.len() - 1) as f64;
    (proven_s > (MIN_DRIFT * median(medians)).max(MIN_CHANGE_S)).then_some(slope)
}

/// Returns pauses that are alike and come at equal distances, through the whole run.
fn pauses(samples: &[Sample]) -> Option<Unsteady> {
    let longest: Vec<f64> = samples.iter().map(|sample| sample.longest_s).collect();
    let limit = (MIN_PAUSE_RATIO * median(&longest)).max(MIN_PAUSE_S);
    let mut pauses: Vec<Sample> = Vec::new();
    let mut before = f64::NEG_INFINITY;
    for sample in samples.iter().filter(|sample| sample.longest_s > limit) {
        // A pause may end in the second after the one in which the first operations ended.
        match pauses.last_mut() {
            Some(last) if sample.at_s - before < 1.5 => {
                last.longest_s = last.longest_s.max(sample.longest_s);
            }
            _ => pauses.push(*sample),
        }
        before = sample.at_s;
    }
    if pauses.len() < MIN_PAUSES {
        return None;
    }
    let gaps = sorted(pauses.windows(2).map(|pair| pair[1].at_s - pair[0].at_s));
    let lengths = sorted(pauses.iter().map(|pause| pause.longest_s));
    let (shortest_s, longest_s) = (lengths[0], lengths[lengths.len() - 1]);
    let (least_s, period_s) = (gaps[0], gaps[gaps.len() - 1]);
    let edges = [
        pauses[0].at_s - samples[0].at_s,
        samples[samples.len() - 1].at_s - before,
    ];
    let is_regular = least_s >= MIN_PERIOD_S
        && period_s - least_s <= 1.0
        && longest_s <= 2.0 * shortest_s
        && edges.iter().all(|edge_s| *edge_s <= period_s + 1.0);
    is_regular.then_some(Unsteady::Pauses {
        longest_s,
        period_s,
    })
}

fn median(values: &[f64]) -> f64 {
    SummaryStats::from_values(values.iter().copied()).map_or(0.0, |stats| stats.median)
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests;
