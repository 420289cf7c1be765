//! Whose turn it is to wait for handoffs.
//!
//! If every shard waited for the listener, each handoff would wake all of them, for all but one in
//! vain: 5–10 µs each. So one waits, takes a batch, and passes the turn on, which also shares the
//! streams out evenly. In a rush the shards that have been woken accept without regard to turns.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use tokio::sync::Notify;

/// The turns of a number of shards, in a ring.
#[derive(Debug)]
pub(crate) struct Turns {
    current: AtomicUsize,
    calls: Vec<Notify>,
}

impl Turns {
    /// The first turn is that of shard 0.
    pub(crate) fn new(shards: usize) -> Self {
        Self {
            current: AtomicUsize::new(0),
            calls: (0..shards).map(|_| Notify::new()).collect(),
        }
    }

    pub(super) fn is_of(&self, shard: usize) -> bool {
        self.current.load(SeqCst) == shard
    }

    /// Ends the turn of `shard`, whose turn it must be, and wakes the next one.
    pub(super) fn pass_on(&self, shard: usize) {
        let next = (shard + 1) % self.calls.len();
        if next != shard {
            self.current.store(next, SeqCst);
            self.calls[next].notify_one();
        }
    }

    /// Waits for the turn of `shard`. It may return early; callers ask again. May be dropped.
    pub(super) async fn call(&self, shard: usize) {
        self.calls[shard].notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_turn_goes_round_and_calls_the_next() {
        let turns = Turns::new(3);
        for shard in [0, 1, 2, 0] {
            assert!(turns.is_of(shard));
            turns.pass_on(shard);
            assert!(!turns.is_of(shard));
            turns.call((shard + 1) % 3).await;
        }
    }

    #[test]
    fn a_single_shard_keeps_the_turn() {
        let turns = Turns::new(1);
        turns.pass_on(0);
        assert!(turns.is_of(0));
    }
}
