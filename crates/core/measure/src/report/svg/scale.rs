//! Axes: the position of a value between the ends, and the tick marks.

use crate::units;

/// Maximum number of ticks on an axis.
const TICKS: f64 = 6.0;
/// Ratio of the highest to the lowest value above which an axis is logarithmic.
const WIDE: f64 = 25.0;
/// Lowest value of a logarithmic axis.
const LEAST: f64 = 0.001;
/// Ends of an axis of ratios, and its ticks.
const RATIOS: [f64; 10] = [1.05, 1.1, 1.2, 1.5, 2.0, 5.0, 10.0, 100.0, 1_000.0, 1e6];
/// Maximum number of ticks above 1 on an axis of ratios.
const RATIO_TICKS: usize = 3;

/// The mapping of values to positions.
#[derive(Debug, Clone)]
pub(in crate::report) enum Scale {
    /// Linear, starting at 0.
    Linear {
        /// The highest value.
        to: f64,
        /// Formats a value.
        show: fn(f64) -> String,
    },
    /// Seconds from 0 to exactly the last value.
    Time {
        /// The last value.
        to: f64,
    },
    /// Logarithmic.
    Log {
        /// The lowest value.
        from: f64,
        /// The highest value.
        to: f64,
        /// Formats a value.
        show: fn(f64) -> String,
    },
    /// Number of nines: the median is as far from the 95th percentile as the 99th from the 99.9th. Values are quantiles
    /// (0 to 1).
    Percentile {
        /// Nines at the right end: 4 for 99.99 %.
        nines: f64,
    },
    /// Ratios around 1, logarithmic, from the inverse of the highest on.
    Ratio {
        /// The highest ratio, above 1.
        to: f64,
    },
    /// Named categories.
    Names(Vec<String>),
}

impl Scale {
    /// Creates an axis from 0 to a round number that no value exceeds.
    pub(in crate::report) fn linear(
        values: impl IntoIterator<Item = f64>,
        show: fn(f64) -> String,
    ) -> Self {
        let most = values.into_iter().fold(0.0, f64::max);
        let most = if most > 0.0 { most } else { 1.0 };
        let step = step(most);
        Self::Linear {
            to: (most / step).ceil() * step,
            show,
        }
    }

    /// Creates an axis around all times in nanoseconds that begins and ends at 1, 2 or 5 of a decade.
    pub(in crate::report) fn log(values: impl IntoIterator<Item = f64>) -> Self {
        Self::log_shown(values.into_iter().map(|ns| ns.max(1.0)), time)
    }

    /// Creates a logarithmic axis if the positive values have a wide range, otherwise one from 0.
    pub(in crate::report) fn fitting(values: &[f64], show: fn(f64) -> String) -> Self {
        let positive = || values.iter().copied().filter(|value| *value > 0.0);
        let (low, high) = (
            positive().fold(f64::MAX, f64::min),
            positive().fold(0.0, f64::max),
        );
        if high > low * WIDE {
            Self::log_shown(positive(), show)
        } else {
            Self::linear(positive(), show)
        }
    }

    /// Creates an axis around 1 that no ratio exceeds, except for the most extreme ones.
    pub(in crate::report) fn ratio(ratios: impl IntoIterator<Item = f64>) -> Self {
        let factors = ratios.into_iter().map(|ratio| ratio.max(1.0 / ratio));
        let most = factors.fold(1.0, f64::max);
        let to = RATIOS.into_iter().find(|to| *to >= most);
        Self::Ratio {
            to: to.unwrap_or(1e6),
        }
    }

    fn log_shown(values: impl IntoIterator<Item = f64>, show: fn(f64) -> String) -> Self {
        let (low, high) = values
            .into_iter()
            .fold((f64::MAX, LEAST), |(low, high), value| {
                (low.min(value.max(LEAST)), high.max(value))
            });
        let from = round_steps(high).rev().find(|step| *step <= low.min(high));
        let to = round_steps(high).find(|step| *step > high);
        Self::Log {
            from: from.unwrap_or(LEAST),
            to: to.unwrap_or(high * 10.0),
            show,
        }
    }

