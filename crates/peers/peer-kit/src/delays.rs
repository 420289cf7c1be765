//! Planned delays, whose percentiles are known.

use std::str::FromStr;
use std::time::Duration;

use load::duration::parse_with_unit;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use statrs::distribution::{ContinuousCDF as _, LogNormal};

/// Number of delays that are used in turn.
const DELAYS: u16 = 1_000;
/// The longest delay, in seconds: what a histogram holds.
const LONGEST_S: f64 = 3_600.0;

/// The distribution of delays.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Shape {
    /// No delay.
    #[default]
    None,
    /// The same delay for all requests.
    Constant(Duration),
    /// A short delay, a long one, and the share (0 to 1) of the long one.
    Bimodal(Duration, Duration, f64),
    /// A log-normal distribution of delays in seconds.
    LogNormal(LogNormal),
}

impl Shape {
    /// Returns the delay at a quantile, from 0 to 1.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Constant(delay) => *delay,
            Self::Bimodal(short, _, share) if quantile <= 1.0 - share => *short,
            Self::Bimodal(_, long, _) => *long,
            Self::LogNormal(delays) => {
                let delay_s = delays.inverse_cdf(quantile);
                Duration::from_secs_f64(delay_s.min(LONGEST_S))
            }
        }
    }

    /// Returns the quantiles (i + 0.5)/1000 of the distribution in an order that a seed decides: of a thousand requests,
    /// each percentile is exact.
    #[must_use]
    pub fn in_turn(&self, seed: u64) -> Vec<Duration> {
        if *self == Self::None {
            return Vec::new();
        }
        let quantile = |index| (f64::from(index) + 0.5) / f64::from(DELAYS);
        let delays = (0..DELAYS).map(|index| self.quantile(quantile(index)));
        let mut delays: Vec<Duration> = delays.collect();
        delays.shuffle(&mut StdRng::seed_from_u64(seed));
        delays
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            ["none"] => Ok(Self::None),
            ["constant", delay] => Ok(Self::Constant(duration(delay)?)),
            ["bimodal", short, long, share] => {
                let (short, long) = (duration(short)?, duration(long)?);
                let percent = share.strip_suffix('%').and_then(|it| it.parse().ok());
                match percent.filter(|percent| (0.0..=100.0).contains(percent)) {
                    Some(percent) if short <= long => Ok(Self::Bimodal(short, long, percent / 100.0)),
                    Some(_) => Err("the first delay is the longer one: exchange the two".to_owned()),
                    None => Err(format!("the share `{share}` must be 0% to 100%")),
                }
            }
            ["lognormal", median, sigma] => {
                let median_s = duration(median)?.as_secs_f64();
                let sigma = sigma.parse().unwrap_or(f64::NAN);
                let delays = LogNormal::new(median_s.ln(), sigma);
                let delays = delays.ok().filter(|_| sigma <= 5.0 && median_s > 0.0);
                delays.map(Self::LogNormal).ok_or_else(|| {
                    "the median must be above 0, and sigma, the standard deviation of the logarithm, above 0 and at most 5: write lognormal:3ms:0.8".to_owned()
                })
            }
            _ => Err(
                "write none, constant:5ms, bimodal:1ms:50ms:10% (the share of the second), or lognormal:3ms:0.8 (median and sigma)"
                    .to_owned(),
            ),
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration = parse_with_unit(text).map_err(|problem| format!("`{text}`: {problem}"))?;
    if duration.as_secs_f64() > LONGEST_S {
        return Err(format!("`{text}` is longer than an hour: use less"));
    }
    Ok(duration)
}

/// A time in which nothing is answered. Its default has no length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stall {
    /// The time from the first request to the stall.
    pub after: Duration,
    /// The length of the stall.
    pub length: Duration,
}

impl FromStr for Stall {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let parts = text.split_once(':');
        let (after, length) = parts.ok_or_else(|| {
            "write 3s:1s: 3 s after the first request, nothing is answered for 1 s".to_owned()
        })?;
        Ok(Self {
            after: duration(after)?,
            length: duration(length)?,
        })
    }
}

/// The delays of a peer.
#[derive(Debug, Clone, Default)]
pub struct Delays {
    /// The delays in turn, in nanoseconds.
    each: Vec<u64>,
    next: usize,
    stall: Stall,
    /// The time of the first request, nanoseconds of CLOCK_MONOTONIC.
    first: Option<u64>,
}

