//! Timers of one worker, in one heap.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Timers by time. Each carries what its handler needs when it is due; timers of one time fire in the order in which
/// they were set.
#[derive(Debug)]
pub struct Timers<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    set: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: u64,
    order: u64,
    timer: T,
}

impl<T> Entry<T> {
    fn key(&self) -> (u64, u64) {
        (self.at, self.order)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            set: 0,
        }
    }
}

impl<T> Timers<T> {
    /// Sets a timer that is due `at` (nanoseconds of CLOCK_MONOTONIC).
    pub fn set(&mut self, at: u64, timer: T) {
        self.set += 1;
        let order = self.set;
        self.heap.push(Reverse(Entry { at, order, timer }));
    }

    /// Takes the next timer that is due by `now`.
    ///
    /// # Errors
    /// The time at which the next timer is due, or `u64::MAX` if none is set.
    pub fn take_due(&mut self, now: u64) -> Result<T, u64> {
        match self.heap.peek() {
            Some(Reverse(next)) if next.at > now => Err(next.at),
            _ => match self.heap.pop() {
                Some(Reverse(due)) => Ok(due.timer),
                None => Err(u64::MAX),
            },
        }
    }

    /// Removes all timers and returns what they carry, in no particular order.
    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        self.heap.drain().map(|Reverse(entry)| entry.timer)
    }

    /// Returns the number of timers that have not fired.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Returns true if no timer is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_in_the_order_of_their_times_and_of_their_setting() {
        let mut timers = Timers::default();
        assert_eq!(timers.take_due(100), Err(u64::MAX));
        for (at, name) in [(7, "c"), (5, "a"), (5, "b"), (9, "d")] {
            timers.set(at, name);
        }
        assert_eq!(timers.take_due(4), Err(5));
        let due: Vec<_> = std::iter::from_fn(|| timers.take_due(7).ok()).collect();
        assert_eq!(due, ["a", "b", "c"]);
        assert_eq!(timers.take_due(7), Err(9));
        assert_eq!((timers.len(), timers.is_empty()), (1, false));
        assert_eq!(timers.drain().collect::<Vec<_>>(), ["d"]);
    }
}
