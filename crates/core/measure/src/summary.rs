//! Statistics over repeated runs. Error bars are computed over runs, never from within one.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

use crate::change::ChangeScale;

/// Minimum number of runs for an interval of their mean. With fewer, lowest and highest are all that is known.
const RUNS_FOR_AN_INTERVAL: usize = 5;

/// A figure summarized over several runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SummaryStats {
    /// Runs that had the figure.
    pub runs: usize,
    /// Median; for an even number of runs, the mean of the two middle values.
    pub median: f64,
    /// Geometric mean, or the arithmetic one if a value is not above 0. It is the location that comparisons test.
    pub mean: f64,
    /// Lowest value.
    pub min: f64,
    /// Highest value.
    pub max: f64,
    /// 95 % interval of that mean by Student's t, lower and upper end; absent for fewer than five runs.
    pub interval: Option<(f64, f64)>,
}

impl SummaryStats {
    /// Summarizes figures, ignoring those that are not finite. Returns `None` if none is left.
    pub fn from_values(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        Self::on(ChangeScale::Ratio, values)
    }

    /// Summarizes figures that are compared on this scale, as [`from_values`](Self::from_values) does. The mean of
    /// differences is always the arithmetic one.
    pub fn on(scale: ChangeScale, values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let finite = values.into_iter().filter(|value| value.is_finite());
        let mut sorted: Vec<f64> = finite.collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        } else {
            sorted[middle]
        };
        let scale = if min > 0.0 {
            scale
        } else {
            ChangeScale::Difference
        };
        let (mean, interval) = location(scale, &sorted)?;
        Some(Self {
            runs: sorted.len(),
            median,
            mean,
            min,
            max,
            interval,
        })
    }

    /// Returns true if the runs do not all have the same value.
    pub fn differs(&self) -> bool {
        self.min < self.max
    }
}

/// Returns the mean of sorted values with its interval.
fn location(scale: ChangeScale, sorted: &[f64]) -> Option<(f64, Option<(f64, f64)>)> {
    if sorted.first() == sorted.last() {
        // Logarithms would round it.
        let value = *sorted.first()?;
        let interval = (sorted.len() >= RUNS_FOR_AN_INTERVAL).then_some((value, value));
        return Some((value, interval));
    }
    let scaled: Vec<f64> = sorted.iter().map(|value| scale.apply(*value)).collect();
    let (mean, variance) = moments(&scaled)?;
    let interval = (sorted.len() >= RUNS_FOR_AN_INTERVAL).then(|| {
        let error = (variance / sorted.len() as f64).sqrt();
        let half = t_quantile(0.975, sorted.len() as f64 - 1.0) * error;
        (scale.invert(mean - half), scale.invert(mean + half))
    });
    Some((scale.invert(mean), interval))
}

/// Returns mean and variance; the variance of a single value is 0.
pub(crate) fn moments(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean).powi(2));
    (!values.is_empty()).then(|| (mean, squares.sum::<f64>() / (count - 1.0).max(1.0)))
}

/// Returns a quantile of Student's t; for 0.975, the factor of a two-sided 95 % interval.
///
/// # Panics
/// If the degrees of freedom are not above 0.
pub fn t_quantile(probability: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom)
        .expect("there is a degree of freedom")
        .inverse_cdf(probability)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factors_are_those_of_the_printed_table() {
        // NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2.
        for (degrees, factor) in [
            (1.0, 12.706),
            (2.0, 4.303),
            (4.0, 2.776),
            (9.0, 2.262),
            (30.0, 2.042),
            (100.0, 1.984),
        ] {
            assert!(
                (t_quantile(0.975, degrees) - factor).abs() < 0.000_6,
                "{degrees}: {}",
                t_quantile(0.975, degrees)
            );
        }
    }

    #[test]
    fn five_runs_have_an_interval_and_four_have_none() {
        let five = SummaryStats::from_values([10.0, 12.0, 11.0, 13.0, 9.0]).unwrap();
        assert_eq!(
            (five.runs, five.median, five.min, five.max),
            (5, 11.0, 9.0, 13.0)
        );
        // Of the logarithms: mean 2.3896, deviation 0.1453.
        assert!((five.mean - 10.908).abs() < 0.001, "{five:?}");
        let (low, high) = five.interval.unwrap();
        let factor = (2.776 * 0.1453 / 5.0_f64.sqrt()).exp();
        assert!((low - 10.908 / factor).abs() < 0.005, "{five:?}");
        assert!((high - 10.908 * factor).abs() < 0.005, "{five:?}");
        // With a value of 0: mean 2, deviation √2.5.
        let zero = SummaryStats::from_values([0.0, 1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!(zero.mean, 2.0);
        let half = 2.776 * 0.5_f64.sqrt();
        assert!((zero.interval.unwrap().1 - (2.0 + half)).abs() < 0.001);
        assert_eq!(
            SummaryStats::from_values([1.0, 2.0, 3.0, 4.0])
                .unwrap()
                .interval,
            None
        );
    }

    #[test]
    fn an_even_number_of_runs_has_its_median_between_two() {
        assert_eq!(
            SummaryStats::from_values([4.0, 1.0, 2.0, 3.0])
                .unwrap()
                .median,
            2.5
        );
        assert_eq!(SummaryStats::from_values([f64::NAN]), None);
    }
}
