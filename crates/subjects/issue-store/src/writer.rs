//! The connection that writes: several requests in one transaction. Each can fail alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::changes::Changes;
use crate::error::{Error, ErrorContext as _};
use crate::ids::Ids;
use crate::lock::{LockFile, WriteLock};
use crate::store::BUSY_TIMEOUT;
use crate::time::Timestamp;

/// The only connection of a process that writes.
#[derive(Debug)]
pub struct Writer {
    connection: Connection,
    lock: Option<LockFile>,
    ids: Ids,
    prefix: String,
    /// The pages of the write-ahead log at the last commit.
    log_pages: Arc<AtomicI32>,
    /// The pages of the write-ahead log at which it is moved into the database.
    checkpoint_pages: i32,
}

/// A transaction of several requests. Dropping it stores none of them.
#[derive(Debug)]
pub struct Group<'a> {
    connection: &'a Connection,
    ids: &'a mut Ids,
    prefix: &'a str,
    is_open: bool,
    has_savepoints: bool,
    is_torn: bool,
    /// Released after the transaction has ended.
    _lock: Option<WriteLock<'a>>,
}

impl Writer {
    pub(crate) fn new(
        connection: Connection,
        lock: Option<LockFile>,
        ids: Ids,
        prefix: String,
        log_pages: Arc<AtomicI32>,
        checkpoint_pages: i32,
    ) -> Self {
        Self {
            connection,
            lock,
            ids,
            prefix,
            log_pages,
            checkpoint_pages,
        }
    }

    /// Begins a transaction. Waits for transactions of other processes, in the order of arrival, for at most five
    /// seconds.
    ///
    /// # Errors
    /// As [`begin_within`](Self::begin_within).
    pub fn begin(&mut self) -> Result<Group<'_>, Error> {
        self.begin_within(Some(BUSY_TIMEOUT))
    }

    /// Begins a transaction. Waits for transactions of other processes, in the order of arrival, for this time or
    /// forever.
    ///
    /// # Errors
    /// Another process holds the lock of this queue for the whole time, or SQLite's lock for five seconds or this time
    /// ([`Code::Busy`](crate::Code::Busy)), or SQLite fails.
    pub fn begin_within(&mut self, wait: Option<Duration>) -> Result<Group<'_>, Error> {
        let lock = self.lock.as_mut().map(|lock| lock.lock(wait)).transpose()?;
        let wait = wait.unwrap_or(BUSY_TIMEOUT).min(BUSY_TIMEOUT);
        self.connection
            .busy_timeout(wait)
            .doing("beginning a transaction")?;
        begin(&self.connection)?;
        self.ids.separate();
        Ok(Group {
            connection: &self.connection,
            ids: &mut self.ids,
            prefix: &self.prefix,
            is_open: true,
            has_savepoints: true,
            is_torn: false,
            _lock: lock,
        })
    }

    /// Performs one request in a transaction of its own, at this time.
    ///
    /// # Errors
    /// Errors of the request, and of the transaction. Nothing is stored then.
    pub fn apply<T>(
        &mut self,
        now: Timestamp,
        request: impl FnOnce(&mut Changes<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut group = self.begin()?;
        let applied = group.apply(now, request)?;
        group.commit()?;
        Ok(applied)
    }

    /// Moves as much of the write-ahead log into the database as readers allow. Returns the number of its pages that
    /// are left; after 0, the next commit starts the log from its beginning.
    ///
    /// SQLite notes the pages that it has moved, also if a reader keeps it from the end of the log, but syncs the
    /// database only at the end. Pages that a failed sync has lost are not moved again. So after a
    /// [failed sync](Error::is_failed_sync) nothing may be moved, nor read, until all connections are closed: the next
    /// one reads the whole log.
    ///
    /// # Errors
    /// SQLite fails. This connection then leaves the log as it is when it is closed.
    pub fn checkpoint(&mut self) -> Result<u64, Error> {
        let left = |row: &rusqlite::Row<'_>| {
            let (pages, moved): (i64, i64) = (row.get(1)?, row.get(2)?);
            Ok((pages - moved).max(0) as u64)
        };
        let moved = self
            .connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], left);
        if moved.is_err() {
            // SQLite moves it otherwise, if this is the last connection.
            self.connection
                .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
                .doing("keeping the write-ahead log")?;
        }
        moved.doing("moving the write-ahead log into the database")
    }

    /// Moves the write-ahead log into the database if it has grown long. Returns true if it had. Call it after the
    /// answers have been sent, as it waits for the disk, and the group that comes next waits for it.
    ///
    /// The writer does it alone, so that its other syncs do not wait for the database's. Passes on a thread of their own
    /// made the waits shorter, but more answers waited.
    ///
    /// # Errors
    /// SQLite fails.
    pub fn checkpoint_if_due(&mut self) -> Result<bool, Error> {
        let is_due = self.log_pages.load(Ordering::Relaxed) >= self.checkpoint_pages;
        if is_due {
            self.checkpoint()?;
        }
        Ok(is_due)
    }

    /// Returns the SQLite connection, for tests and for checks that the store does not have.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }
}

