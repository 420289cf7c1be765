//! The change of a figure between two sets of runs: a ratio, its interval over the runs, and the conclusion.
//!
//! Performance figures are skewed and their effects multiply, so all computations use logarithms: the ratio is one of
//! geometric means. Intervals and p-values are Student's, over runs and never from within one.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

use crate::summary::moments;

/// Probability of at least one false conclusion among all that are drawn together.
const ERROR_RATE: f64 = 0.05;
/// Smallest relevant change, as a share.
const MIN_EFFECT: f64 = 0.03;
/// Minimum number of runs of each side for an interval of a ratio, and for a conclusion. Student's t allows for the
/// uncertainty of few runs: with three, only a change that is far larger than the scatter is significant.
pub(crate) const RUNS_FOR_A_CONCLUSION: usize = 3;

/// A figure relative to a baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// This over the baseline, as a ratio of geometric means.
    pub ratio: f64,
    /// 95 % interval of the ratio, lower and upper end; absent for fewer than three runs of either.
    pub interval: Option<(f64, f64)>,
    /// Probability of a ratio at least this far from 1 without a change (p-value); absent if the interval is.
    pub p: Option<f64>,
}

/// The conclusion about a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conclusion {
    /// The change is in the wanted direction, at least 3 %, and significant.
    Better,
    /// The change is in the unwanted direction, at least 3 %, and significant.
    Worse,
    /// The change is too small, or the runs are too few or too scattered.
    NoEvidence,
}

impl std::fmt::Display for Conclusion {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NoEvidence => "no evidence",
        })
    }
}

impl Ratio {
    /// Compares runs in pairs, the baseline first, that were made next to each other. Disturbances of both cancel out.
    ///
    /// Returns `None` if no pair has two figures above 0.
    pub fn paired(pairs: impl IntoIterator<Item = (f64, f64)>) -> Option<Self> {
        let logs = finite_logs(pairs.into_iter().map(|(base, this)| this / base));
        let (mean, variance) = moments(&logs)?;
        let count = logs.len() as f64;
        let error = (variance / count).sqrt();
        Some(Self::from_logs(mean, error, count - 1.0, logs.len()))
    }

    /// Compares two independent sets of runs (Welch's t-test).
    ///
    /// Returns `None` if a set has no figure above 0.
    pub fn unpaired(base: &[f64], this: &[f64]) -> Option<Self> {
        let [base, this] = [base, this].map(|values| finite_logs(values.iter().copied()));
        let ((base_mean, base_variance), (mean, variance)) = (moments(&base)?, moments(&this)?);
        let (one, other) = (
            base_variance / base.len() as f64,
            variance / this.len() as f64,
        );
        let degrees = |part: f64, count: usize| part.powi(2) / (count as f64 - 1.0).max(1.0);
        // Welch–Satterthwaite; without any variance every number of degrees gives the same result.
        let parts = degrees(one, base.len()) + degrees(other, this.len());
        let freedom = if parts > 0.0 {
            (one + other).powi(2) / parts
        } else {
            1.0
        };
        let (log, error) = (mean - base_mean, (one + other).sqrt());
        let fewest_runs = base.len().min(this.len());
        Some(Self::from_logs(log, error, freedom, fewest_runs))
    }

    fn from_logs(log: f64, error: f64, freedom: f64, runs: usize) -> Self {
        let student = (runs >= RUNS_FOR_A_CONCLUSION)
            .then(|| StudentsT::new(0.0, 1.0, freedom).ok())
            .flatten();
        let half = student.map(|student| student.inverse_cdf(0.975) * error);
        let p = student.map(|student| {
            if error > 0.0 {
                2.0 * student.cdf(-(log / error).abs())
            } else {
                f64::from(u8::from(log == 0.0))
            }
        });
        Self {
            ratio: log.exp(),
            interval: half.map(|half| ((log - half).exp(), (log + half).exp())),
            p,
        }
    }

    /// Returns true if the whole interval is smaller than a relevant change: more runs would find none either.
    pub(crate) fn is_irrelevant(&self) -> bool {
        let is_small = |ratio: f64| ratio.ln().abs() < (1.0 + MIN_EFFECT).ln();
        let ends = self.interval.map(|(low, high)| [low, high]);
        ends.is_some_and(|ends| ends.into_iter().all(is_small))
    }

    fn direction(&self, lower_is_better: bool) -> Conclusion {
        // Symmetric in both directions: half and double are the same change.
        if self.ratio.ln().abs() < (1.0 + MIN_EFFECT).ln() {
            Conclusion::NoEvidence
        } else if (self.ratio < 1.0) == lower_is_better {
            Conclusion::Better
        } else {
            Conclusion::Worse
        }
    }
}

/// Returns the logarithms of the values above 0.
fn finite_logs(values: impl Iterator<Item = f64>) -> Vec<f64> {
    values.map(f64::ln).filter(|log| log.is_finite()).collect()
}

