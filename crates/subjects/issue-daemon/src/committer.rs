//! Stores groups of requests, and keeps going when the disk does not.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use issue_rpc::{Answer, Code};
use issue_store::{Error, Store, Timestamp, Writer};

use crate::database_files::DatabaseFiles;
use crate::queue::Group;

/// The pause between two attempts to write after a failure, in microseconds.
const RETRY_US: i64 = 1_000_000;
/// The time for which a group waits for another process that writes, before the deadlines of all requests are looked at
/// again, also of those that have arrived meanwhile.
pub(crate) const LOCK_WAIT: Duration = Duration::from_millis(20);
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
/// second. Writes are also refused while a file of the database is removed or replaced.
///
/// After a failed sync of a checkpoint they are refused until the next start: pages that earlier passes moved may be
/// lost in the database file, and only the log has them. The next start reads all of it, unless another program still
/// has the database open.
#[derive(Debug)]
pub struct Committer {
    store: Store,
    files: Arc<DatabaseFiles>,
    writer: Option<Writer>,
    health: Health,
    /// The sync of a checkpoint has failed.
    needs_restart: bool,
    /// The time before which no new connection is tried.
    retry_at: Timestamp,
    forget_at: Timestamp,
}

impl Committer {
    /// Opens the connection that writes.
    ///
    /// # Errors
    /// The database cannot be opened.
    pub fn new(store: Store, files: Arc<DatabaseFiles>) -> Result<Self, Error> {
        Ok(Self {
            writer: Some(store.writer()?),
            store,
            files,
            health: Health::Healthy,
            needs_restart: false,
            retry_at: Timestamp(0),
            forget_at: Timestamp(0),
        })
    }

    /// Returns the state of the database.
    #[must_use]
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Stores a group. Just before the commit, `extend` may add requests to it and return true. Returns the answers in
    /// the order of its requests. Those that say success are as durable as the store's mode says.
    ///
    /// # Errors
    /// Another process holds the lock. Nothing was stored, and the group may be tried again; the answer is for requests
    /// that wait no longer.
    pub fn commit(
        &mut self,
        clock: impl Fn() -> Timestamp,
        group: &mut Group,
        extend: impl FnMut(&mut Group) -> bool,
    ) -> Result<Vec<Answer>, Answer> {
        let refuse = |group: &Group, problem: String| {
            let answer = Answer::failure(Code::Internal, &problem);
            Ok(vec![answer; group.jobs.len()])
        };
        if let Err(changed) = self.files.check() {
            self.close(clock(), &changed);
            let problem = format!("the database is read-only: {changed}: nothing was stored");
            return refuse(group, problem);
        }
        let now = clock();
        if self.writer.is_none() && (self.needs_restart || now < self.retry_at) {
            return refuse(group, self.refusal());
        }
        match self.try_commit(clock, group, extend) {
            Ok(answers) => match self.files.check() {
                Ok(()) => {
                    self.health = Health::Healthy;
                    Ok(answers)
                }
                Err(changed) => {
                    self.close(now, &changed);
                    let problem = format!(
                        "{changed}: the request may have been stored: look before you repeat it"
                    );
                    refuse(group, problem)
                }
            },
            Err(error) if error.code() == issue_store::Code::Busy => {
                let problem = format!("{error}: nothing was stored: try again");
                Err(Answer::failure(Code::Busy, &problem))
            }
            Err(error) => {
                self.fail(now, &error);
                let problem = format!(
                    "{error}: the request was not stored, unless the daemon stops before its next write: look before \
                     you repeat it then, or give it an idempotency key"
                );
                refuse(group, problem)
            }
        }
    }

    /// Notes a failure of the connection, such as a panic.
    pub(crate) fn fail(&mut self, now: Timestamp, error: &dyn Display) {
        self.close(now, error);
        // SQLite may remove the log when it closes a connection that has failed.
        self.files.forget_log();
    }

    /// Closes the connection, and refuses writes.
    fn close(&mut self, now: Timestamp, error: &dyn Display) {
        self.writer = None;
        self.retry_at = Timestamp(now.0 + RETRY_US);
        if self.health == Health::Healthy {
            self.health = Health::ReadOnly {
                since: now,
                problem: error.to_string(),
            };
        }
    }

    fn refusal(&self) -> String {
        match self.health {
            Health::Healthy => {
                "the database is being opened: nothing was stored: try again".to_owned()
            }
            Health::ReadOnly { .. } => format!("{}: nothing was stored", self.state()),
        }
    }

    /// Says what the operator must know of the database, after it has changed.
    pub(crate) fn state(&self) -> String {
        match &self.health {
            Health::Healthy => "the database takes writes again".to_owned(),
            Health::ReadOnly { since, problem } => {
                let remedy = if self.needs_restart {
                    "stop the daemon and start it again"
                } else {
                    "writing is tried again every second"
                };
                format!("the database is read-only since {since}: {problem}: {remedy}")
            }
        }
    }

