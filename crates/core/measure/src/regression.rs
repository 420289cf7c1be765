//! Linear regression with its standard error: the marginal cost of one more unit.

use serde::{Deserialize, Serialize};

use crate::summary;

/// A least-squares line through points, `y = intercept + slope × x`.
///
/// Ordinary least squares with the textbook errors: all points have the same weight, and the errors of `y` are
/// independent and of equal variance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinearFit {
    /// Growth of `y` per unit of `x`.
    pub slope: f64,
    /// Value of `y` at `x = 0`.
    pub intercept: f64,
    /// Standard error of the slope.
    pub slope_error: f64,
    /// Number of points.
    pub points: usize,
}

impl LinearFit {
    /// Fits a line through the points `(x, y)`. Returns `None` for fewer than three points, which give no error
    /// estimate, for points with the same `x`, and if a figure is not finite.
    pub fn through(points: &[(f64, f64)]) -> Option<Self> {
        if points.len() < 3 {
            return None;
        }
        let count = points.len() as f64;
        let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
        let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
        let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
            points.iter().map(|(x, y)| of(x - mean_x, y - mean_y)).sum()
        };
        let width = sum(&|x, _| x * x);
        let slope = sum(&|x, y| x * y) / width;
        let residual = sum(&|x, y| (y - slope * x).powi(2));
        let line = Self {
            slope,
            intercept: mean_y - slope * mean_x,
            slope_error: (residual / (count - 2.0) / width).sqrt(),
            points: points.len(),
        };
        (line.slope.is_finite() && line.slope_error.is_finite()).then_some(line)
    }

    /// Returns half the width of the slope's 95 % interval, by Student's t with two degrees of freedom fewer than
    /// points.
    pub fn half_interval(&self) -> f64 {
        summary::t_quantile(0.975, self.points as f64 - 2.0) * self.slope_error
    }

    /// Returns true if `y` grows, and its growth is at least twice the half of its 95 % interval.
    pub fn exceeds_noise(&self) -> bool {
        self.slope > 0.0 && self.slope >= 2.0 * self.half_interval()
    }

    /// Returns `y` at `x`.
    pub fn at(&self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }
}

/// Sums from which a least-squares line is computed. Points are added one by one, and sums can be merged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct RegressionSums {
    points: u64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

impl RegressionSums {
    /// Adds a point.
    #[inline]
    pub fn add(&mut self, x: f64, y: f64) {
        self.points += 1;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.xy += x * y;
        self.yy += y * y;
    }