    /// Returns the position of a value as a share of the axis, from 0 at the low end to 1 at the high end.
    pub(super) fn share(&self, value: f64) -> f64 {
        let share = match self {
            Self::Linear { to, .. } | Self::Time { to } => value / to,
            Self::Log { from, to, .. } => (value.max(*from) / from).ln() / (to / from).ln(),
            Self::Percentile { nines } => nines_of(value) / nines,
            Self::Ratio { to } => f64::midpoint(1.0, value.ln() / to.ln()),
            Self::Names(names) => (value + 0.5) / names.len().max(1) as f64,
        };
        share.clamp(0.0, 1.0)
    }

    /// Returns the bounds of rows at even steps of a logarithmic axis: one more than there are rows.
    pub(in crate::report) fn even_steps(&self, rows: usize) -> Vec<f64> {
        let (from, to) = match self {
            Self::Log { from, to, .. } => (*from, *to),
            _ => (1.0, 10.0),
        };
        let steps = 0..=rows;
        steps
            .map(|step| from * (to / from).powf(step as f64 / rows as f64))
            .collect()
    }

    /// Returns true if a value lies between the ends.
    pub(super) fn contains(&self, value: f64) -> bool {
        match self {
            Self::Linear { to, .. } | Self::Time { to } => (0.0..=*to).contains(&value),
            Self::Log { from, to, .. } => (*from..=*to).contains(&value),
            Self::Ratio { to } => (1.0 / to..=*to).contains(&value),
            Self::Percentile { .. } | Self::Names(_) => false,
        }
    }

    /// Describes the axis for the script that converts positions back to values. Returns `None` for categories.
    pub(super) fn spec(&self) -> Option<String> {
        match self {
            Self::Linear { to, .. } | Self::Time { to } => Some(format!("linear 0 {to}")),
            Self::Log { from, to, .. } => Some(format!("log {from} {to}")),
            Self::Ratio { to } => Some(format!("log {} {to}", 1.0 / to)),
            Self::Percentile { nines } => Some(format!("nines 0 {nines}")),
            Self::Names(_) => None,
        }
    }

    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        match self {
            Self::Linear { to, show } => {
                let step = step(*to);
                let count = (to / step).round() as u64;
                // Below a step of 1, rounded labels of two ticks could be the same.
                let decimals = (-step.log10()).ceil().max(0.0) as usize;
                let label = |value: f64| match decimals {
                    0 => show(value),
                    _ if value == 0.0 => "0".to_owned(),
                    decimals => format!("{value:.decimals$}"),
                };
                (0..=count)
                    .map(|tick| tick as f64 * step)
                    .map(|value| (value, label(value)))
                    .collect()
            }
            Self::Time { to } => {
                let step = step(*to);
                let ticks = (0..=(to / step) as u64).map(|tick| tick as f64 * step);
                ticks.map(|value| (value, units::label(value))).collect()
            }
            Self::Log { from, to, show } => log_ticks(*from, *to, *show),
            Self::Percentile { nines } => [0.0, 0.5, 0.9, 0.99, 0.999, 0.999_9]
                .into_iter()
                .filter(|quantile| nines_of(*quantile) <= nines + 0.01)
                .map(|quantile| (quantile, percentile(quantile)))
                .collect(),
            Self::Ratio { to } => {
                let above = RATIOS.into_iter().rev().filter(|tick| tick <= to);
                let above = above.take(RATIO_TICKS);
                let ticks = above.flat_map(|tick| [tick, 1.0 / tick]).chain([1.0]);
                ticks.map(|tick| (tick, units::label(tick))).collect()
            }
            Self::Names(names) => names
                .iter()
                .enumerate()
                .map(|(index, name)| (index as f64, name.clone()))
                .collect(),
        }
    }
}

/// Returns the number of nines of a quantile: 1 for 0.9, 3 for 0.999.
fn nines_of(quantile: f64) -> f64 {
    -(1.0 - quantile).max(1e-9).log10()
}