/// Draws conclusions about several changes that are read together, each with a flag that is true if lower is better.
///
/// At 5 % each, twenty comparisons give a false positive more often than not. The probability of any false conclusion
/// among all of these is 5 % (Holm 1979).
pub fn holm_conclusions(changes: &[(Ratio, bool)]) -> Vec<Conclusion> {
    let mut order: Vec<usize> = (0..changes.len())
        .filter(|index| changes[*index].0.p.is_some())
        .collect();
    let p = |index: usize| changes[index].0.p.unwrap_or(1.0);
    order.sort_by(|one, other| p(*one).total_cmp(&p(*other)));
    let mut conclusions = vec![Conclusion::NoEvidence; changes.len()];
    for (rank, index) in order.iter().enumerate() {
        let left = order.len() - rank;
        if p(*index) > ERROR_RATE / left as f64 {
            break;
        }
        let (change, lower_is_better) = changes[*index];
        conclusions[*index] = change.direction(lower_is_better);
    }
    conclusions
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: [f64; 5] = [100.0, 104.0, 98.0, 102.0, 96.0];

    #[test]
    fn a_factor_in_every_pair_is_found_whatever_disturbs_both() {
        let pairs = [100.0, 180.0, 90.0, 400.0, 130.0].map(|base| (base, base * 1.2));
        let ratio = Ratio::paired(pairs).unwrap();
        assert!((ratio.ratio - 1.2).abs() < 1e-9, "{ratio:?}");
        assert_eq!(
            holm_conclusions(&[(ratio, false), (ratio, true)]),
            [Conclusion::Better, Conclusion::Worse]
        );
        // Unpaired, the same runs are inconclusive.
        let (base, this): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        let ratio = Ratio::unpaired(&base, &this).unwrap();
        assert!((ratio.ratio - 1.2).abs() < 1e-9);
        assert_eq!(
            holm_conclusions(&[(ratio, false)]),
            [Conclusion::NoEvidence]
        );
    }

    #[test]
    fn an_interval_is_that_of_the_formula() {
        // Logs 0.0, 0.1, 0.2, 0.3, 0.4: mean 0.2, deviation √0.025, error √0.005, factor 2.776.
        let pairs = [0.0_f64, 0.1, 0.2, 0.3, 0.4].map(|log| (1.0, log.exp()));
        let (low, high) = Ratio::paired(pairs).unwrap().interval.unwrap();
        let half = 2.776 * 0.005_f64.sqrt();
        assert!(
            (low.ln() - (0.2 - half)).abs() < 1e-4,
            "{low} is not {}",
            (0.2 - half).exp()
        );
        assert!((high.ln() - (0.2 + half)).abs() < 1e-4);
        // Two samples with the same variance and number have 2n − 2 degrees of freedom: t of 8 is 2.306.
        let this = BASE.map(|value| value * 1.1);
        let ratio = Ratio::unpaired(&BASE, &this).unwrap();
        let logs = BASE.map(f64::ln);
        let (_, variance) = moments(&logs).unwrap();
        let half = 2.306 * (2.0 * variance / 5.0).sqrt();
        let (low, _) = ratio.interval.unwrap();
        assert!((low.ln() - (1.1_f64.ln() - half)).abs() < 1e-4, "{ratio:?}");
    }

    #[test]
    fn few_runs_small_changes_and_chance_are_no_evidence() {
        let two = Ratio::paired([(1.0, 2.0); 2]).unwrap();
        assert_eq!((two.ratio, two.interval, two.p), (2.0, None, None));
        let small = Ratio::paired(BASE.map(|base| (base, base * 1.02))).unwrap();
        assert!(small.p.unwrap() < 0.001);
        let same = Ratio::paired(BASE.map(|base| (base, base))).unwrap();
        assert_eq!((same.ratio, same.p), (1.0, Some(1.0)));
        assert_eq!(
            holm_conclusions(&[(two, true), (small, false), (same, true)]),
            [Conclusion::NoEvidence; 3]
        );
        assert_eq!(Ratio::paired([(0.0, 1.0), (1.0, f64::NAN)]), None);
        assert_eq!(Ratio::unpaired(&[], &BASE), None);
    }

    /// Deterministic pseudo-random numbers (SplitMix64) from −0.5 to 0.5.
    fn chance(seed: &mut u64) -> f64 {
        *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = *seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) as f64 / u64::MAX as f64 - 0.5
    }

    #[test]
    fn equal_suites_are_called_different_as_rarely_as_stated() {
        const SUITES: usize = 2_000;
        const FIGURES: usize = 12;
        let mut seed = 1;
        // A sum of twelve is close to normal. The noise is 10 %, so that 3 % hide nothing.
        let mut value = || ((0..12).map(|_| chance(&mut seed)).sum::<f64>() / 10.0).exp();
        for (paired, runs) in [(true, 5), (false, 5), (true, 3), (false, 3)] {
            let mut suite = || -> bool {
                let mut values = || -> Vec<f64> { (0..runs).map(|_| value()).collect() };
                let change = |_| {
                    let (base, this) = (values(), values());
                    let ratio = if paired {
                        Ratio::paired(base.into_iter().zip(this))
                    } else {
                        Ratio::unpaired(&base, &this)
                    };
                    (ratio.unwrap(), true)
                };
                let changes: Vec<(Ratio, bool)> = (0..FIGURES).map(change).collect();
                holm_conclusions(&changes)
                    .iter()
                    .any(|conclusion| *conclusion != Conclusion::NoEvidence)
            };
            let found = (0..SUITES).filter(|_| suite()).count();
            // 5 % of 2,000, plus and minus four deviations. A method that never finds a change must fail too.
            assert!((20..=140).contains(&found), "{found} of {SUITES}");
        }
    }

    #[test]
    fn each_of_many_changes_needs_stronger_evidence_than_a_single_one() {
        let nearly = Ratio {
            ratio: 1.5,
            interval: Some((1.01, 2.2)),
            p: Some(0.03),
        };
        assert_eq!(holm_conclusions(&[(nearly, false)]), [Conclusion::Better]);
        assert_eq!(
            holm_conclusions(&[(nearly, false); 2]),
            [Conclusion::NoEvidence; 2]
        );
        let sure = Ratio {
            p: Some(0.02),
            ..nearly
        };
        assert_eq!(
            holm_conclusions(&[(nearly, false), (sure, false)]),
            [Conclusion::Better; 2],
            "once the surest holds, the next is asked among fewer"
        );
    }
}
