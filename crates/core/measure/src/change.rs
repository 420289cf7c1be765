//! The change of a figure between two sets of runs, its interval over the runs, and what they prove.
//!
//! Performance figures are skewed and their effects multiply, so their computations use logarithms: the change is a ratio of
//! geometric means, which are what tables show. The share of failed operations is mostly 0 and has no logarithm: its change
//! is a difference of arithmetic means. Intervals are Student's, over runs and never from within one.

use crate::summary::{moments, t_quantile};

mod scale;

pub use scale::ChangeScale;

/// Probability of a wrong word about the primary metric, and about all secondary ones together.
const ERROR_RATE: f64 = 0.05;
/// The largest change that is called the same, as a share. Symmetric: 3 % more, or less by the same factor.
pub const MARGIN: f64 = 0.03;
/// Probability with which the smallest difference that runs can show is found.
const POWER: f64 = 0.8;
/// Minimum number of runs of each side for an interval.
pub const FEWEST_RUNS: usize = 3;
/// Maximum number of runs that is worth planning.
const MOST_RUNS: usize = 200;

/// A figure of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// The value; on the scale of ratios it is above 0.
    pub value: f64,
    /// The step in which the value is read: a page of memory, a tick of a clock, an operation.
    pub quantum: f64,
}

/// Words that are read together, so that their probabilities of being wrong add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    /// Metrics beside the primary one.
    pub secondary: usize,
    /// Comparisons by each metric.
    pub comparisons: usize,
    /// Number of times that the runs were compared before further ones were added.
    pub looks: u64,
}

/// A figure relative to a baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The scale.
    pub scale: ChangeScale,
    /// Means of the baseline and of this, over the same runs as the change: geometric ones of ratios.
    pub means: [f64; 2],
    /// Runs: pairs, or the runs of the side that has fewer.
    pub runs: usize,
    /// The lowest and the highest change of a pair; without pairs, the changes between the most distant runs.
    pub range: (f64, f64),
    /// Variance of the distance of the means by the variation of the runs.
    variance: f64,
    /// The same by rounding to the quantum, which further runs do not reduce: they are rounded alike.
    rounding: f64,
    /// Degrees of freedom.
    freedom: f64,
    is_paired: bool,
}

/// The statement that runs prove about a change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Finding {
    /// The word.
    pub word: Word,
    /// The scale of the change.
    pub scale: ChangeScale,
    /// The interval of the change that the word is about, lower and upper end; absent for fewer than three runs.
    pub interval: Option<(f64, f64)>,
    /// The smallest change that these runs would have shown in four of five cases, as a share of the baseline or as a
    /// difference; absent if the interval is.
    pub smallest: Option<f64>,
}

/// A statement about the interval of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// The interval excludes equality, in the wanted direction.
    Better(Size),
    /// The interval excludes equality, in the unwanted direction.
    Worse(Size),
    /// The interval holds equality, and lies within the margin.
    Same,
    /// The interval holds equality, and reaches beyond the margin.
    Undecided,
    /// There are fewer than three runs.
    TooFewRuns,
}

/// The size of a change that is better or worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// The interval lies beyond the margin.
    AtLeastMargin,
    /// The interval holds the margin.
    AnySize,
    /// The interval lies within the margin.
    BelowMargin,
}

impl Finding {
    /// Returns the statement about the reverse change.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self {
            word: match self.word {
                Word::Better(size) => Word::Worse(size),
                Word::Worse(size) => Word::Better(size),
                other => other,
            },
            interval: self
                .interval
                .map(|(low, high)| (self.scale.reversed(high), self.scale.reversed(low))),
            ..self
        }
    }
}

impl Size {
    /// Returns the words about a change of this size, behind a space; none if the interval holds the margin.
    #[must_use]
    pub fn words(self, scale: ChangeScale) -> String {
        let margin = scale.margin_in_words();
        match self {
            Self::AtLeastMargin => format!(" by at least {margin}"),
            Self::AnySize => String::new(),
            Self::BelowMargin => format!(" by less than {margin}"),
        }
    }
}

impl Family {
    /// Returns the probability with which the interval of one comparison may be wrong.
    ///
    /// The secondary metrics share one probability, and so do the comparisons by one metric (Bonferroni). Each further look at
    /// growing runs gets half the probability of the look before, so that all of them together have less than twice the
    /// first one's, however often somebody looks.
    #[must_use]
    pub fn error_rate(&self, is_primary: bool) -> f64 {
        let metrics = if is_primary { 1 } else { self.secondary.max(1) };
        error_rate_of_look(self.looks) / metrics as f64 / self.comparisons.max(1) as f64
    }
}