impl Group<'_> {
    /// Performs requests without a savepoint for each: SQLite copies every page that changes after a savepoint, which
    /// takes a sixth of the instructions of a create. A request that fails before it has changed anything needs none.
    /// After any other the group [is torn](Self::is_torn).
    #[must_use]
    pub fn without_savepoints(mut self) -> Self {
        self.has_savepoints = false;
        self
    }

    /// Returns true if a part of a request that failed is in the group, which cannot be committed: [restart] it and
    /// perform all of its requests again.
    ///
    /// [restart]: Self::restart
    #[must_use]
    pub fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// Undoes all requests. Those that follow have savepoints.
    ///
    /// # Errors
    /// SQLite fails, or a program that does not queue for the write lock has taken SQLite's.
    pub fn restart(&mut self) -> Result<(), Error> {
        let doing = "undoing a transaction";
        self.execute("ROLLBACK").doing(doing)?;
        (self.has_savepoints, self.is_torn) = (true, false);
        begin(self.connection)
    }

    /// Performs a request at this time. If it fails, its part of the transaction is undone, and the others' parts stay.
    ///
    /// # Errors
    /// Errors of the request. After one that is [not of the request](Error::is_of_request), the group cannot be
    /// committed.
    pub fn apply<T>(
        &mut self,
        now: Timestamp,
        request: impl FnOnce(&mut Changes<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if !self.has_savepoints {
            let before = self.connection.total_changes();
            let applied = request(&mut self.changes(now));
            self.is_torn |= applied.is_err() && self.connection.total_changes() != before;
            return applied;
        }
        let doing = "a savepoint";
        self.execute("SAVEPOINT request").doing(doing)?;
        match request(&mut self.changes(now)) {
            Ok(applied) => {
                self.execute("RELEASE request").doing(doing)?;
                Ok(applied)
            }
            Err(error) => {
                // SQLite may have ended the whole transaction already, as on a full disk.
                if !self.connection.is_autocommit() {
                    self.execute("ROLLBACK TO request").doing(doing)?;
                    self.execute("RELEASE request").doing(doing)?;
                }
                Err(error)
            }
        }
    }

    /// Stores the requests. When this returns, they are as durable as the store's mode says.
    ///
    /// # Errors
    /// SQLite fails. None of the requests is stored then, as far as SQLite knows: after a failed sync, open the
    /// database again before you trust it.
    ///
    /// # Panics
    /// If the group is torn.
    pub fn commit(mut self) -> Result<(), Error> {
        assert!(!self.is_torn, "a torn group is restarted");
        self.execute("COMMIT").doing("committing a transaction")?;
        self.is_open = false;
        Ok(())
    }

    fn changes(&mut self, now: Timestamp) -> Changes<'_> {
        Changes::new(self.connection, self.ids, self.prefix, now)
    }

    fn execute(&self, statement: &str) -> rusqlite::Result<usize> {
        self.connection.prepare_cached(statement)?.execute([])
    }
}

fn begin(connection: &Connection) -> Result<(), Error> {
    connection
        .execute_batch("BEGIN IMMEDIATE")
        .doing("beginning a transaction")
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        if self.is_open && !self.connection.is_autocommit() {
            // If this fails, the next transaction cannot begin, and says so.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }
}
