//! Published messages that have not ended: those in queues are unfinished. Of the others, the broker may have refused
//! some; the rest is lost.

/// Missing messages, as found by the last worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Missing {
    /// Measured messages.
    pub(crate) counted: u64,
    /// Messages of the warm-up.
    pub(crate) warmup: u64,
    /// Messages of each of the two that the broker may have refused.
    pub(crate) refusable: u64,
    pub(crate) refusable_of_warmup: u64,
}

/// Missing messages, as far as they are in queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Explained {
    /// Measured messages that are in queues, or may be.
    pub(crate) unfinished: u64,
    /// Measured messages that are in none, and were refused.
    pub(crate) refused: u64,
    /// Measured messages that are in none, and were not refused.
    pub(crate) lost: u64,
    /// The same of the warm-up.
    pub(crate) lost_of_warmup: u64,
}

impl Missing {
    /// Adds the missing messages of a stream, measured or of the warm-up.
    pub(super) fn add(&mut self, counts: bool, missing: u64, refusable: u64) {
        let (all, refused) = if counts {
            (&mut self.counted, &mut self.refusable)
        } else {
            (&mut self.warmup, &mut self.refusable_of_warmup)
        };
        *all += missing;
        *refused += refusable;
    }

    /// Divides them by the number of messages in queues that never arrived. If it is unknown, no message is lost.
    pub(crate) fn explained_by(self, queued: Option<u64>) -> Explained {
        let queued = queued.unwrap_or(u64::MAX);
        let unfinished = self.counted.min(queued);
        let refused = self.refusable.min(self.counted - unfinished);
        let lost_of_warmup = self.warmup.saturating_sub(queued - unfinished);
        Explained {
            unfinished,
            refused,
            lost: self.counted - unfinished - refused,
            lost_of_warmup: lost_of_warmup.saturating_sub(self.refusable_of_warmup),
        }
    }
}