/// Returns the probability of a wrong word about the primary metric after some earlier looks at the runs.
#[must_use]
pub fn error_rate_of_look(earlier: u64) -> f64 {
    ERROR_RATE / 2.0_f64.powi(i32::try_from(earlier).unwrap_or(i32::MAX))
}

impl Change {
    /// Compares runs in pairs, the baseline first, that were made next to each other. Disturbances of both cancel out.
    ///
    /// Returns `None` if no pair has two figures that the scale can compare.
    pub fn paired(
        scale: ChangeScale,
        pairs: impl IntoIterator<Item = (Figure, Figure)>,
    ) -> Option<Self> {
        let pairs = pairs.into_iter();
        let (base, this): (Vec<Figure>, Vec<Figure>) = pairs
            .filter(|(base, this)| scale.is_comparable(base) && scale.is_comparable(this))
            .unzip();
        let distances: Vec<f64> = base
            .iter()
            .zip(&this)
            .map(|(base, this)| scale.distance(base.value, this.value))
            .collect();
        let (_, variance) = moments(&distances)?;
        Some(Self {
            scale,
            means: [scale.mean(&base), scale.mean(&this)],
            runs: distances.len(),
            range: (
                scale.invert(least(&distances)),
                scale.invert(most(&distances)),
            ),
            variance: variance / distances.len() as f64,
            rounding: scale.rounding(&base) + scale.rounding(&this),
            freedom: distances.len() as f64 - 1.0,
            is_paired: true,
        })
    }

    /// Compares two independent sets of runs (Welch's t-test).
    ///
    /// Returns `None` if a set has no figure that the scale can compare.
    pub fn unpaired(scale: ChangeScale, base: &[Figure], this: &[Figure]) -> Option<Self> {
        let [base, this] = [base, this].map(|figures| -> Vec<Figure> {
            let figures = figures.iter().copied();
            figures.filter(|one| scale.is_comparable(one)).collect()
        });
        let [base_values, values] = [&base, &this].map(|figures| scale.on_scale(figures));
        let ((_, base_variance), (_, variance)) = (moments(&base_values)?, moments(&values)?);
        let one = base_variance / base.len() as f64;
        let other = variance / this.len() as f64;
        let degrees = |part: f64, count: usize| part.powi(2) / (count as f64 - 1.0).max(1.0);
        // Welch–Satterthwaite. Without any variance, the fewest degrees that it can give.
        let parts = degrees(one, base.len()) + degrees(other, this.len());
        let runs = base.len().min(this.len());
        let freedom = if parts > 0.0 {
            (one + other).powi(2) / parts
        } else {
            runs as f64 - 1.0
        };
        Some(Self {
            scale,
            means: [scale.mean(&base), scale.mean(&this)],
            runs,
            range: (
                scale.invert(least(&values) - most(&base_values)),
                scale.invert(most(&values) - least(&base_values)),
            ),
            variance: one + other,
            rounding: scale.rounding(&base) + scale.rounding(&this),
            freedom,
            is_paired: false,
        })
    }

    /// Returns the change from the baseline to this: a ratio of geometric means, or a difference of arithmetic ones.
    #[must_use]
    pub fn value(&self) -> f64 {
        match self.scale {
            ChangeScale::Ratio => self.means[1] / self.means[0],
            ChangeScale::Difference => self.means[1] - self.means[0],
        }
    }

    /// Returns what the runs prove, if a wrong word may have a probability of `error_rate`.
    #[must_use]
    pub fn finding(&self, is_lower_better: bool, error_rate: f64) -> Finding {
        if self.runs < FEWEST_RUNS {
            return Finding {
                word: Word::TooFewRuns,
                scale: self.scale,
                interval: None,
                smallest: None,
            };
        }
        let distance = self.scale.distance(self.means[0], self.means[1]);
        let error = (self.variance + self.rounding).sqrt();
        let half = t_quantile(1.0 - error_rate / 2.0, self.freedom) * error;
        let smallest = half + t_quantile(POWER, self.freedom) * error;
        let (low, high) = (distance - half, distance + half);
        Finding {
            word: word((low, high), self.scale.margin(), is_lower_better),
            scale: self.scale,
            interval: Some((self.scale.invert(low), self.scale.invert(high))),
            smallest: Some(match self.scale {
                ChangeScale::Ratio => smallest.exp_m1(),
                ChangeScale::Difference => smallest,
            }),
        }
    }

