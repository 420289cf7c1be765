//! Numbers that should arrive one after the other.

/// The last number that arrived, and which of the 32 before it have.
///
/// A number that is skipped is not lost at once: it may come late. It is lost when more than 32 later ones have come, or
/// at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::roles) struct Window {
    pub(in crate::roles) last: u32,
    /// Bit i is set if `last - 1 - i` has arrived.
    pub(super) seen: u32,
}

/// The place of a number among those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::roles) enum Arrival {
    /// The number is higher than all before. This many numbers are lost for certain.
    Later { lost: u32 },
    /// The number was skipped before.
    Late,
    /// The number has arrived before, or is more than 32 behind the last.
    Again,
}

impl Window {
    /// Begins behind a number: those up to it count as arrived.
    pub(in crate::roles) const fn after(last: u32) -> Self {
        Self {
            last,
            seen: u32::MAX,
        }
    }

    /// Returns how many of the 32 numbers before the last are missing.
    pub(in crate::roles) const fn missing(self) -> u32 {
        self.seen.count_zeros()
    }

    pub(in crate::roles) fn arrive(&mut self, number: u32) -> Arrival {
        if number <= self.last {
            return self.arrive_late(number);
        }
        let ahead = number - self.last;
        let dropped = ahead.min(32);
        let kept = self.seen >> (32 - dropped);
        let mut lost = dropped - kept.count_ones();
        self.seen = match ahead {
            // The bit of the previous last number is set.
            1..=32 => (self.seen << (ahead - 1)) << 1 | 1 << (ahead - 1),
            _ => {
                lost += ahead - 33;
                0
            }
        };
        self.last = number;
        Arrival::Later { lost }
    }

    fn arrive_late(&mut self, number: u32) -> Arrival {
        let behind = self.last - number;
        if !(1..=32).contains(&behind) {
            return Arrival::Again;
        }
        let bit = 1 << (behind - 1);
        if self.seen & bit != 0 {
            return Arrival::Again;
        }
        self.seen |= bit;
        Arrival::Late
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_that_is_skipped_is_missing_until_it_comes_or_is_lost() {
        let mut window = Window::after(10);
        assert_eq!(window.arrive(11), Arrival::Later { lost: 0 });
        assert_eq!(window.arrive(14), Arrival::Later { lost: 0 });
        assert_eq!(window.missing(), 2);
        assert_eq!(window.arrive(12), Arrival::Late);
        assert_eq!(window.arrive(12), Arrival::Again);
        assert_eq!(window.arrive(14), Arrival::Again);
        assert_eq!(window.arrive(9), Arrival::Again);
        assert_eq!(window.missing(), 1);
        assert_eq!(window.arrive(45), Arrival::Later { lost: 0 });
        assert_eq!(window.arrive(46), Arrival::Later { lost: 1 });
        assert_eq!(window.arrive(46 + 1_000), Arrival::Later { lost: 30 + 967 });
        assert_eq!(window.missing(), 32);
    }

    proptest! {
        /// Numbers arrive in any order; those more than 32 behind are left out.
        #[test]
        fn lost_missing_and_arrived_add_up(jumps in prop::collection::vec(-34_i64..70, 1..100)) {
            let (mut window, mut arrived) = (Window::after(100), BTreeSet::new());
            let mut lost = 0;
            for jump in jumps {
                let number = u32::try_from((i64::from(window.last) + jump).max(1)).unwrap();
                let last = window.last;
                match window.arrive(number) {
                    Arrival::Later { lost: more } => {
                        prop_assert!(number > last);
                        lost += more;
                        arrived.insert(number);
                    }
                    Arrival::Late => prop_assert!(arrived.insert(number)),
                    Arrival::Again => {
                        prop_assert!(number <= 100 || arrived.contains(&number) || last - number > 32);
                    }
                }
            }
            let expected = window.last - 100 - arrived.len() as u32;
            prop_assert_eq!(lost + window.missing(), expected);
        }
    }
}
