//! Steady state: do response times stay alike over the measured seconds, or do they drift, jump once or to and fro, or pause regularly?
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
/// Fewest seconds of a phase in another state: two slow seconds are a disturbance.
const MIN_PHASE: usize = 3;
/// Fewest seconds in the rarer state: one of this many. Percentiles up to the 99th do not show fewer.
const MIN_PART: usize = 100;
/// Distance of all values of the rarer state but a tenth from the median of the usual one, as a multiple of the usual
/// one's range without a tenth at each end. All are logarithms.
const MIN_RANGES: f64 = 4.0;
/// Least range of the usual state: a tenth. A smaller one is a coincidence of few seconds.
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
    /// Response times jumped at `at_s`, jumped back at `back_s`, and so on, `changes` times in all.
    Phases {
        at_s: f64,
        back_s: f64,
        before_s: f64,
        after_s: f64,
        changes: usize,
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
        let jumps = || {
            let changes = changes(&medians);
            let (at, back) = (*changes.first()?, changes.get(1));
            let end = back.copied().unwrap_or(samples.len());
            let (at_s, before_s) = (samples[at].at_s, median(&medians[..at]));
            let after_s = median(&medians[at..end]);
            Some(match back {
                None => Self::Jump {
                    at_s,
                    before_s,
                    after_s,
                    early: 2 * at <= samples.len(),
                },
                Some(back) => Self::Phases {
                    at_s,
                    back_s: samples[*back].at_s,
                    before_s,
                    after_s,
                    changes: changes.len(),
                },
            })
        };
        let drift = || drift(&medians).map(Self::Drift);
        jumps().or_else(drift).or_else(|| pauses(samples))
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
            Self::Phases {
                at_s,
                back_s,
                before_s,
                after_s,
                changes,
            } => {
                let verb = if after_s < before_s { "fell" } else { "rose" };
                let [before, after] = [before_s, after_s].map(units::seconds);
                let [second, back] = [at_s, back_s].map(f64::ceil);
                let more = match changes {
                    2 => String::new(),
                    _ => format!("; it changed {changes} times"),
                };
                let message = format!(
                    "no steady state: response {verb} from {before} to {after} at second {second:.0} of the measured time, and back at second {back:.0}{more}"
                );
                let hint = "the percentiles mix two states: look in the daemon's log, and at other work on the machine, for what changed at these seconds";
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

/// Returns the indices at which the values change between two states, if they have two: see [`MIN_RANGES`].
fn changes(medians: &[f64]) -> Vec<usize> {
    let logs: Vec<f64> = medians.iter().map(|value| value.max(1e-9).ln()).collect();
    let levels = sorted(logs.iter().copied());
    let divided = |count: usize| {
        let (low, high) = levels.split_at(count);
        let is_low_usual = low.len() >= high.len();
        let (usual, rare) = if is_low_usual {
            (low, high)
        } else {
            (high, low)
        };
        let [low, high] = [low, high].map(middle);
        let cut = usual.len() / 10;
        let range = usual[usual.len() - 1 - cut] - usual[cut];
        let limit = MIN_RANGES * range.max(MIN_RANGE);
        let states = if is_low_usual {
            States { usual: low, limit }
        } else {
            States {
                usual: high,
                limit: -limit,
            }
        };
        let cut = rare.len() / 10;
        let nearest = if is_low_usual {
            rare[cut]
        } else {
            rare[rare.len() - 1 - cut]
        };
        let are_two = states.is_far(nearest) && high.exp() - low.exp() > MIN_CHANGE_S;
        // The between-group variance, whose maximum is where the levels are divided best.
        let share = count as f64 / levels.len() as f64;
        are_two.then(|| (share * (1.0 - share) * (high - low).powi(2), states))
    };
    let least = MIN_PHASE.max(levels.len().div_ceil(MIN_PART));
    let divided = (least..=levels.len() - least).filter_map(divided);
    let best = divided.max_by(|one, other| one.0.total_cmp(&other.0));
    best.map_or_else(Vec::new, |(_, states)| {
        let is_far = logs.iter().map(|value| states.is_far(*value));
        phases(&is_far.collect::<Vec<_>>())
    })
}

/// Two states of the values. All are logarithms.
struct States {
    /// Median of the usual state.
    usual: f64,
    /// Least distance of the rare state from it; below 0 if its values are lower.
    limit: f64,
}

impl States {
    fn is_far(&self, value: f64) -> bool {
        (value - self.usual) * self.limit.signum() > self.limit.abs()
    }
}

/// Returns the median of sorted values.
fn middle(sorted: &[f64]) -> f64 {
    f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2])
}

/// Returns where phases begin and end. There are none if too many values lie outside the phases of their state.
fn phases(is_far: &[bool]) -> Vec<usize> {
    let count = |all: &[bool]| all.iter().filter(|is_far| **is_far).count();
    let mut state = 2 * count(&is_far[..MIN_PHASE]) > MIN_PHASE;
    let (mut changes, mut misfits) = (Vec::new(), 0);
    for (at, value) in is_far.iter().enumerate() {
        let next = is_far[at..].iter().take(MIN_PHASE);
        if next.filter(|next| **next != state).count() == MIN_PHASE {
            state = !state;
            changes.push(at);
        }
        misfits += usize::from(*value != state);
    }
    // The end of the run cuts the last phase off.
    let last = is_far.iter().rev().take_while(|value| **value != state);
    let last = last.count();
    if last > 0 && !changes.is_empty() {
        changes.push(is_far.len() - last);
        misfits -= last;
    }
    let rare = count(is_far).min(is_far.len() - count(is_far));
    changes.retain(|_| misfits <= rare / 5);
    changes
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
