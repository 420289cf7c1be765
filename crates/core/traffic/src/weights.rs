//! A choice by weight, or in turn.

use crate::draw::draw;

/// Chooses one of several things for each operation.
#[derive(Debug, Clone)]
pub enum Choice {
    /// At random, each as often as its weight says.
    ByWeight(Weights),
    /// One after the other, and the first one again after the last.
    InTurn {
        /// The indices of the things, each as many times as its weight says.
        list: Vec<usize>,
        /// The difference between the numbers of two operations that follow each other: the number of clients, if each has its
        /// own turn.
        stride: u64,
    },
}

impl Choice {
    /// Creates a choice in turn. A weight of 0 is never chosen.
    ///
    /// # Panics
    /// If no weight is above 0, or the stride is 0.
    #[must_use]
    pub fn in_turn(weights: &[u32], stride: u64) -> Self {
        let each = weights.iter().enumerate();
        let list: Vec<usize> = each
            .flat_map(|(index, weight)| std::iter::repeat_n(index, *weight as usize))
            .collect();
        assert!(!list.is_empty() && stride > 0, "something is chosen");
        Self::InTurn { list, stride }
    }

    /// Returns the index of the thing that is chosen for the operation with this number.
    #[inline]
    #[must_use]
    pub fn pick(&self, number: u64) -> usize {
        match self {
            Self::ByWeight(weights) => weights.pick(number),
            Self::InTurn { list, stride } => list[((number / stride) % list.len() as u64) as usize],
        }
    }
}

/// Chooses one of several things, each as often as its weight says.
#[derive(Debug, Clone)]
pub struct Weights {
    seed: u64,
    /// The index of each thing with a weight above 0, and the end of its part of all numbers of 64 bits.
    ends: Vec<(u64, usize)>,
}

impl Weights {
    /// Creates a choice whose draws follow from a seed. A weight of 0 is never chosen.
    ///
    /// # Panics
    /// If no weight is above 0.
    #[must_use]
    pub fn new(weights: &[u32], seed: u64) -> Self {
        let sum: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        assert!(sum > 0, "one weight is above 0");
        let (mut below, mut ends) = (0, Vec::new());
        for (index, weight) in weights
            .iter()
            .enumerate()
            .filter(|(_, weight)| **weight > 0)
        {
            below += u64::from(*weight);
            let end = u128::from(u64::MAX) * u128::from(below) / u128::from(sum);
            ends.push((end as u64, index));
        }
        Self { seed, ends }
    }

    /// Returns the index of the thing that is chosen for the operation with this number.
    #[inline]
    #[must_use]
    pub fn pick(&self, number: u64) -> usize {
        let (last, others) = self.ends.split_last().expect("one weight is above 0");
        if others.is_empty() {
            return last.1;
        }
        let drawn = draw(self.seed, number);
        let end = others.iter().find(|(end, _)| drawn < *end);
        end.unwrap_or(last).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_chosen_as_often_as_its_weight_says_by_every_client() {
        let weights = Weights::new(&[70, 0, 25, 5], 7);
        // Client 3 of 10 does the operations 3, 13, 23…
        for stride in [1, 10, 1_000] {
            let mut counts = [0_u32; 4];
            (0..100_000_u64).for_each(|turn| counts[weights.pick(3 + turn * stride)] += 1);
            for (count, expected) in counts.into_iter().zip([70_000, 0, 25_000, 5_000_u32]) {
                assert!(count.abs_diff(expected) <= 600, "{stride}: {counts:?}");
            }
        }
    }

    #[test]
    fn in_turn_each_client_gets_one_after_the_other() {
        let choice = Choice::in_turn(&[1, 0, 2], 10);
        // Client 3 of 10.
        let picked = [3, 13, 23, 33, 43].map(|number| choice.pick(number));
        assert_eq!(picked, [0, 2, 2, 0, 2]);
    }

    #[test]
    fn a_seed_decides_and_only_the_seed() {
        let choices = |seed| {
            let weights = Weights::new(&[1, 1], seed);
            (0..64)
                .map(|number| weights.pick(number))
                .collect::<Vec<_>>()
        };
        assert_eq!(choices(1), choices(1));
        assert_ne!(choices(1), choices(2));
    }
}
