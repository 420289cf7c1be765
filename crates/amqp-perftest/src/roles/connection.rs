//! The losses and waits of connections, as they are counted.

use std::collections::HashMap;
use std::io;

use harness::output;
use load::clock;
use load::recorder::Recorder;

use crate::outcome::{self, count};
use amqp_client::SessionError;

/// The reason why a connection is unusable, and the outcome of its unconfirmed messages.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) kind: &'static str,
    pub(crate) why: String,
}

impl From<&str> for Lost {
    fn from(why: &str) -> Self {
        Self {
            kind: outcome::CONNECTION_LOST,
            why: why.to_owned(),
        }
    }
}

impl From<String> for Lost {
    fn from(why: String) -> Self {
        why.as_str().into()
    }
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Self {
        error.to_string().into()
    }
}

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

    /// Counts a loss. The first is reported if the run has begun, at `origin`.
    pub(crate) fn add(&mut self, number: u64, lost: &Lost, origin: u64, record: &Recorder) {
        let now = clock::now();
        let (counter, end) = match lost.kind {
            outcome::CHANNEL_CLOSED => (count::CHANNELS_CLOSED, "is reopened"),
            _ => (count::DISCONNECTS, "was lost"),
        };
        if origin <= now && self.lost_at.is_empty() {
            output::remark(&format!("connection {number} {end}: {}", lost.why));
        }
        self.reason.clone_from(&lost.why);
        record.count(counter, 1);
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
