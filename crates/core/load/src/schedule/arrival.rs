//! The distribution of the starts of a rate.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution as _, Gamma};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::curve::Curve;

/// The distribution of open-loop starts, written `constant`, `poisson` or `gamma:SHAPE`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Arrival {
    /// Evenly: the gap is the inverse of the rate.
    #[default]
    Constant,
    /// Like independent users: the gaps are exponentially distributed.
    Poisson,
    /// In bursts, or more evenly than independent users: the gaps have a gamma distribution.
    Gamma(Shape),
}

/// The shape of a gamma distribution, from 0.01 to 100. The gaps vary by 1/√shape of their mean: 1 are the gaps of
/// independent users, below it starts come in bursts with pauses between them, and far above it they are even.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape(f64);

impl Arrival {
    /// Returns the expected number of arrivals in a time in which most probably at least one is due: with random
    /// arrivals, the chance of none is about e⁻¹⁰.
    pub(super) fn longest_gap(self) -> f64 {
        match self {
            Self::Constant => 1.0,
            Self::Poisson => 10.0,
            // The tail of the gaps falls like e^(-shape × gap); with more even ones it falls faster.
            Self::Gamma(Shape(shape)) => 10.0 / shape.min(1.0),
        }
    }

    /// Returns the variance of the number of starts in a time, as a share of their mean: 1 for independent users.
    #[must_use]
    pub fn dispersion(self) -> f64 {
        match self {
            Self::Constant => 0.0,
            Self::Poisson => 1.0,
            Self::Gamma(Shape(shape)) => 1.0 / shape,
        }
    }
}

impl FromStr for Arrival {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shape = |text: &str| text.parse().ok().filter(|it| (0.01..=100.0).contains(it));
        match text.split_once(':') {
            None if text == "constant" => Ok(Self::Constant),
            None if text == "poisson" => Ok(Self::Poisson),
            Some(("gamma", text)) if let Some(known) = shape(text) => Ok(Self::Gamma(Shape(known))),
            _ => Err(format!(
                "`{text}` is not a distribution of starts: write constant, poisson, or gamma:0.25, with a shape from 0.01 (bursts) to 100 (even)"
            )),
        }
    }
}

impl fmt::Display for Arrival {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant => formatter.write_str("constant"),
            Self::Poisson => formatter.write_str("poisson"),
            Self::Gamma(Shape(shape)) => write!(formatter, "gamma:{shape}"),
        }
    }
}

impl TryFrom<String> for Arrival {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Arrival> for String {
    fn from(arrival: Arrival) -> Self {
        arrival.to_string()
    }
}

impl JsonSchema for Arrival {
    fn schema_name() -> Cow<'static, str> {
        "Arrival".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The distribution of open-loop starts: evenly (constant), like independent users (poisson), or in bursts (gamma:0.25, with a shape from 0.01 to 100; 1 is poisson).",
            "type": "string",
            "pattern": r"^(constant|poisson|gamma:[0-9]*\.?[0-9]+)$",
        })
    }
}

/// Random arrivals of rate 1, stretched to a curve.
#[derive(Debug)]
pub(super) struct RandomArrivals {
    curve: Curve,
    random: StdRng,
    /// The gaps, unless they are exponential.
    gaps: Option<Gamma<f64>>,
    /// Sum of the draws.
    sum: f64,
    /// Number of draws.
    drawn: u64,
}

impl RandomArrivals {
    pub(super) fn new(arrival: Arrival, curve: Curve, seed: u64) -> Self {
        let gaps = match arrival {
            // Such a shape and the scale for a mean of 1 are in the range of the distribution.
            Arrival::Gamma(Shape(shape)) => Gamma::new(shape, 1.0 / shape).ok(),
            Arrival::Constant | Arrival::Poisson => None,
        };
        Self {
            curve,
            random: StdRng::seed_from_u64(seed),
            gaps,
            sum: 0.0,
            drawn: 0,
        }
    }

    /// Returns when operation `index` is due, after drawing the earlier operations of other shares.
    pub(super) fn when(&mut self, index: u64) -> Option<u64> {
        while self.drawn <= index {
            self.sum += match &self.gaps {
                Some(gaps) => gaps.sample(&mut self.random),
                None => {
                    // 1 - u is in (0, 1], so that the logarithm is finite.
                    let uniform: f64 = self.random.random();
                    -(1.0 - uniform).ln()
                }
            };
            self.drawn += 1;
        }
        self.curve.when(self.sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_is_read_as_it_is_written() {
        for text in ["constant", "poisson", "gamma:0.25", "gamma:100"] {
            assert_eq!(text.parse::<Arrival>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "Poisson",
            "gamma",
            "gamma:",
            "gamma:0",
            "gamma:-1",
            "gamma:101",
            "gamma:nan",
            "gamma:inf",
            "poisson:1",
        ] {
            let error = text.parse::<Arrival>().unwrap_err();
            assert!(error.contains("gamma:0.25"), "{error}");
        }
    }

    #[test]
    fn shares_of_bursts_are_what_the_shape_says() {
        let spread = |text: &str| text.parse::<Arrival>().unwrap().dispersion();
        assert_eq!([spread("gamma:0.25"), spread("gamma:1")], [4.0, 1.0]);
        let tail = |text: &str| text.parse::<Arrival>().unwrap().longest_gap();
        assert_eq!([tail("gamma:0.25"), tail("gamma:4")], [40.0, 10.0]);
    }
}
