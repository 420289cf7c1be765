//! Published messages that have not ended: those in queues are unfinished, and the others are lost.

/// Missing messages, as found by the last worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Missing {
    /// Measured messages.
    pub(crate) counted: u64,
    /// Messages of the warm-up.
    pub(crate) warmup: u64,
}

/// Missing messages, as far as they are in queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Explained {
    /// Measured messages that are in queues, or may be.
    pub(crate) unfinished: u64,
    /// Measured messages that are in none.
    pub(crate) lost: u64,
    /// Messages of the warm-up that are in none.
    pub(crate) lost_of_warmup: u64,
}

impl Missing {
    /// Divides them by the number of messages in queues that never arrived. If it is unknown, no message is lost.
    pub(crate) fn explained_by(self, queued: Option<u64>) -> Explained {
        let queued = queued.unwrap_or(u64::MAX);
        let unfinished = self.counted.min(queued);
        Explained {
            unfinished,
            lost: self.counted - unfinished,
            lost_of_warmup: self.warmup.saturating_sub(queued - unfinished),
        }
    }
}
