//! Stores groups of requests, and keeps going when the disk does not.

use std::time::Duration;

use issue_rpc::{Answer, Code};
use issue_store::{Error, Store, Timestamp, Writer};

use crate::queue::{Group, Job};

/// The pause between two attempts to write after a failure, in microseconds.
const RETRY_US: i64 = 1_000_000;
/// The time for which a group waits while another process writes. Those behind it wait as long.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// The time for which an answer is kept with its idempotency key, in microseconds: 24 hours.
const ANSWERS_KEPT_US: i64 = 24 * 3_600_000_000;
/// The time between two removals of old answers, in microseconds: 1 hour.
const FORGET_US: i64 = 3_600_000_000;

/// The state of the database for writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// Writes are stored.
    Healthy,
    /// Writes are refused, since a time and for a reason. Reads are answered.
    ReadOnly {
        /// The time of the first failure.
        since: Timestamp,
        /// The failure.
        problem: String,
    },
}

/// Stores groups of requests in a database.
///
/// After a failure the connection is not trusted any more (a sync that follows a failed one may succeed without having
/// written anything), so it is closed. Writes are refused until a new one has stored a group; it is tried at most once a
/// second.
#[derive(Debug)]
pub struct Committer {
    store: Store,
    writer: Option<Writer>,
    health: Health,
    /// The time before which no new connection is tried.
    retry_at: Timestamp,
    forget_at: Timestamp,
}

impl Committer {
    /// Opens the connection that writes.
    ///
    /// # Errors
    /// The database cannot be opened.
    pub fn new(store: Store) -> Result<Self, Error> {
        Ok(Self {
            writer: Some(store.writer()?),
            store,
            health: Health::Healthy,
            retry_at: Timestamp(0),
            forget_at: Timestamp(0),
        })
    }

    /// Returns the state of the database.
    #[must_use]
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Stores a group. Returns the answers in the order of its requests. Those that say success are as durable as the
    /// store's mode says.
    pub fn commit(&mut self, clock: impl Fn() -> Timestamp, group: &Group) -> Vec<Answer> {
        let now = clock();
        if self.writer.is_none() && now < self.retry_at {
            return vec![self.refusal(); group.jobs.len()];
        }
        match self.try_commit(clock, group) {
            Ok(answers) => {
                self.health = Health::Healthy;
                answers
            }
            Err(error) if error.code() == issue_store::Code::Busy => {
                let problem = format!("{error}: nothing was stored: try again");
                vec![Answer::failure(Code::Busy, &problem); group.jobs.len()]
            }
            Err(error) => {
                self.fail(now, &error);
                let problem = format!(
                    "{error}: the request was not stored, unless the daemon stops before its next write: look before \
                     you repeat it then, or give it an idempotency key"
                );
                vec![Answer::failure(Code::Internal, &problem); group.jobs.len()]
            }
        }
    }

    /// Notes a failure outside of a group, such as a panic.
    pub(crate) fn fail(&mut self, now: Timestamp, error: &dyn std::fmt::Display) {
        self.writer = None;
        self.retry_at = Timestamp(now.0 + RETRY_US);
        if self.health == Health::Healthy {
            self.health = Health::ReadOnly {
                since: now,
                problem: error.to_string(),
            };
        }
    }

    fn refusal(&self) -> Answer {
        let problem = match &self.health {
            Health::Healthy => {
                "the database is being opened: nothing was stored: try again".to_owned()
            }
            Health::ReadOnly { since, problem } => {
                format!(
                    "the database is read-only since {since}: {problem}: nothing was stored: writing is tried again every second"
                )
            }
        };
        Answer::failure(Code::Internal, &problem)
    }

    fn try_commit(
        &mut self,
        clock: impl Fn() -> Timestamp,
        group: &Group,
    ) -> Result<Vec<Answer>, Error> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(self.store.writer()?),
        };
        let now_ms = u64::try_from(clock().0 / 1_000).unwrap_or(0);
        let left = |job: &Job| job.request.header.time_left(now_ms).unwrap_or(LOCK_WAIT);
        let longest = group.jobs.iter().map(left).max();
        let wait = longest.unwrap_or(LOCK_WAIT).min(LOCK_WAIT);
        let mut transaction = writer.begin_within(Some(wait))?;
        // The wait for other processes may have been long.
        let now = clock();
        let now_ms = u64::try_from(now.0 / 1_000).unwrap_or(0);
        let mut answers = Vec::with_capacity(group.jobs.len());
        for job in &group.jobs {
            answers.push(match job.request.header.is_expired(now_ms) {
                true => expired(),
                false => issue_rpc::write(&mut transaction, now, &job.request)?,
            });
        }
        transaction.commit()?;
        Ok(answers)
    }

    /// Does what can wait until the answers of a group are sent: moves the log into the database if it is long, and
    /// removes old idempotency keys.
    pub fn maintain(&mut self, now: Timestamp) {
        let Some(writer) = &mut self.writer else {
            return;
        };
        let maintained = writer.checkpoint_if_due().and_then(|_| {
            // A clock that goes back must not stop the removal for long.
            if now >= self.forget_at || now.0 < self.forget_at.0 - FORGET_US {
                self.forget_at = Timestamp(now.0 + FORGET_US);
                let before = Timestamp(now.0 - ANSWERS_KEPT_US);
                if !writer.apply(now, |changes| changes.forget_answers(before))? {
                    self.forget_at = now;
                }
            }
            Ok(())
        });
        match maintained {
            Err(error) if error.code() != issue_store::Code::Busy => self.fail(now, &error),
            _ => {}
        }
    }

    /// Moves the log into the database, as the last thing before the daemon stops. A failure loses nothing: the next
    /// start reads the log.
    pub fn finish(&mut self) {
        if let Some(writer) = &mut self.writer {
            let _ = writer.checkpoint();
        }
    }
}

/// Makes the answer to a request whose deadline has passed.
pub(crate) fn expired() -> Answer {
    let problem = "the deadline passed before the request began: nothing was stored";
    Answer::failure(Code::Timeout, problem)
}
