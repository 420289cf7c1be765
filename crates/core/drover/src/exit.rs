//! Exit codes: the drivers', and their combination for many runs.

pub(crate) use measure::exit::{FAILED, FINE, MISSED, SUSPECT};

/// The call or a plan is wrong.
pub(crate) const WRONG_CALL: u8 = 2;
/// The daemon is worse than its other version or its control, which `--fail-on worse` asks about.
pub(crate) const WORSE: u8 = 6;

/// The order of severity, as in the drivers: what the user asked about precedes a suspect result.
const MOST_SEVERE_FIRST: [u8; 5] = [FAILED, WRONG_CALL, WORSE, MISSED, SUSPECT];

/// Returns the exit code of many runs: the most severe of theirs.
pub(crate) fn most_severe(codes: impl IntoIterator<Item = u8>) -> u8 {
    let rank = |code: &u8| {
        let index = MOST_SEVERE_FIRST.iter().position(|known| known == code);
        // An exit code that is unknown here means that the driver failed in another way.
        index.unwrap_or(if *code == FINE { usize::MAX } else { 0 })
    };
    codes.into_iter().min_by_key(rank).unwrap_or(FINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_precedes_a_missed_threshold_and_that_a_suspect_result() {
        assert_eq!(most_severe([]), FINE);
        assert_eq!(most_severe([FINE, FINE]), FINE);
        assert_eq!(most_severe([FINE, MISSED]), MISSED);
        assert_eq!(most_severe([SUSPECT, MISSED, FINE]), MISSED);
        assert_eq!(most_severe([FINE, SUSPECT]), SUSPECT);
        assert_eq!(most_severe([SUSPECT, WORSE, MISSED]), WORSE);
        assert_eq!(most_severe([WORSE, FAILED]), FAILED);
        assert_eq!(most_severe([MISSED, SUSPECT, FAILED]), FAILED);
        assert_eq!(most_severe([FINE, 101]), 101);
    }
}