    fn try_commit(
        &mut self,
        clock: impl Fn() -> Timestamp,
        group: &mut Group,
        mut extend: impl FnMut(&mut Group) -> bool,
    ) -> Result<Vec<Answer>, Error> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(self.store.writer()?),
        };
        let transaction = writer.begin_within(Some(LOCK_WAIT))?;
        let mut transaction = transaction.without_savepoints();
        let mut answers = Vec::with_capacity(group.jobs.len());
        while answers.len() < group.jobs.len() || extend(group) {
            let now = clock();
            for job in &group.jobs[answers.len()..] {
                answers.push(if job.request.header.is_expired(unix_ms(now)) {
                    expired()
                } else {
                    issue_rpc::write(&mut transaction, now, &job.request)?
                });
                if transaction.is_torn() {
                    transaction.restart()?;
                    answers.clear();
                    break;
                }
            }
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
        let moved = writer.checkpoint_if_due();
        self.needs_restart = moved.as_ref().is_err_and(Error::is_failed_sync);
        let maintained = moved.and_then(|_| {
            // A clock that goes back must not stop the removal for long.
            if now >= self.forget_at || now.0 < self.forget_at.0 - FORGET_US {
                self.forget_at = Timestamp(now.0 + FORGET_US);
                let before = Timestamp(now.0 - ANSWERS_KEPT_US);
                // Others wait behind it, so it does not wait for other processes either.
                let mut group = writer.begin_within(Some(LOCK_WAIT))?;
                if !group.apply(now, |changes| changes.forget_answers(before))? {
                    self.forget_at = now;
                }
                group.commit()?;
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

/// Returns a time in milliseconds.
pub(crate) fn unix_ms(time: Timestamp) -> u64 {
    u64::try_from(time.0 / 1_000).unwrap_or(0)
}

/// Makes the answer to a request whose deadline has passed.
pub(crate) fn expired() -> Answer {
    let problem = "the deadline passed before the request began: nothing was stored";
    Answer::failure(Code::Timeout, problem)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use issue_rpc::{Operation, Request, WriteRequest};
    use issue_store::Options;
    use mock_vfs::MockVfs;
    use serde_json::json;

    use super::*;
    use crate::queue::Job;

    /// Commits a group of one request, and returns its answer.
    fn commit(committer: &mut Committer, clock: impl Fn() -> Timestamp, line: &str) -> String {
        let Request { header, operation } = Request::parse(line.as_bytes()).unwrap();
        let Operation::Write(write) = operation else {
            panic!("a create is a write");
        };
        let job = Job {
            connection: 0,
            bytes: line.len(),
            request: WriteRequest { header, write },
        };
        let mut group = Group { jobs: vec![job] };
        let answers = committer.commit(clock, &mut group, |_| false).unwrap();
        answers[0].line(None)
    }

    #[test]
    fn a_write_whose_file_is_removed_during_its_commit_may_have_been_stored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("issues.db");
        let store = Store::open(&path, Options::default()).unwrap();
        let reader = store.reader().unwrap();
        let files = Arc::new(DatabaseFiles::new(&path));
        let mut committer = Committer::new(store, files).unwrap();
        // The committer asks for the time after it has checked the files.
        let clock = || {
            let _ = std::fs::remove_file(&path);
            Timestamp::now()
        };
        for part in ["may have been stored", "nothing was stored"] {
            let line = r#"{"operation":"create","args":{"title":"a"}}"#;
            let answer = commit(&mut committer, clock, line);
            assert!(
                answer.contains("was removed") && answer.contains(part),
                "{answer}"
            );
            assert_eq!(reader.stats().unwrap().total, 1);
        }
    }

    #[test]
    fn after_a_failed_sync_of_a_checkpoint_writes_are_refused_until_the_next_start() {
        let disk = MockVfs::new(1);
        let path = Path::new("issues.db");
        let open = || {
            let options = Options {
                vfs: Some(disk.name().to_owned()),
                checkpoint_pages: Some(100),
                ..Options::default()
            };
            Store::open(path, options).unwrap()
        };
        let store = open();
        let reader = store.reader().unwrap();
        let files = Arc::new(DatabaseFiles::new(path));
        let mut committer = Committer::new(store, files).unwrap();
        let description = "d".repeat(100_000);
        let line =
            json!({"operation": "create", "args": {"title": "a", "description": description}});
        let line = line.to_string();
        let mut created = 0;
        while *committer.health() == Health::Healthy {
            let answer = commit(&mut committer, || Timestamp(created), &line);
            assert!(answer.contains(r#""success":true"#), "{answer}");
            created += 1;
            // The first sync of a checkpoint is the log's.
            disk.fail_sync(2);
            committer.maintain(Timestamp(0));
        }
        let answer = commit(&mut committer, || Timestamp(i64::MAX / 2), &line);
        assert!(
            answer.contains("stop the daemon and start it again"),
            "{answer}"
        );
        committer.finish();
        drop((committer, reader));
        disk.crash();
        let stored = open().reader().unwrap().stats().unwrap().total;
        assert_eq!(stored, created.cast_unsigned());
    }
}
