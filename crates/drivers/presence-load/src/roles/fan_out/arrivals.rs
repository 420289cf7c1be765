//! The numbers of each sender that have arrived at each of its receivers.
//!
//! Nearly all receivers of a sender have got all of its messages, up to almost the same one. So a pair of both has one
//! byte: the distance of its last number from a number of the sender, which moves on with the receivers. The few pairs
//! with a missing number, or far behind the others, have a [`Window`] in a map.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::roles::audit::{Arrival, Window};

/// Largest distance of a last number that a byte holds.
const MAX_AHEAD: u32 = 253;
/// The receiver takes no part, or must not get what the sender sends.
const UNUSED: u8 = 254;
/// The window of the pair is in the map.
const ELSEWHERE: u8 = 255;

/// The arrivals of each pair of sender and receiver. The pairs of a sender are one behind the other.
#[derive(Debug)]
pub(super) struct Arrivals {
    /// Number of receivers of each sender.
    width: usize,
    /// For each sender, the number from which the last numbers of its pairs count.
    from: Vec<u32>,
    ahead: Vec<u8>,
    windows: HashMap<usize, Window>,
}

impl Arrivals {
    /// Creates the pairs of `senders` senders, each with `width` receivers. No pair takes part yet.
    pub(super) fn new(senders: usize, width: usize) -> Self {
        Self {
            width,
            from: vec![0; senders],
            ahead: vec![UNUSED; senders * width],
            windows: HashMap::new(),
        }
    }

    /// Returns the index of a sender's pair with its receiver `slot`.
    #[inline]
    pub(super) fn pair(&self, sender: u32, slot: u32) -> usize {
        sender as usize * self.width + slot as usize
    }

    /// Begins a pair behind the number `last`.
    pub(super) fn begin(&mut self, pair: usize, last: u32) {
        self.set(pair, Window::after(last));
    }

    /// Ends a pair, whose receiver takes no part any more.
    pub(super) fn end(&mut self, pair: usize) {
        self.ahead[pair] = UNUSED;
        self.windows.remove(&pair);
    }

    /// Returns the window of a pair.
    pub(super) fn window(&self, pair: usize) -> Window {
        match self.ahead[pair] {
            UNUSED => Window::after(0),
            ELSEWHERE => self.windows[&pair],
            ahead => Window::after(self.from[pair / self.width] + u32::from(ahead)),
        }
    }

    /// Lets a number arrive if it is the next one of a pair that misses none. Returns false if it is not.
    #[inline]
    pub(super) fn arrive_next(&mut self, sender: u32, pair: usize, number: u32) -> bool {
        let ahead = number.wrapping_sub(self.from[sender as usize]);
        let last = &mut self.ahead[pair];
        let is_next = ahead <= MAX_AHEAD && u32::from(*last) + 1 == ahead;
        if is_next {
            *last = ahead as u8;
        }
        is_next
    }

    /// Lets a number arrive at a pair whose receiver takes part.
    pub(super) fn arrive(&mut self, pair: usize, number: u32) -> Arrival {
        let mut window = self.window(pair);
        let arrival = window.arrive(number);
        self.set(pair, window);
        arrival
    }

    fn set(&mut self, pair: usize, window: Window) {
        let sender = pair / self.width;
        let is_whole = window == Window::after(window.last);
        if is_whole && window.last > self.from[sender].saturating_add(MAX_AHEAD) {
            self.move_on(sender, window.last - MAX_AHEAD / 2);
        }
        let ahead = window.last.checked_sub(self.from[sender]);
        match (ahead.filter(|_| is_whole), self.windows.entry(pair)) {
            (Some(ahead), entry) => {
                self.ahead[pair] = ahead as u8;
                if let Entry::Occupied(entry) = entry {
                    entry.remove();
                }
            }
            (None, entry) => {
                self.ahead[pair] = ELSEWHERE;
                entry.insert_entry(window);
            }
        }
    }

    /// Lets the pairs of a sender count from a higher number. Those that are behind it get a window.
    fn move_on(&mut self, sender: usize, to: u32) {
        let from = std::mem::replace(&mut self.from[sender], to);
        let pairs = sender * self.width..(sender + 1) * self.width;
        for pair in pairs {
            let ahead = &mut self.ahead[pair];
            if u32::from(*ahead) > MAX_AHEAD {
                continue;
            }
            let last = from + u32::from(*ahead);
            *ahead = match last.checked_sub(to) {
                Some(ahead) => ahead as u8,
                None => {
                    self.windows.insert(pair, Window::after(last));
                    ELSEWHERE
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RECEIVERS: usize = 3;

    proptest! {
        /// Each step is of one pair: most numbers are the next one, some are late, twice, or jump; receivers come and go,
        /// and some fall behind.
        #[test]
        fn numbers_arrive_as_with_a_window_for_each_pair(
            steps in prop::collection::vec((0..2 * RECEIVERS, -40_i64..400, 0..8), 1..300),
        ) {
            let mut arrivals = Arrivals::new(2, RECEIVERS);
            let mut windows = [None::<Window>; 2 * RECEIVERS];
            for (pair, jump, step) in steps {
                let last = windows[pair].map_or(0, |window| window.last);
                let next = |jump: i64| (i64::from(last) + jump).max(1) as u32;
                match (&mut windows[pair], step) {
                    (window @ None, _) => {
                        *window = Some(Window::after(next(jump)));
                        arrivals.begin(pair, next(jump));
                    }
                    (window, 0) => {
                        *window = None;
                        arrivals.end(pair);
                    }
                    (Some(window), _) => {
                        // Most often 100 numbers come in order.
                        let numbers = if step < 3 { next(jump)..=next(jump) } else { next(1)..=next(100) };
                        for number in numbers {
                            let arrival = window.arrive(number);
                            let sender = (pair / RECEIVERS) as u32;
                            if arrivals.arrive_next(sender, pair, number) {
                                prop_assert_eq!(arrival, Arrival::Later { lost: 0 });
                            } else {
                                prop_assert_eq!(arrivals.arrive(pair, number), arrival);
                            }
                        }
                    }
                }
                for (pair, window) in windows.iter().enumerate() {
                    prop_assert_eq!(arrivals.window(pair), window.unwrap_or(Window::after(0)));
                }
                // No window is kept that says no more than its last number, but for a pair that is behind the others.
                for (pair, window) in &arrivals.windows {
                    let is_behind = window.last < arrivals.from[pair / RECEIVERS];
                    prop_assert!(is_behind || *window != Window::after(window.last));
                }
            }
        }
    }
}
