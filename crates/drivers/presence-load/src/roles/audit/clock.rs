//! The server's clock, as far as the answers to joins show it.

/// Nanoseconds of a millisecond.
const MS: u64 = 1_000_000;
/// Milliseconds by which the clocks may drift apart, or be adjusted, during a run.
const TOLERANCE_MS: i64 = 1_000;

/// The difference of the server's clock, in milliseconds since 1970, to the driver's `CLOCK_MONOTONIC`. Several servers
/// have one range that includes all of their clocks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ServerClock {
    /// The least and the greatest difference in milliseconds; `None` before the first join.
    range: Option<(i64, i64)>,
}

impl ServerClock {
    /// Takes the server's time of a join that was sent and acknowledged at these times, in nanoseconds.
    pub(super) fn learn(&mut self, time_ms: Option<u64>, (sent, acked): (u64, u64)) {
        let Some(time) = time_ms.and_then(|time| i64::try_from(time).ok()) else {
            return;
        };
        let (low, high) = (time - to_ms(acked) - 1, time - to_ms(sent) + 1);
        let (least, greatest) = self.range.unwrap_or((low, high));
        self.range = Some((least.min(low), greatest.max(high)));
    }

    /// Returns true if the server's time lies between two times of the driver, in nanoseconds, or if nothing is known.
    pub(super) fn is_between(&self, time_ms: Option<u64>, (since, now): (u64, u64)) -> bool {
        let Some((time, (low, high))) = time_ms.zip(self.range) else {
            return true;
        };
        let since = to_ms(since) + low - TOLERANCE_MS;
        let until = to_ms(now) + high + TOLERANCE_MS;
        i64::try_from(time).is_ok_and(|time| (since..=until).contains(&time))
    }
}

fn to_ms(ns: u64) -> i64 {
    (ns / MS) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_compared_with_the_clock_that_joins_have_shown() {
        let mut clock = ServerClock::default();
        assert!(clock.is_between(Some(0), (5, 6)));
        // 10 s after the start of the driver's clock.
        clock.learn(Some(1_700_000_000_000), (10_000 * MS, 10_020 * MS));
        for (time, is_right) in [
            (1_700_000_005_000, true),
            (1_700_000_004_500, true),
            (1_700_000_002_000, false),
            (1_700_000_008_000, false),
            (0, false),
            (u64::MAX, false),
        ] {
            let between = (15_000 * MS, 15_010 * MS);
            assert_eq!(clock.is_between(Some(time), between), is_right, "{time}");
        }
        assert!(clock.is_between(None, (0, 0)));
    }
}
