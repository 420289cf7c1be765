//! The scale on which figures are compared: ratios or differences.

use super::{Figure, MARGIN};
use crate::summary::moments;

/// The largest difference of shares that is called the same, in percentage points.
const MARGIN_OF_SHARES: f64 = 0.1;

/// The way in which figures are compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ChangeScale {
    /// By their ratio: figures above 0 whose effects multiply.
    #[default]
    Ratio,
    /// By their difference: shares in percent, which may be 0.
    Difference,
}

impl ChangeScale {
    /// Returns the largest distance that is called the same.
    #[must_use]
    pub fn margin(self) -> f64 {
        match self {
            Self::Ratio => MARGIN.ln_1p(),
            Self::Difference => MARGIN_OF_SHARES,
        }
    }

    /// Returns the margin in words.
    #[must_use]
    pub fn margin_in_words(self) -> &'static str {
        match self {
            Self::Ratio => "3 %",
            Self::Difference => "0.1 percentage points",
        }
    }

    /// Returns the distance from one value to another: 0 if they are equal, and below 0 if the other is less.
    #[must_use]
    pub fn distance(self, from: f64, to: f64) -> f64 {
        self.apply(to) - self.apply(from)
    }

    /// Returns the reverse of a change.
    #[must_use]
    pub fn reversed(self, change: f64) -> f64 {
        match self {
            Self::Ratio => 1.0 / change,
            Self::Difference => -change,
        }
    }

    pub(crate) fn apply(self, value: f64) -> f64 {
        match self {
            Self::Ratio => value.ln(),
            Self::Difference => value,
        }
    }

    pub(crate) fn invert(self, distance: f64) -> f64 {
        match self {
            Self::Ratio => distance.exp(),
            Self::Difference => distance,
        }
    }

    pub(super) fn is_comparable(self, figure: &Figure) -> bool {
        figure.value.is_finite() && (figure.value > 0.0 || self == Self::Difference)
    }

    pub(super) fn on_scale(self, figures: &[Figure]) -> Vec<f64> {
        let values = figures.iter().map(|figure| figure.value);
        values.map(|value| self.apply(value)).collect()
    }

    pub(super) fn mean(self, figures: &[Figure]) -> f64 {
        let mean = moments(&self.on_scale(figures));
        mean.map_or(f64::NAN, |(mean, _)| self.invert(mean))
    }

    /// Returns the variance of a distance by rounding: a uniform distribution is as wide as the quantum.
    pub(super) fn rounding(self, figures: &[Figure]) -> f64 {
        let steps = figures.iter().map(|figure| match self {
            Self::Ratio => figure.quantum / figure.value,
            Self::Difference => figure.quantum,
        });
        steps.fold(0.0, f64::max).powi(2) / 12.0
    }
}

#[cfg(test)]
mod tests {
    use crate::change::tests::chance;
    use crate::change::{Change, ChangeScale, Figure, Size, Word};

    /// The probability of a wrong word about one of six secondary metrics.
    const SECONDARY: f64 = 0.05 / 6.0;

    fn paired(operations: u64, base: &[u64], this: &[u64]) -> Change {
        let share = |failed: &u64| Figure {
            value: 100.0 * *failed as f64 / operations as f64,
            quantum: 100.0 / operations as f64,
        };
        let pairs = base.iter().map(share).zip(this.iter().map(share));
        Change::paired(ChangeScale::Difference, pairs).unwrap()
    }

    /// Draws the failures of a run in which so many are expected (Knuth).
    fn failures(seed: &mut u64, expected: f64) -> u64 {
        let mut product = 1.0;
        let mut drawn = 0;
        loop {
            product *= chance(seed) + 0.5;
            if product <= (-expected).exp() {
                return drawn;
            }
            drawn += 1;
        }
    }

    /// Returns the share of suites that say better or worse. So many failures are expected in a run of each daemon; in
    /// one run of `burst` the machine makes ten times as many.
    fn found(runs: usize, operations: u64, expected: [f64; 2], burst: f64, error_rate: f64) -> f64 {
        const SUITES: usize = 2_000;
        let mut seed = 7;
        let found = (0..SUITES).filter(|_| {
            let mut side = |expected: f64| -> Vec<u64> {
                let run = |_| {
                    let is_burst = (chance(&mut seed) + 0.5) * burst > burst - 1.0;
                    let factor = if is_burst { 10.0 } else { 1.0 };
                    failures(&mut seed, expected * factor)
                };
                (0..runs).map(run).collect()
            };
            let [base, this] = expected.map(&mut side);
            let word = paired(operations, &base, &this)
                .finding(true, error_rate)
                .word;
            matches!(word, Word::Better(_) | Word::Worse(_))
        });
        found.count() as f64 / SUITES as f64
    }

    #[test]
    fn equal_shares_are_called_different_as_rarely_as_stated() {
        let never = f64::INFINITY;
        for (runs, operations, expected, burst) in [
            (5, 1_000_000, 0.2, never),
            (5, 1_000_000, 1.0, never),
            (3, 1_000, 1.0, never),
            (3, 1_000, 10.0, never),
            (5, 1_000, 10.0, never),
            (10, 1_000, 10.0, never),
            (5, 1_000, 2.0, 5.0),
            (5, 100, 1.0, never),
        ] {
            let wrong = found(runs, operations, [expected; 2], burst, 0.05);
            assert!(
                wrong <= 0.055,
                "{runs} runs with {expected} failures: {wrong}"
            );
        }
    }

    #[test]
    fn one_failure_of_a_hundred_is_found_by_five_runs() {
        for (operations, least) in [(1_000, 0.8), (10_000, 0.99)] {
            let expected = [0.0, operations as f64 / 100.0];
            let found = found(5, operations, expected, f64::INFINITY, SECONDARY);
            assert!(found >= least, "{operations} operations: {found}");
        }
    }

    #[test]
    fn a_difference_of_shares_has_words_for_its_size() {
        let word = |base: &[u64], this: &[u64]| {
            let finding = paired(1_000_000, base, this).finding(true, 0.05);
            (finding.word, finding.reversed().word)
        };
        let none = [0; 5];
        let (worse, better) = word(&none, &[12_000, 11_000, 13_000, 12_500, 11_500]);
        assert_eq!(worse, Word::Worse(Size::AtLeastMargin));
        assert_eq!(better, Word::Better(Size::AtLeastMargin));
        let (few, _) = word(&none, &[100, 110, 90, 105, 95]);
        assert_eq!(few, Word::Worse(Size::BelowMargin));
        assert_eq!(word(&none, &[0, 0, 1, 0, 0]).0, Word::Same);
        assert_eq!(word(&none, &[0, 9_000, 0, 0, 0]).0, Word::Undecided);
        // Two hundred operations show no share as small as the margin.
        let small = paired(200, &none, &none).finding(true, 0.05);
        assert_eq!(small.word, Word::Undecided);
        let change = paired(1_000, &[0, 10], &[30, 20]);
        assert_eq!((change.means, change.value()), ([0.5, 2.5], 2.0));
        assert_eq!(change.range, (1.0, 3.0));
    }
}
