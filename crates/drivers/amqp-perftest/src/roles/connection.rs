//! The losses and waits of connections, as they are counted.

use std::collections::HashMap;
use std::io;

use harness::output;
use load::clock;
use load::recorder::Recorder;

use crate::connect::FailedAttempt;
use crate::outcome::{self, count};

/// The reason why a connection is unusable, and the outcome of its unconfirmed messages.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) kind: &'static str,
    /// True if the broker refused something: it closed the channel or the connection, and not because it stops.
    pub(crate) is_refusal: bool,
    pub(crate) why: String,
}

/// The reply code of a connection that is closed because its broker stops (AMQP 0-9-1, connection-forced).
pub(crate) const CONNECTION_FORCED: u16 = 320;

impl From<&str> for Lost {
    fn from(why: &str) -> Self {
        Self {
            kind: outcome::CONNECTION_LOST,
            is_refusal: false,
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
#[derive(Debug)]
pub(crate) struct LostConnections {
    record: Recorder,
    /// Connections by number, with the time of the loss.
    lost_at: HashMap<u64, u64>,
    /// Reason of the last loss or failed reconnect.
    reason: String,
}

impl LostConnections {
    pub(crate) fn new(record: Recorder) -> Self {
        Self {
            record,
            lost_at: HashMap::new(),
            reason: String::new(),
        }
    }

    /// Returns true if every connection is established.
    pub(crate) fn is_empty(&self) -> bool {
        self.lost_at.is_empty()
    }

    /// Counts a loss. The first is reported if the run has begun, at `origin`.
    pub(crate) fn add(&mut self, number: u64, lost: &Lost, origin: u64) {
        let now = clock::now();
        let (counter, end) = match lost.kind {
            outcome::CHANNEL_CLOSED => (count::CHANNELS_CLOSED, "is reopened"),
            _ => (count::DISCONNECTS, "was lost"),
        };
        if origin <= now && self.lost_at.is_empty() {
            output::note(&format!("connection {number} {end}: {}", lost.why));
        }
        self.reason.clone_from(&lost.why);
        self.record.count(counter, 1);
        self.lost_at.entry(number).or_insert(now);
    }

    pub(crate) fn on_failed_attempt(&mut self, (address, error): &FailedAttempt) {
        if let Some(kind) = outcome::exhausted(error) {
            self.record.count_by_name(kind, 1);
        }
        self.reason = format!("{address}: {error}");
    }

    pub(crate) fn on_reopened(&mut self, number: u64, now: u64) {
        if let Some(since) = self.lost_at.remove(&number) {
            self.record.count(count::RECONNECTS, 1);
            self.record
                .count(count::GAP_MS, now.saturating_sub(since) / 1_000_000);
        }
    }

    /// Ends the count. Returns an error if connections are still lost.
    pub(crate) fn end(&self, now: u64) -> anyhow::Result<()> {
        for since in self.lost_at.values() {
            self.record
                .count(count::GAP_MS, now.saturating_sub(*since) / 1_000_000);
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

    pub(crate) fn block(&mut self, now: u64, record: &Recorder) {
        record.count(count::BLOCKED, 1);
        self.0.get_or_insert(now);
    }

    /// Counts the wait until now, so that each second has its part of it.
    pub(crate) fn count(&mut self, now: u64, record: &Recorder) {
        if let Some(since) = &mut self.0 {
            let waited_ms = now.saturating_sub(*since) / 1_000_000;
            record.count(count::BLOCKED_MS, waited_ms);
            *since += waited_ms * 1_000_000;
        }
    }

    /// Ends the wait: `connection.unblocked`, or the connection is lost or closed.
    pub(crate) fn unblock(&mut self, now: u64, record: &Recorder) {
        self.count(now, record);
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roles::testing::worker;

    #[test]
    fn each_second_has_its_part_of_a_wait_that_has_not_ended() {
        let (worker, recorded) = worker();
        let mut blocked = Blocked::default();
        blocked.block(0, &worker.record);
        for now in [1_500_000, 1_900_000, 3_000_000] {
            blocked.count(now, &worker.record);
        }
        assert!(blocked.is_blocked());
        assert_eq!(recorded.end().counted(count::BLOCKED_MS), 3);
    }
}
