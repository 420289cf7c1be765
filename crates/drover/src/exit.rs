//! Exit codes: those of the drivers, put together for many runs.

/// Everything is fine.
pub(crate) const FINE: u8 = 0;
/// A run failed, or something could not be done.
pub(crate) const FAILED: u8 = 1;
/// The call or a plan is wrong.
pub(crate) const WRONG_CALL: u8 = 2;
/// Results are suspect, or were interrupted.
pub(crate) const SUSPECT: u8 = 3;
/// A threshold was missed.
pub(crate) const MISSED: u8 = 4;

/// The order of the drivers: a miss is what the user asked to know, so it comes before a doubt.
const GRAVEST_FIRST: [u8; 4] = [FAILED, WRONG_CALL, MISSED, SUSPECT];

/// The exit code of many runs: the gravest of theirs.
pub(crate) fn gravest(codes: impl IntoIterator<Item = u8>) -> u8 {
    let rank = |code: &u8| {
        let place = GRAVEST_FIRST.iter().position(|known| known == code);
        // A code that no driver has means that something failed in a way of its own.
        place.unwrap_or(if *code == FINE { usize::MAX } else { 0 })
    };
    codes.into_iter().min_by_key(rank).unwrap_or(FINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_comes_before_what_was_missed_and_that_before_what_is_doubtful() {
        assert_eq!(gravest([]), FINE);
        assert_eq!(gravest([FINE, FINE]), FINE);
        assert_eq!(gravest([FINE, MISSED]), MISSED);
        assert_eq!(gravest([SUSPECT, MISSED, FINE]), MISSED);
        assert_eq!(gravest([FINE, SUSPECT]), SUSPECT);
        assert_eq!(gravest([MISSED, SUSPECT, FAILED]), FAILED);
        assert_eq!(gravest([FINE, 101]), 101);
    }
}