    /// Adds the points of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.points += other.points;
        self.x += other.x;
        self.y += other.y;
        self.xx += other.xx;
        self.xy += other.xy;
        self.yy += other.yy;
    }

    /// Returns the mean of `y`, or `None` without a point.
    pub fn mean(&self) -> Option<f64> {
        (self.points > 0).then(|| self.y / self.points as f64)
    }

    /// Returns the line through the points, or `None` if [`LinearFit::through`] returns none.
    pub fn line(&self) -> Option<LinearFit> {
        if self.points < 3 {
            return None;
        }
        let count = self.points as f64;
        let width = self.xx - self.x * self.x / count;
        let slope = (self.xy - self.x * self.y / count) / width;
        // Points on a line leave a residual of rounding errors, which may be below 0.
        let residual = (self.yy - self.y * self.y / count - slope * slope * width).max(0.0);
        let line = LinearFit {
            slope,
            intercept: (self.y - slope * self.x) / count,
            slope_error: (residual / (count - 2.0) / width).sqrt(),
            points: usize::try_from(self.points).ok()?,
        };
        (line.slope.is_finite() && line.slope_error.is_finite()).then_some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_that_were_merged_have_the_line_of_all_points() {
        let mut halves = [RegressionSums::default(); 2];
        for (index, (x, y)) in points(WOMEN).into_iter().enumerate() {
            halves[index % 2].add(x, y);
        }
        let [mut all, other] = halves;
        all.merge(&other);
        let (found, expected) = (
            all.line().unwrap(),
            LinearFit::through(&points(WOMEN)).unwrap(),
        );
        for (found, expected) in [
            (found.slope, expected.slope),
            (found.intercept, expected.intercept),
            (found.slope_error, expected.slope_error),
        ] {
            assert!((found / expected - 1.0).abs() < 1e-6, "{found} {expected}");
        }
        let mut same = RegressionSums::default();
        (0..5).for_each(|_| same.add(1.0, 2.0));
        assert_eq!(same.line(), None, "points of one x have no line");
    }

    /// Heights in m, and masses in kg, of women: the worked example of "Simple linear regression" in Wikipedia.
    const WOMEN: ([f64; 15], [f64; 15]) = (
        [
            1.47, 1.50, 1.52, 1.55, 1.57, 1.60, 1.63, 1.65, 1.68, 1.70, 1.73, 1.75, 1.78, 1.80,
            1.83,
        ],
        [
            52.21, 53.12, 54.48, 55.84, 57.20, 58.57, 59.93, 61.29, 63.11, 64.47, 66.28, 68.10,
            69.92, 72.19, 74.46,
        ],
    );

    fn points<const COUNT: usize>((xs, ys): ([f64; COUNT], [f64; COUNT])) -> Vec<(f64, f64)> {
        xs.into_iter().zip(ys).collect()
    }

    fn near(value: f64, expected: f64, within: f64) {
        assert!(
            (value - expected).abs() <= within,
            "{value} is not {expected}"
        );
    }

    #[test]
    fn the_textbook_regression_has_the_textbook_slope_and_interval() {
        let line = LinearFit::through(&points(WOMEN)).unwrap();
        near(line.slope, 61.272, 0.001);
        near(line.intercept, -39.062, 0.001);
        near(line.slope_error, 3.1539_f64.sqrt(), 0.0001);
        near(line.slope - line.half_interval(), 57.4, 0.05);
        near(line.slope + line.half_interval(), 65.1, 0.05);
    }

    /// The data set "Norris" of the NIST Statistical Reference Datasets, with its certified values.
    #[test]
    fn the_line_through_nists_norris_data_has_the_certified_values() {
        let norris = points((
            [
                0.2, 337.4, 118.2, 884.6, 10.1, 226.5, 666.3, 996.3, 448.6, 777.0, 558.2, 0.4, 0.6,
                775.5, 666.9, 338.0, 447.5, 11.6, 556.0, 228.1, 995.8, 887.6, 120.2, 0.3, 0.3,
                556.8, 339.1, 887.2, 999.0, 779.0, 11.1, 118.3, 229.2, 669.1, 448.9, 0.5,
            ],
            [
                0.1, 338.8, 118.1, 888.0, 9.2, 228.1, 668.5, 998.5, 449.1, 778.9, 559.2, 0.3, 0.1,
                778.1, 668.8, 339.3, 448.9, 10.8, 557.7, 228.3, 998.0, 888.8, 119.6, 0.3, 0.6,
                557.6, 339.3, 888.0, 998.5, 778.9, 10.2, 117.6, 228.9, 668.4, 449.2, 0.2,
            ],
        ));
        let line = LinearFit::through(&norris).unwrap();
        near(line.slope, 1.002_116_818_020_45, 1e-12);
        near(line.intercept, -0.262_323_073_774_029, 1e-10);
        near(line.slope_error, 0.429_796_848_199_937e-3, 1e-12);
    }

    #[test]
    fn too_few_points_or_points_of_one_x_have_no_line() {
        assert_eq!(LinearFit::through(&[(1.0, 2.0), (2.0, 4.0)]), None);
        assert_eq!(
            LinearFit::through(&[(1.0, 2.0), (1.0, 3.0), (1.0, 4.0)]),
            None
        );
        assert_eq!(
            LinearFit::through(&[(0.0, f64::NAN), (1.0, 3.0), (2.0, 4.0)]),
            None
        );
    }
}
