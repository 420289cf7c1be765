//! A token that lets one shard at a time wait for handoffs.
//!
//! If every shard waited for the listener, each handoff would wake all of them, all but one in vain: 5–10 µs each. So
//! one shard waits, takes a batch, and passes the turn on, which also distributes the streams evenly. In a rush, the
//! shards that are awake accept regardless of turns.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use tokio::sync::Notify;

/// The turns of several shards, in a ring.
#[derive(Debug)]
pub(crate) struct AcceptToken {
    current: AtomicUsize,
    calls: Vec<Notify>,
}

impl AcceptToken {
    /// Creates the turns; shard 0 has the first one.
    pub(crate) fn new(shards: usize) -> Self {
        Self {
            current: AtomicUsize::new(0),
            calls: (0..shards).map(|_| Notify::new()).collect(),
        }
    }

    pub(crate) fn is_of(&self, shard: usize) -> bool {
        self.current.load(SeqCst) == shard
    }

    /// Ends the turn of `shard`, whose turn it must be, and wakes the next one.
    pub(crate) fn pass_on(&self, shard: usize) {
        let next = (shard + 1) % self.calls.len();
        if next != shard {
            self.current.store(next, SeqCst);
            self.calls[next].notify_one();
        }
    }

    /// Waits for the turn of `shard`. May return early; callers check again. May be dropped.
    pub(crate) async fn acquired(&self, shard: usize) {
        self.calls[shard].notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_turn_goes_round_and_calls_the_next() {
        let accept_token = AcceptToken::new(3);
        for shard in [0, 1, 2, 0] {
            assert!(accept_token.is_of(shard));
            accept_token.pass_on(shard);
            assert!(!accept_token.is_of(shard));
            accept_token.acquired((shard + 1) % 3).await;
        }
    }

    #[test]
    fn a_single_shard_keeps_the_turn() {
        let accept_token = AcceptToken::new(1);
        accept_token.pass_on(0);
        assert!(accept_token.is_of(0));
    }
}
