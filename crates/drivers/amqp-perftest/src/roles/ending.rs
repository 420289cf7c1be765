//! Early ends of a run: each consumer has received its number of messages, the queues are empty, or no message has come
//! for a while.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::settings::{ExitWhen, Settings};

/// Time after the last message until the queue depth is queried, and between two queries.
const QUERY_NS: u64 = 50_000_000;

/// Progress of the consumers of all workers of this process. Times are nanoseconds of CLOCK_MONOTONIC.
#[derive(Debug)]
pub(crate) struct Ending {
    consumers: u64,
    /// Messages that each consumer is to receive.
    each: Option<u64>,
    when: Option<ExitWhen>,
    idle_ns: u64,
    /// Consumers that have received their messages, or found their queue empty.
    done: AtomicU64,
    /// Time at which a consumer was last active.
    last_activity: AtomicU64,
}

/// The remaining messages of one consumer.
#[derive(Debug)]
pub(crate) struct Quota {
    left: u64,
    is_done: bool,
    /// Times of the last message and of the last query of the queue depth.
    last_message: u64,
    last_query: u64,
    is_query_pending: bool,
}

impl Ending {
    /// Creates the progress of the `consumers` of this process.
    pub(crate) fn new(settings: &Settings, consumers: u64) -> Self {
        Self {
            consumers,
            each: settings.cmessages,
            when: settings.exit_when,
            idle_ns: settings.exit_idle_after.as_nanos() as u64,
            done: AtomicU64::new(0),
            last_activity: AtomicU64::new(0),
        }
    }

    /// Returns true if the run can end early.
    pub(crate) fn may_come(&self) -> bool {
        self.each.is_some() || self.when.is_some()
    }

    /// Returns true if consumers query the queue depth.
    pub(crate) fn queries_depth(&self) -> bool {
        self.when == Some(ExitWhen::Empty)
    }

    /// Records that a consumer was active at `at`.
    pub(crate) fn on_activity(&self, at: u64) {
        self.last_activity.fetch_max(at, Ordering::Relaxed);
    }

    /// Returns true once the condition for the early end holds.
    pub(crate) fn has_come(&self, now: u64) -> bool {
        let idle =
            || now.saturating_sub(self.last_activity.load(Ordering::Relaxed)) >= self.idle_ns;
        self.done.load(Ordering::Relaxed) == self.consumers
            || (self.when == Some(ExitWhen::Idle) && idle())
    }
}

impl Quota {
    pub(crate) fn from_settings(settings: &Settings) -> Self {
        Self {
            left: settings.cmessages.unwrap_or(u64::MAX),
            is_done: false,
            last_message: 0,
            last_query: 0,
            is_query_pending: false,
        }
    }

    /// Takes a message into account. Returns true if it is within the consumer's number.
    pub(crate) fn takes(&mut self, now: u64, ending: &Ending) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        self.last_message = now;
        if std::mem::take(&mut self.is_done) {
            ending.done.fetch_sub(1, Ordering::Relaxed);
        }
        true
    }

    /// Returns true once the consumer has received its number of messages.
    pub(crate) fn is_full(&self) -> bool {
        self.left == 0
    }

    /// Marks the consumer as done, unless another message comes.
    pub(crate) fn finish(&mut self, ending: &Ending) {
        if !std::mem::replace(&mut self.is_done, true) {
            ending.done.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns true if the queue depth must be queried now.
    pub(crate) fn queries_depth(&mut self, now: u64) -> bool {
        let queries = !self.is_done
            && !self.is_query_pending
            && now >= self.last_message.max(self.last_query) + QUERY_NS;
        if queries {
            self.last_query = now;
            self.is_query_pending = true;
        }
        queries
    }

    /// Takes the queue depth. Returns true if no message is left for this consumer.
    pub(crate) fn on_depth(&mut self, messages: u32) -> bool {
        self.is_query_pending = false;
        messages == 0 && self.last_message <= self.last_query
    }

    /// Drops the pending query, which will not be answered.
    pub(crate) fn forget(&mut self) {
        self.is_query_pending = false;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn ending(settings: &Settings) -> Ending {
        Ending::new(settings, 2)
    }

    #[test]
    fn it_comes_when_all_have_had_theirs() {
        let settings = Settings {
            cmessages: Some(1),
            ..Settings::default()
        };
        let mut quotas = [
            Quota::from_settings(&settings),
            Quota::from_settings(&settings),
        ];
        let ending = ending(&settings);
        for quota in &mut quotas {
            assert!(!ending.has_come(0));
            assert!(quota.takes(0, &ending) && quota.is_full());
            assert!(!quota.takes(0, &ending), "it has had its one");
            quota.finish(&ending);
        }
        assert!(ending.has_come(0));
    }

    #[test]
    fn a_message_after_the_question_says_that_there_may_be_more() {
        let settings = Settings {
            exit_when: Some(ExitWhen::Empty),
            ..Settings::default()
        };
        let mut quota = Quota::from_settings(&settings);
        let ending = ending(&settings);
        assert!(
            quota.queries_depth(QUERY_NS) && !quota.queries_depth(3 * QUERY_NS),
            "it waits"
        );
        quota.takes(QUERY_NS + 1, &ending);
        assert!(!quota.on_depth(0));
        assert!(!quota.queries_depth(QUERY_NS + 2) && quota.queries_depth(2 * QUERY_NS + 1));
        assert!(!quota.on_depth(3), "there are three");
        assert!(quota.queries_depth(3 * QUERY_NS + 1) && quota.on_depth(0));
        quota.finish(&ending);
        quota.takes(4 * QUERY_NS, &ending);
        assert_eq!(ending.done.load(Ordering::Relaxed), 0, "one came after all");
    }

    #[test]
    fn idle_is_nothing_for_as_long_as_was_asked() {
        let ending = ending(&Settings {
            exit_when: Some(ExitWhen::Idle),
            exit_idle_after: Duration::from_nanos(10),
            ..Settings::default()
        });
        ending.on_activity(100);
        assert!(!ending.has_come(109) && ending.has_come(110));
    }
}