fn percentile(quantile: f64) -> String {
    let text = format!("{:.2}", quantile * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Chooses a step of 1, 2 or 5 of a decade that gives few ticks.
fn step(most: f64) -> f64 {
    let rough = most / TICKS;
    let decade = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * decade)
        .find(|step| *step >= rough * 0.999_999)
        .unwrap_or(10.0 * decade)
}

/// Returns 1, 2 and 5 of each decade from the lowest value of an axis to beyond `most`.
fn round_steps(most: f64) -> impl DoubleEndedIterator<Item = f64> {
    let lowest = LEAST.log10().round() as i32;
    let decades = (most.log10().ceil() as i32).max(lowest) + 1;
    (lowest..=decades).flat_map(|decade| [1.0, 2.0, 5.0].map(|factor| factor * 10_f64.powi(decade)))
}

/// Returns ticks at whole decades if there are at least three of them, otherwise also at 2 and 5.
fn log_ticks(from: f64, to: f64, show: fn(f64) -> String) -> Vec<(f64, String)> {
    let inside: Vec<f64> = round_steps(to)
        .filter(|step| *step >= from * 0.999 && *step <= to * 1.001)
        .collect();
    let decades: Vec<f64> = inside
        .iter()
        .copied()
        .filter(|step| (step.log10() - step.log10().round()).abs() < 1e-6)
        .collect();
    let ticks = if decades.len() >= 3 { decades } else { inside };
    ticks
        .into_iter()
        .map(|value| (value, show(value)))
        .collect()
}

/// Formats a round time: `1 ms`, `200 µs`.
fn time(ns: f64) -> String {
    let text = units::duration(ns.round() as u64);
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            let number = number.trim_end_matches('0').trim_end_matches('.');
            format!("{number} {unit}")
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> Vec<String> {
        scale.ticks().into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_of_small_values_have_labels_of_their_own() {
        let labels = labels(&Scale::linear([0.283], units::number));
        assert_eq!(
            labels,
            ["0", "0.05", "0.10", "0.15", "0.20", "0.25", "0.30"]
        );
    }

    #[test]
    fn an_axis_of_ratios_has_1_in_its_middle() {
        let scale = Scale::ratio([0.9, 1.02]);
        assert_eq!(scale.share(1.0), 0.5);
        assert!((scale.share(1.0 / 1.2)).abs() < 1e-9 && (scale.share(1.2) - 1.0).abs() < 1e-9);
        let expected = ["1.2", "0.833", "1.1", "0.909", "1.05", "0.952", "1"];
        assert_eq!(labels(&scale), expected);
    }

    #[test]
    fn a_linear_axis_ends_at_a_round_number_beyond_all_values() {
        let scale = Scale::linear([3.0, 870.0], |value| format!("{value}"));
        assert_eq!(labels(&scale), ["0", "200", "400", "600", "800", "1000"]);
        assert_eq!((scale.share(0.0), scale.share(500.0)), (0.0, 0.5));
    }

    #[test]
    fn a_log_axis_marks_decades_or_where_they_are_few_what_lies_between() {
        let wide = Scale::log([30_000.0, 70_000_000.0]);
        assert_eq!(labels(&wide), ["100 µs", "1 ms", "10 ms", "100 ms"]);
        let narrow = Scale::log([1_200_000.0, 4_000_000.0]);
        assert_eq!(labels(&narrow), ["1 ms", "2 ms", "5 ms"]);
        assert_eq!(narrow.share(1_000_000.0), 0.0);
    }

    #[test]
    fn a_percentile_axis_gives_each_nine_the_same_room() {
        let scale = Scale::Percentile { nines: 4.0 };
        assert_eq!(labels(&scale), ["0", "50", "90", "99", "99.9", "99.99"]);
        assert!((scale.share(0.99) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn axes_of_nothing_or_of_one_value_are_no_reason_to_panic() {
        for values in [vec![], vec![0.0], vec![5.0], vec![f64::NAN]] {
            let scales = [
                Scale::log(values.clone()),
                Scale::linear(values, |value| value.to_string()),
            ];
            for scale in scales {
                assert!(!scale.ticks().is_empty(), "{scale:?}");
                assert!(scale.share(7.0).is_finite(), "{scale:?}");
            }
        }
    }
}
