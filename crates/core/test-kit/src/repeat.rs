//! Tests that repeat themselves with random numbers: how often, and from which seed.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::test_name;

/// The variable with the scale: 1 repeats as often as a full run does.
const SCALE: &str = "DROVER_SCALE";
/// The variable with the seed.
const SEED: &str = "DROVER_SEED";
/// The scale of each change. A full run finds what is rare.
const DEFAULT_SCALE: f64 = 0.05;

/// Returns how often a test repeats itself: `full` times at scale 1, and at least once.
///
/// # Panics
/// `DROVER_SCALE` is not a number above 0.
#[must_use]
pub fn scaled(full: u64) -> u64 {
    ((full as f64 * scale()).round() as u64).max(1)
}

fn scale() -> f64 {
    let Ok(text) = std::env::var(SCALE) else {
        return DEFAULT_SCALE;
    };
    let scale = text.parse().ok().filter(|scale| *scale > 0.0);
    scale.unwrap_or_else(|| panic!("{SCALE}={text}: a number above 0 is needed"))
}

/// Returns the seed of a test: `DROVER_SEED`, or one from the clock. It prints how to repeat the test, which the test
/// runner shows if the test fails.
///
/// # Panics
/// `DROVER_SEED` is not a number.
#[must_use]
#[expect(clippy::print_stdout, reason = "the runner shows it with a failure")]
pub fn seed() -> u64 {
    let seed = match std::env::var(SEED) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|error| panic!("{SEED}={text}: {error}")),
        Err(_) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            now.expect("the clock is past 1970").as_nanos() as u64
        }
    };
    let test = test_name();
    println!(
        "repeat this test with {SEED}={seed} scripts/test --scale {} {test}",
        scale()
    );
    seed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_repeats_itself_at_least_once() {
        assert_eq!(scaled(1), 1);
        assert_eq!(scaled(1_000), (1_000.0 * scale()).round() as u64);
    }
}