impl Delays {
    /// Plans delays: request number k takes delay k modulo their number, or none if there is none. An answer that would be
    /// due in the stall is due at its end.
    #[must_use]
    pub fn new(each: &[Duration], stall: Stall) -> Self {
        Self {
            each: each.iter().map(|delay| delay.as_nanos() as u64).collect(),
            stall,
            ..Self::default()
        }
    }

    /// Returns true if every answer is due at once.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.each.is_empty() && self.stall.length.is_zero()
    }

    /// Returns when the next request must be answered, which was read at `read_at`. Both are nanoseconds of CLOCK_MONOTONIC.
    #[inline]
    pub fn due(&mut self, read_at: u64) -> u64 {
        let mut due = read_at;
        if let Some(delay) = self.each.get(self.next) {
            due += delay;
            self.next = (self.next + 1) % self.each.len();
        }
        if !self.stall.length.is_zero() {
            let first = *self.first.get_or_insert(read_at);
            let begin = first + self.stall.after.as_nanos() as u64;
            let end = begin + self.stall.length.as_nanos() as u64;
            if (begin..end).contains(&due) {
                due = end;
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;

    fn percentiles<const N: usize>(shape: &str, quantiles: [f64; N]) -> [f64; N] {
        let mut delays = shape.parse::<Shape>().unwrap().in_turn(1);
        delays.sort_unstable();
        quantiles.map(|quantile| {
            let rank = (quantile * delays.len() as f64).ceil() as usize;
            delays[rank.max(1) - 1].as_secs_f64() * 1e3
        })
    }

    #[test]
    fn a_thousand_delays_have_the_percentiles_of_their_distribution() {
        assert_eq!(percentiles("constant:5ms", [0.0, 0.5, 1.0]), [5.0; 3]);
        let bimodal = percentiles("bimodal:1ms:50ms:10%", [0.5, 0.9, 0.901, 1.0]);
        assert_eq!(bimodal, [1.0, 1.0, 50.0, 50.0]);
        // The quantiles of the standard normal distribution at 0.5, 0.9 and 0.99.
        let expected = [0.0, 1.281_55, 2.326_35].map(|z: f64| 3.0 * (0.8 * z).exp());
        let log_normal = percentiles("lognormal:3ms:0.8", [0.5, 0.9, 0.99]);
        for (found, expected) in log_normal.into_iter().zip(expected) {
            // A rank of a thousand lies half a rank below its quantile.
            assert!((found / expected - 1.0).abs() < 0.02, "{found} {expected}");
        }
        assert_eq!("none".parse::<Shape>().unwrap().in_turn(1), []);
    }

    #[test]
    fn a_seed_decides_the_order_and_nothing_else() {
        let shape: Shape = "lognormal:3ms:0.8".parse().unwrap();
        let [mut one, again, mut other] = [1, 1, 2].map(|seed| shape.in_turn(seed));
        assert_eq!(one, again);
        assert_ne!(one, other);
        one.sort_unstable();
        other.sort_unstable();
        assert_eq!(one, other);
    }

    #[test]
    fn delays_are_used_in_turn_and_an_answer_due_in_the_stall_waits_for_its_end() {
        let each = [0, 2].map(Duration::from_nanos);
        let stall = Stall {
            after: Duration::from_nanos(10),
            length: Duration::from_nanos(5),
        };
        let mut delays = Delays::new(&each, stall);
        let due = [100, 101, 110, 112, 114, 113, 115].map(|read_at| delays.due(read_at));
        // The stall is from 110 to 115; every second request has a delay of 2.
        assert_eq!(due, [100, 103, 115, 115, 115, 115, 115]);
        assert_eq!(Delays::default().due(7), 7);
    }

    #[test]
    fn other_texts_are_refused_with_the_remedy() {
        for (text, words) in [
            ("", "write none, constant:5ms"),
            ("constant:5", "write a number with a unit"),
            ("constant:2h", "longer than an hour"),
            ("bimodal:1ms:50ms:10", "must be 0% to 100%"),
            ("bimodal:1ms:50ms:101%", "must be 0% to 100%"),
            ("bimodal:50ms:1ms:10%", "exchange the two"),
            ("lognormal:0:1", "median must be above 0"),
            ("lognormal:3ms:-1", "write lognormal:3ms:0.8"),
            ("lognormal:3ms:x", "write lognormal:3ms:0.8"),
        ] {
            let error = text.parse::<Shape>().unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        assert_eq!("".parse(), Ok(Stall::default()));
        for text in ["3s", "3s:1", "3:1s"] {
            let error = text.parse::<Stall>().unwrap_err();
            assert!(error.contains("write"), "{text}: {error}");
        }
    }
}