    /// Returns the number of runs of each side that would show a change of the margin in four of five cases, by the
    /// variance of these. It does not depend on their change, so that nobody plans until a word appears. Returns `None`
    /// for fewer than three runs, and if more would be needed than are worth planning.
    #[must_use]
    pub fn needed(&self, error_rate: f64) -> Option<usize> {
        let of_one_run = self.variance * self.runs as f64;
        let is_shown = |runs: usize| {
            let freedom = (runs - 1) as f64 * if self.is_paired { 1.0 } else { 2.0 };
            let error = (of_one_run / runs as f64 + self.rounding).sqrt();
            let factor = t_quantile(1.0 - error_rate / 2.0, freedom) + t_quantile(POWER, freedom);
            factor * error <= self.scale.margin()
        };
        if self.runs < FEWEST_RUNS || !is_shown(MOST_RUNS) {
            return None;
        }
        let (mut fewer, mut enough) = (FEWEST_RUNS - 1, MOST_RUNS);
        while enough - fewer > 1 {
            let middle = usize::midpoint(fewer, enough);
            if is_shown(middle) {
                enough = middle;
            } else {
                fewer = middle;
            }
        }
        Some(enough)
    }
}

/// Returns the word for an interval of a distance.
fn word((low, high): (f64, f64), margin: f64, is_lower_better: bool) -> Word {
    let is_within = low > -margin && high < margin;
    if low <= 0.0 && high >= 0.0 {
        return if is_within {
            Word::Same
        } else {
            Word::Undecided
        };
    }
    let size = if low >= margin || high <= -margin {
        Size::AtLeastMargin
    } else if is_within {
        Size::BelowMargin
    } else {
        Size::AnySize
    };
    if (high < 0.0) == is_lower_better {
        Word::Better(size)
    } else {
        Word::Worse(size)
    }
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: [f64; 5] = [100.0, 104.0, 98.0, 102.0, 96.0];
    /// The probability of a wrong word about a single comparison by the primary metric.
    const ALONE: f64 = 0.05;

    fn figures(values: impl IntoIterator<Item = f64>) -> Vec<Figure> {
        let figure = |value| Figure {
            value,
            quantum: 0.0,
        };
        values.into_iter().map(figure).collect()
    }

    fn paired(base: &[f64], this: &[f64]) -> Change {
        let [base, this] = [base, this].map(|values| figures(values.iter().copied()));
        Change::paired(ChangeScale::Ratio, base.into_iter().zip(this)).unwrap()
    }

    #[test]
    fn a_factor_in_every_pair_is_found_whatever_disturbs_both() {
        let base = [100.0, 180.0, 90.0, 400.0, 130.0];
        let this = base.map(|base| base * 1.2);
        let change = paired(&base, &this);
        assert!((change.value() - 1.2).abs() < 1e-9, "{change:?}");
        let word = |is_lower_better| change.finding(is_lower_better, ALONE).word;
        assert_eq!(word(false), Word::Better(Size::AtLeastMargin));
        assert_eq!(word(true), Word::Worse(Size::AtLeastMargin));
        // As independent runs, the same figures decide nothing.
        let change = Change::unpaired(ChangeScale::Ratio, &figures(base), &figures(this)).unwrap();
        assert!((change.value() - 1.2).abs() < 1e-9);
        assert_eq!(change.finding(false, ALONE).word, Word::Undecided);
    }

    #[test]
    fn an_interval_is_that_of_the_formula() {
        // Logs 0.0, 0.1, 0.2, 0.3, 0.4: mean 0.2, deviation √0.025, error √0.005, factor 2.776, at 1 % 4.604.
        let this = [0.0_f64, 0.1, 0.2, 0.3, 0.4].map(f64::exp);
        let change = paired(&[1.0; 5], &this);
        for (error_rate, factor) in [(0.05, 2.776), (0.01, 4.604)] {
            let (low, high) = change.finding(true, error_rate).interval.unwrap();
            let half = factor * 0.005_f64.sqrt();
            assert!((low.ln() - (0.2 - half)).abs() < 1e-4, "{low}");
            assert!((high.ln() - (0.2 + half)).abs() < 1e-4, "{high}");
        }
        // Two samples with the same variance and number have 2n − 2 degrees of freedom: t of 8 is 2.306.
        let this = BASE.map(|value| value * 1.1);
        let change = Change::unpaired(ChangeScale::Ratio, &figures(BASE), &figures(this)).unwrap();
        let (_, variance) = moments(&BASE.map(f64::ln)).unwrap();
        let half = 2.306 * (2.0 * variance / 5.0).sqrt();
        let (low, _) = change.finding(true, ALONE).interval.unwrap();
        assert!((low.ln() - (1.1_f64.ln() - half)).abs() < 1e-4, "{low}");
    }

    #[test]
    fn a_word_is_a_statement_about_the_interval() {
        for ((low, high), expected) in [
            ((1.04, 1.2), Word::Worse(Size::AtLeastMargin)),
            ((1.01, 1.2), Word::Worse(Size::AnySize)),
            ((1.01, 1.02), Word::Worse(Size::BelowMargin)),
            ((0.5, 0.8), Word::Better(Size::AtLeastMargin)),
            ((0.98, 0.99), Word::Better(Size::BelowMargin)),
            ((0.98, 1.02), Word::Same),
            ((0.96, 1.02), Word::Undecided),
            ((0.98, 1.2), Word::Undecided),
        ] {
            let interval: (f64, f64) = (low, high);
            let logs = (interval.0.ln(), interval.1.ln());
            let found = word(logs, ChangeScale::Ratio.margin(), true);
            assert_eq!(found, expected, "{interval:?}");
        }
    }

    #[test]
    fn few_runs_are_never_a_word() {
        let two = paired(&[1.0; 2], &[25.0, 33.0]).finding(true, ALONE);
        assert_eq!((two.word, two.interval), (Word::TooFewRuns, None));
        assert_eq!(Change::paired(ChangeScale::Ratio, []), None);
        let zero = figures([0.0, 1.0])
            .into_iter()
            .zip(figures([1.0, f64::NAN]));
        assert_eq!(Change::paired(ChangeScale::Ratio, zero), None);
        assert_eq!(
            Change::unpaired(ChangeScale::Ratio, &[], &figures(BASE)),
            None
        );
    }

    #[test]
    fn equal_runs_prove_no_more_than_their_quantum() {
        let pages = |pages: f64| Figure {
            value: pages,
            quantum: 1.0,
        };
        let word = |base: f64, this: f64, runs: usize| {
            let pairs = (0..runs).map(|_| (pages(base), pages(this)));
            Change::paired(ChangeScale::Ratio, pairs)
                .unwrap()
                .finding(true, ALONE)
                .word
        };
        assert_eq!(word(14.0, 15.0, 3), Word::Undecided);
        // Further runs are rounded alike, so they prove no size.
        assert_eq!(word(15.0, 16.0, 100), Word::Worse(Size::AnySize));
        assert_eq!(word(1_000.0, 1_000.0, 5), Word::Same);
        assert_eq!(word(1_000.0, 2_000.0, 5), Word::Worse(Size::AtLeastMargin));
    }

    /// Deterministic pseudo-random numbers (SplitMix64) from −0.5 to 0.5.
    pub(super) fn chance(seed: &mut u64) -> f64 {
        *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = *seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) as f64 / u64::MAX as f64 - 0.5
    }

    /// Runs of two daemons in turns, on a machine that drifts by a quarter while they run. Their variation is `cv`; one
    /// run in twenty is slower by 2 `cv` more.
    struct Suites {
        seed: u64,
        cv: f64,
    }

    impl Suites {
        fn deviation(&mut self) -> f64 {
            // A sum of twelve is close to normal.
            let normal: f64 = (0..12).map(|_| chance(&mut self.seed)).sum();
            let is_burst = chance(&mut self.seed) > 0.45;
            self.cv * (normal + if is_burst { 2.0 } else { 0.0 })
        }

        /// Returns the pairs of a suite in which the second daemon is slower by a share.
        fn suite(&mut self, runs: usize, slower: f64) -> [Vec<f64>; 2] {
            let pairs = (0..runs).map(|run| {
                let machine = 1.0 + 0.25 * run as f64 / runs as f64;
                let [base, this] = [0, 1].map(|_| machine * self.deviation().exp());
                (base, this * (1.0 + slower))
            });
            let (base, this) = pairs.unzip();
            [base, this]
        }

        /// Returns the share of suites whose primary metric has a word for a difference.
        fn found(&mut self, suites: usize, runs: usize, slower: f64) -> f64 {
            let found = (0..suites).filter(|_| {
                let [base, this] = self.suite(runs, slower);
                let word = paired(&base, &this).finding(true, ALONE).word;
                matches!(word, Word::Better(_) | Word::Worse(_))
            });
            found.count() as f64 / suites as f64
        }
    }

    #[test]
    fn equal_daemons_are_called_different_as_rarely_as_stated() {
        for (runs, cv) in [(5, 0.012), (10, 0.012), (5, 0.25), (3, 0.05)] {
            let found = Suites { seed: 1, cv }.found(2_000, runs, 0.0);
            // 5 %, plus and minus four deviations. A method that never finds a change must fail too.
            assert!(
                (0.03..=0.07).contains(&found),
                "{runs} runs of {cv}: {found}"
            );
        }
    }

    #[test]
    fn several_metrics_and_daemons_are_called_different_as_rarely_as_stated() {
        let mut suites = Suites { seed: 2, cv: 0.05 };
        for (secondary, daemons, most) in [(5, 2, 0.05), (5, 4, 0.09), (0, 4, 0.09)] {
            let family = Family {
                secondary,
                comparisons: daemons - 1,
                looks: 0,
            };
            let mut is_wrong = |is_primary: bool| {
                let times: Vec<Vec<f64>> = (0..daemons)
                    .map(|_| suites.suite(5, 0.0)[0].clone())
                    .collect();
                let mean = |values: &Vec<f64>| values.iter().map(|value| value.ln()).sum::<f64>();
                let best = times
                    .iter()
                    .min_by(|one, other| mean(one).total_cmp(&mean(other)))
                    .unwrap();
                times.iter().any(|other| {
                    let word = paired(other, best)
                        .finding(true, family.error_rate(is_primary))
                        .word;
                    matches!(word, Word::Better(_) | Word::Worse(_))
                })
            };
            let mut wrong = [0, 0];
            for _ in 0..500 {
                wrong[0] += usize::from(is_wrong(true));
                wrong[1] += usize::from((0..secondary).filter(|_| is_wrong(false)).count() > 0);
            }
            let [primary, others] = wrong.map(|wrong| wrong as f64 / 500.0);
            assert!(
                (0.02..=most + 0.035).contains(&primary),
                "{daemons}: {primary}"
            );
            assert!(others <= most + 0.035, "{daemons}: {others}");
        }
    }

    #[test]
    fn looking_again_at_growing_runs_makes_fewer_than_one_wrong_word_in_ten() {
        let mut suites = Suites { seed: 6, cv: 0.02 };
        let wrong = (0..1_000).filter(|_| {
            let [base, this] = suites.suite(40, 0.0);
            (0..4).any(|looks| {
                let family = Family {
                    secondary: 0,
                    comparisons: 1,
                    looks,
                };
                let runs = 5 << looks;
                let change = paired(&base[..runs], &this[..runs]);
                let word = change.finding(true, family.error_rate(true)).word;
                matches!(word, Word::Better(_) | Word::Worse(_))
            })
        });
        let wrong = wrong.count() as f64 / 1_000.0;
        // At 5 % for each of the looks it is about 14 %.
        assert!((0.05..=0.1).contains(&wrong), "{wrong}");
    }

    #[test]
    fn shifts_are_found_at_ten_repetitions_where_runs_vary_little() {
        for (cv, slower, least) in [(0.012, 0.05, 0.95), (0.02, 0.05, 0.8), (0.02, 0.1, 0.99)] {
            let found = Suites { seed: 3, cv }.found(1_000, 10, slower);
            assert!(found >= least, "{cv}, {slower}: {found}");
        }
    }

    #[test]
    fn the_smallest_change_that_runs_show_is_found_in_four_of_five_suites() {
        for (runs, cv) in [(5, 0.02), (5, 0.25), (10, 0.1)] {
            let mut suites = Suites { seed: 4, cv };
            // The mean of what suites of this variation say, and the share in which such a change is found.
            let smallest = (0..500).map(|_| {
                let [base, this] = suites.suite(runs, 0.0);
                paired(&base, &this)
                    .finding(true, ALONE)
                    .smallest
                    .unwrap()
                    .ln_1p()
            });
            let smallest = (smallest.sum::<f64>() / 500.0).exp_m1();
            let found = suites.found(1_000, runs, smallest);
            assert!(
                (0.72..=0.9).contains(&found),
                "{runs} runs of {cv}: {found}"
            );
        }
    }

    #[test]
    fn the_number_of_runs_that_is_planned_shows_a_change_of_the_margin() {
        let mut suites = Suites { seed: 5, cv: 0.03 };
        let planned: Vec<usize> = (0..500)
            .filter_map(|_| {
                let [base, this] = suites.suite(10, 0.0);
                paired(&base, &this).needed(ALONE)
            })
            .collect();
        let mean = planned.iter().sum::<usize>() / planned.len();
        let found = suites.found(1_000, mean, MARGIN);
        assert!((0.7..=0.9).contains(&found), "{mean} runs: {found}");
        let wide = paired(&[1.0; 5], &[1.0, 5.0, 0.2, 9.0, 0.1]);
        assert_eq!(wide.needed(ALONE), None);
    }
}
