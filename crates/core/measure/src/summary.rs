//! Statistics over repeated runs. Error bars are computed over runs, never from within one.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// Minimum number of runs for an interval of their mean. With fewer, lowest and highest are all that is known.
const RUNS_FOR_AN_INTERVAL: usize = 5;

/// A figure summarized over several runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SummaryStats {
    /// Runs that had the figure.
    pub runs: usize,
    /// Median; for an even number of runs, the mean of the two middle values.
    pub median: f64,
    /// Lowest value.
    pub min: f64,
    /// Highest value.
    pub max: f64,
    /// 95 % interval of the mean by Student's t, lower and upper end; absent for fewer than five runs.
    pub interval: Option<(f64, f64)>,
}

impl SummaryStats {
    /// Summarizes figures, ignoring those that are not finite. Returns `None` if none is left.
    pub fn from_values(values: impl IntoIterator<Item = f64>) -> Option<Self> {
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
        Some(Self {
            runs: sorted.len(),
            median,
            min,
            max,
            interval: interval(&sorted),
        })
    }

    /// Returns true if the runs do not all have the same value.
    pub fn differs(&self) -> bool {
        self.min < self.max
    }
}

fn interval(values: &[f64]) -> Option<(f64, f64)> {
    let (mean, variance) = moments(values)?;
    (values.len() >= RUNS_FOR_AN_INTERVAL).then(|| {
        let error = (variance / values.len() as f64).sqrt();
        let half = t_quantile_975(values.len() as u64 - 1) * error;
        (mean - half, mean + half)
    })
}

/// Returns mean and variance; the variance of a single value is 0.
pub(crate) fn moments(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean).powi(2));
    (!values.is_empty()).then(|| (mean, squares.sum::<f64>() / (count - 1.0).max(1.0)))
}

/// Returns the factor of a two-sided 95 % interval: the 97.5th percentile of Student's t with `degrees` degrees of
/// freedom.
///
/// # Panics
/// If `degrees` is 0.
pub fn t_quantile_975(degrees: u64) -> f64 {
    t_quantile(degrees, 0.975)
}

/// Returns the quantile `share` of Student's t with `degrees` degrees of freedom, of which there must be one.
pub(crate) fn t_quantile(degrees: u64, share: f64) -> f64 {
    StudentsT::new(0.0, 1.0, degrees as f64)
        .expect("there is a degree of freedom")
        .inverse_cdf(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factors_are_those_of_the_printed_table() {
        // NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2.
        for (degrees, factor) in [
            (1, 12.706),
            (2, 4.303),
            (4, 2.776),
            (9, 2.262),
            (30, 2.042),
            (100, 1.984),
        ] {
            assert!(
                (t_quantile_975(degrees) - factor).abs() < 0.000_6,
                "{degrees}: {}",
                t_quantile_975(degrees)
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
        // Mean 11, deviation √2.5, error of the mean √0.5.
        let (low, high) = five.interval.unwrap();
        assert!((low - (11.0 - 2.776 * 0.5_f64.sqrt())).abs() < 0.001);
        assert!((high - (11.0 + 2.776 * 0.5_f64.sqrt())).abs() < 0.001);
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
