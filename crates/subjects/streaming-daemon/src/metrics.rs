//! The daemon's metrics: plain relaxed atomics, written by the shards and read by the page.
//!
//! Costs: about 25 additions per stream at 5–20 ns, most of them at its start and end. Events are summed up by the
//! shard and added once per round.
//!
//! The metrics are kept here and not in the exporter's own registry: a stream is admitted by a counter that is read and
//! written in one step, which a gauge of that registry does not offer, and its histograms allocate for each sample.

mod histogram;
mod page;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use self::histogram::Histogram;
use crate::config::Backend;
use crate::failure::{HandoffFailure, StreamFailure};

/// The metrics of one daemon.
#[derive(Debug, Default)]
pub struct Metrics {
    active_connections: AtomicU64,
    active_streams: AtomicU64,
    peak_streams: AtomicU64,
    connections: AtomicU64,
    rejected: AtomicU64,
    handoffs: AtomicU64,
    streams: AtomicU64,
    completed: AtomicU64,
    bytes: AtomicU64,
    chunks: AtomicU64,
    handoff_failures: [AtomicU64; HandoffFailure::LABELS.len()],
    stream_failures: [AtomicU64; StreamFailure::LABELS.len()],
    handoff_duration: Histogram,
    stream_duration: Histogram,
    backend: Backend,
    backend_failures: AtomicU64,
    backend_duration: Histogram,
    backend_ttfb: Histogram,
}

/// The summary that `--benchmark` prints at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Maximum number of streams that were open at once.
    pub peak_concurrent: u64,
    /// Number of streams that were started.
    pub started: u64,
    /// Number of streams whose last byte was written.
    pub completed: u64,
    /// Number of streams that were started but not completed.
    pub failed: u64,
    /// Number of bytes written to clients.
    pub bytes: u64,
}

impl Metrics {
    /// Creates the metrics of a daemon with this backend.
    pub(crate) fn new(backend: Backend) -> Self {
        Self {
            backend,
            ..Self::default()
        }
    }

    /// Counts an accepted handoff connection.
    pub(crate) fn connection_opened(&self) {
        self.connections.fetch_add(1, Relaxed);
        self.active_connections.fetch_add(1, Relaxed);
    }

    /// Counts a handoff connection that ended before it became a stream.
    pub(crate) fn handoff_failed(&self, failure: HandoffFailure) {
        self.handoff_flaw(failure);
        self.active_connections.fetch_sub(1, Relaxed);
    }

    /// Counts a flaw of a handoff, or a failed accept, that ended no connection.
    pub(crate) fn handoff_flaw(&self, failure: HandoffFailure) {
        self.handoff_failures[failure as usize].fetch_add(1, Relaxed);
    }

    /// Counts a client that arrived, `took` nanoseconds after the accept.
    pub(crate) fn handoff_done(&self, took: u64) {
        self.handoffs.fetch_add(1, Relaxed);
        self.handoff_duration.record(took);
    }

    /// Starts a stream if fewer than `capacity` are open; returns true if it did.
    pub(crate) fn try_start_stream(&self, capacity: u64) -> bool {
        let taken = |active| (active < capacity).then_some(active + 1);
        match self.active_streams.fetch_update(Relaxed, Relaxed, taken) {
            Ok(before) => {
                self.peak_streams.fetch_max(before + 1, Relaxed);
                self.streams.fetch_add(1, Relaxed);
                true
            }
            Err(_) => {
                self.rejected.fetch_add(1, Relaxed);
                self.active_connections.fetch_sub(1, Relaxed);
                false
            }
        }
    }

    /// Records the first event of a stream, `after` nanoseconds after the handoff.
    pub(crate) fn first_event(&self, after: u64) {
        self.backend_ttfb.record(after);
    }

    /// Counts written events and bytes.
    pub(crate) fn wrote(&self, chunks: u64, bytes: u64) {
        self.chunks.fetch_add(chunks, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Counts a request that the backend failed.
    pub(crate) fn backend_failed(&self) {
        self.backend_failures.fetch_add(1, Relaxed);
    }

    /// Counts a completed stream, with its duration and the backend's in nanoseconds.
    pub(crate) fn stream_completed(&self, took: u64, backend_took: u64) {
        self.completed.fetch_add(1, Relaxed);
        self.stream_duration.record(took);
        self.backend_duration.record(backend_took);
        self.stream_closed();
    }

    /// Counts a stream that ended early.
    pub(crate) fn stream_failed(&self, failure: StreamFailure) {
        self.stream_failures[failure as usize].fetch_add(1, Relaxed);
        self.stream_closed();
    }

    fn stream_closed(&self) {
        self.active_streams.fetch_sub(1, Relaxed);
        self.active_connections.fetch_sub(1, Relaxed);
    }

    /// Returns the number of open streams.
    #[must_use]
    pub fn active_streams(&self) -> u64 {
        self.active_streams.load(Relaxed)
    }

    /// Returns the summary of `--benchmark`. A stream that is still open counts as failed, so this is meant for the
    /// end.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let (started, completed) = (self.streams.load(Relaxed), self.completed.load(Relaxed));
        Summary {
            peak_concurrent: self.peak_streams.load(Relaxed),
            started,
            completed,
            failed: started.saturating_sub(completed),
            bytes: self.bytes.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_above_the_capacity_is_refused_and_counted() {
        let metrics = Metrics::default();
        for _ in 0..3 {
            metrics.connection_opened();
        }
        assert!(metrics.try_start_stream(2));
        assert!(metrics.try_start_stream(2));
        assert!(!metrics.try_start_stream(2));
        metrics.stream_completed(1, 1);
        metrics.connection_opened();
        assert!(metrics.try_start_stream(2));
        assert_eq!(metrics.rejected.load(Relaxed), 1);
        assert_eq!(metrics.active_connections.load(Relaxed), 2);
        assert_eq!(metrics.summary().peak_concurrent, 2);
    }
}
