//! The losses and waits of connections, as they are counted.

use std::collections::HashMap;

use harness::output;
use load::recorder::Recorder;

use crate::outcome::{self, count};
use amqp_client::SessionError;

/// Lost connections of a worker, until they are reopened.
#[derive(Debug, Default)]
pub(crate) struct LostConnections {
    /// Connections by number, with the time of the loss.
    lost_at: HashMap<u64, u64>,
    /// Reason of the last loss or failed reconnect.
    reason: String,
}

impl LostConnections {
    /// Returns true if every connection is established.
    pub(crate) fn is_empty(&self) -> bool {
        self.lost_at.is_empty()
    }

    /// Counts a loss. `kind` is the outcome of its unconfirmed messages. The first is reported if the run `has_begun`.
    pub(crate) fn add(
        &mut self,
        number: u64,
        (kind, reason): (&'static str, &str),
        (now, has_begun): (u64, bool),
        record: &Recorder,
    ) {
        if has_begun && self.lost_at.is_empty() {
            output::note(&outcome::remark(number, kind, reason));
        }
        reason.clone_into(&mut self.reason);
        record.count(outcome::end_of(kind), 1);
        self.lost_at.entry(number).or_insert(now);
    }

    /// Counts a failed attempt to reopen a connection.
    pub(crate) fn on_failed_attempt(&mut self, error: &SessionError, record: &Recorder) {
        if let Some(kind) = outcome::exhausted(error) {
            record.count(kind, 1);
        }
        self.reason = error.to_string();
    }

    /// Counts a reopened connection.
    pub(crate) fn on_reopened(&mut self, number: u64, now: u64, record: &Recorder) {
        if let Some(since) = self.lost_at.remove(&number) {
            record.count(count::RECONNECTS, 1);
            record.count(count::GAP_MS, now.saturating_sub(since) / 1_000_000);
        }
    }

    /// Ends the count.
    ///
    /// # Errors
    /// Connections are still lost.
    pub(crate) fn end(&self, now: u64, record: &Recorder) -> anyhow::Result<()> {
        for since in self.lost_at.values() {
            record.count(count::GAP_MS, now.saturating_sub(*since) / 1_000_000);
        }
        anyhow::ensure!(
            self.lost_at.is_empty(),
            "{} connections were lost and not reestablished by the end: {}",
            self.lost_at.len(),
            self.reason
        );
        Ok(())
    }
}

/// The time since which a broker asks a connection to publish nothing (`connection.blocked`).
#[derive(Debug, Default)]
pub(crate) struct Blocked(Option<u64>);

impl Blocked {
    /// Returns true if nothing may be published.
    pub(crate) fn is_blocked(&self) -> bool {
        self.0.is_some()
    }

    /// Counts a `connection.blocked`.
    pub(crate) fn block(&mut self, now: u64, record: &Recorder) {
        record.count(count::BLOCKED, 1);
        self.0.get_or_insert(now);
    }

    /// Counts the end of the wait: `connection.unblocked`, or the connection is lost or closed.
    pub(crate) fn unblock(&mut self, now: u64, record: &Recorder) {
        if let Some(since) = self.0.take() {
            record.count(count::BLOCKED_MS, now.saturating_sub(since) / 1_000_000);
        }
    }
}
