//! Counters of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use serde::Serialize;

/// Counts since the start. They can be read at any time.
#[derive(Debug, Default, Serialize)]
pub struct Counts {
    connections: AtomicU64,
    requests: AtomicU64,
    finished: AtomicU64,
    canceled: AtomicU64,
    sent: AtomicU64,
}

impl Counts {
    /// Returns the number of accepted connections.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.connections.load(SeqCst)
    }

    /// Returns the number of chat requests that were started.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(SeqCst)
    }

    /// Returns the number of requests whose response was sent as its pattern defines.
    #[must_use]
    pub fn finished(&self) -> u64 {
        self.finished.load(SeqCst)
    }

    /// Returns the number of requests that the client canceled before that.
    #[must_use]
    pub fn canceled(&self) -> u64 {
        self.canceled.load(SeqCst)
    }

    /// Returns the number of event-stream bytes that the connections accepted.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent.load(SeqCst)
    }

    pub(crate) fn connected(&self) {
        self.connections.fetch_add(1, SeqCst);
    }

    pub(crate) fn took(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, SeqCst);
    }

    pub(crate) fn json(&self) -> String {
        serde_json::to_string(self).expect("numbers can be written as JSON")
    }
}

/// A request that is being answered. It counts as canceled if it is dropped before it is finished.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) counts: Arc<Counts>,
    is_finished: bool,
}

impl Open {
    pub(crate) fn new(counts: Arc<Counts>) -> Self {
        counts.requests.fetch_add(1, SeqCst);
        Self {
            counts,
            is_finished: false,
        }
    }

    pub(crate) fn finish(&mut self) {
        if !self.is_finished {
            self.is_finished = true;
            self.counts.finished.fetch_add(1, SeqCst);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.is_finished {
            self.counts.canceled.fetch_add(1, SeqCst);
        }
    }
}
