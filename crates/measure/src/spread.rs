//! What several runs of the same say together: error bars come from runs, never from within one.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// Runs that an interval of their mean needs: with fewer, the least and the most say all that is known.
pub(crate) const RUNS_FOR_AN_INTERVAL: usize = 5;

/// One figure over several runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Runs that had the figure.
    pub runs: usize,
    /// The middle one; of an even number, the mean of the two in the middle.
    pub median: f64,
    /// Lowest.
    pub min: f64,
    /// Highest.
    pub max: f64,
    /// 95 % interval of the mean by Student's t, from its lower to its upper end; absent for fewer than five runs.
    pub interval: Option<(f64, f64)>,
}

impl Spread {
    /// The spread of these figures; `None` where there is none. Figures that are not finite are left out.
    #[must_use]
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = figures
            .into_iter()
            .filter(|figure| figure.is_finite())
            .collect();
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

    /// Whether some run differs from another.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.min < self.max
    }
}

fn interval(figures: &[f64]) -> Option<(f64, f64)> {
    if figures.len() < RUNS_FOR_AN_INTERVAL {
        return None;
    }
    let count = figures.len() as f64;
    let mean = figures.iter().sum::<f64>() / count;
    let variance = figures
        .iter()
        .map(|figure| (figure - mean).powi(2))
        .sum::<f64>()
        / (count - 1.0);
    let half = t95(figures.len() as u64 - 1) * (variance / count).sqrt();
    Some((mean - half, mean + half))
}

/// The factor of a 95 % interval, two-sided: the 97.5th percentile of Student's t with so many degrees of freedom.
///
/// # Panics
/// With no degree of freedom.
#[must_use]
pub fn t95(degrees: u64) -> f64 {
    StudentsT::new(0.0, 1.0, degrees as f64)
        .expect("there is a degree of freedom")
        .inverse_cdf(0.975)
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
                (t95(degrees) - factor).abs() < 0.000_6,
                "{degrees}: {}",
                t95(degrees)
            );
        }
    }

    #[test]
    fn five_runs_have_an_interval_and_four_have_none() {
        let five = Spread::of([10.0, 12.0, 11.0, 13.0, 9.0]).unwrap();
        assert_eq!(
            (five.runs, five.median, five.min, five.max),
            (5, 11.0, 9.0, 13.0)
        );
        // Mean 11, deviation √2.5, error of the mean √0.5.
        let (low, high) = five.interval.unwrap();
        assert!((low - (11.0 - 2.776 * 0.5_f64.sqrt())).abs() < 0.001);
        assert!((high - (11.0 + 2.776 * 0.5_f64.sqrt())).abs() < 0.001);
        assert_eq!(Spread::of([1.0, 2.0, 3.0, 4.0]).unwrap().interval, None);
    }

    #[test]
    fn an_even_number_of_runs_has_its_median_between_two() {
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
        assert_eq!(Spread::of([f64::NAN]), None);
    }
}
