//! The messages of all simulated clients, and what became of them.

use std::collections::{BTreeSet, HashSet};

use super::ask::Queue;

/// A message that was published.
#[derive(Debug)]
pub(super) struct Published {
    pub(super) length: usize,
    /// Tells the channel that published it from others.
    pub(super) publisher: usize,
    /// Its queue; `None` for all that are bound.
    pub(super) to: Option<Queue>,
}

/// All messages of all clients.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) published: Vec<Published>,
    /// Messages delivered as if for the first time.
    pub(super) first: HashSet<(Queue, u32)>,
    /// Messages in `Queue::Kept` that the broker has confirmed or committed.
    pub(super) confirmed: BTreeSet<u32>,
    /// Messages of `Queue::Kept` for which some client has sent a settlement.
    pub(super) settled: BTreeSet<u32>,
    /// Messages of `Queue::Kept` whose settlement is certain: the broker has answered what came after it.
    pub(super) over: BTreeSet<u32>,
    /// Messages of `Queue::Kept` that were taken at the end.
    pub(super) found: BTreeSet<u32>,
    /// Nothing was left there.
    pub(super) is_complete: bool,
}

impl Ledger {
    /// Checks what was taken from `Queue::Kept` by [`Ask::Get`] after all others had left.
    pub(super) fn check(&self) -> Result<(), String> {
        let lost = |number: &&u32| !self.settled.contains(number) && !self.found.contains(number);
        if let Some(number) = self.confirmed.iter().find(lost) {
            return Err(format!("lost: message {number}, which was confirmed"));
        }
        match self.over.intersection(&self.found).next() {
            Some(number) => Err(format!(
                "returned: message {number}, which was acknowledged"
            )),
            None => Ok(()),
        }
    }
}
