//! A database file, and the connections to it.

use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::{Code, DAMAGE_REMEDY, Error, ErrorContext as _};
use crate::files::open_or_create;
use crate::ids::Ids;
use crate::lock::LockFile;
use crate::reader::Reader;
use crate::schema;
use crate::writer::Writer;

/// The oldest SQLite that is allowed: 3.7.0 to 3.51.2 can corrupt a write-ahead log when a checkpoint and a write of
/// two connections meet (<https://sqlite.org/wal.html>, "the WAL-reset bug").
const OLDEST_SQLITE: i32 = 3_051_003;
/// Time for which a connection waits for a lock that another program holds.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// The beginning of new ids if nobody has chosen one.
const DEFAULT_PREFIX: &str = "issue";
/// Pages of the write-ahead log at which it is moved into the database: 63 MiB. A group of 32 creates takes some 25, so
/// that fewer than one answer in a hundred waits for it. Most pages were changed several times: after 3,000, the wait was
/// as long.
const CHECKPOINT_PAGES: i32 = 16_000;
/// The size to which the write-ahead log is cut when it starts again after a long reader, in bytes for each page of those.
/// Usual logs are smaller, so that they are written in place.
const LOG_BYTES: i64 = 5 << 10;
/// Statements that a connection keeps prepared.
const STATEMENTS: usize = 128;
/// Pages of the database that a connection keeps in memory, in KiB (a negative number, as SQLite wants it).
const WRITER_CACHE: i64 = -8_192;
const READER_CACHE: i64 = -1_024;

/// The protection of acknowledged writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A commit is on the disk before it returns: it survives a loss of power.
    #[default]
    Fsync,
    /// A commit is with the operating system: it survives the death of the process.
    Os,
    /// The same, and a checkpoint does not wait for the disk either: a loss of power may corrupt the database.
    None,
}

impl Durability {
    /// Returns the name of the mode.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fsync => "fsync",
            Self::Os => "os",
            Self::None => "none",
        }
    }

    /// Returns the value of `PRAGMA synchronous`.
    fn synchronous(self) -> &'static str {
        match self {
            Self::Fsync => "FULL",
            Self::Os => "NORMAL",
            Self::None => "OFF",
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Fsync, Self::Os, Self::None];
        let found = all.into_iter().find(|mode| mode.name() == text);
        found.ok_or_else(|| format!("{text:?} is not one of fsync, os, none"))
    }
}

/// Settings of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The protection of acknowledged writes.
    pub durability: Durability,
    /// The beginning of new ids; without one, it is that with which the database was created, or else `issue`.
    pub prefix: Option<String>,
    /// The seed of new ids, for tests; without one they are random.
    pub seed: Option<u64>,
    /// The virtual file system of SQLite, for tests; without one it is the operating system's.
    pub vfs: Option<String>,
    /// The pages of the write-ahead log at which it is moved into the database, for tests; without it they are 16,000.
    pub checkpoint_pages: Option<i32>,
}

/// A database of issues.
#[derive(Debug, Clone)]
pub struct Store {
    path: PathBuf,
    options: Options,
}

impl Store {
    /// Opens a database, and creates it with mode 0600 if it is missing. Waits for the write lock while the tables are
    /// created or updated.
    ///
    /// # Errors
    /// The file cannot be opened, is not a database of this program or of this version, or SQLite is too old.
    pub fn open(path: &Path, options: Options) -> Result<Self, Error> {
        let unusable = |problem: String| Error::Unusable {
            path: path.to_owned(),
            problem,
        };
        if rusqlite::version_number() < OLDEST_SQLITE {
            let version = rusqlite::version();
            return Err(unusable(format!(
                "SQLite {version} can corrupt it: build with 3.51.3 or newer"
            )));
        }
        if let Some(prefix) = &options.prefix {
            check_prefix(prefix)?;
        }
        // Locks and the write-ahead log are found by the name: programs that use two names corrupt the database.
        if let Ok(file) = std::fs::metadata(path)
            && file.nlink() > 1
        {
            let problem = "has other names (hard links), under which another program could corrupt it: remove them, or copy it";
            return Err(unusable(problem.to_owned()));
        }
        if options.vfs.is_none() && !path.exists() {
            open_or_create(path)
                .map_err(|error| unusable(format!("cannot be created: {error}")))?;
        }
        let store = Self {
            path: path.to_owned(),
            options,
        };
        match store.prepare() {
            Ok(Ok(())) => Ok(store),
            Ok(Err(problem)) => Err(unusable(problem)),
            Err(error @ Error::Database { .. }) if error.code() == Code::Internal => {
                Err(unusable(error.to_string()))
            }
            Err(error) => Err(error),
        }
    }

    /// Creates or updates the tables. Returns the problem if the database is not of this program and version.
    fn prepare(&self) -> Result<Result<(), String>, Error> {
        let mut connection = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE, WRITER_CACHE)?;
        // Without the lock: a writer that is stopped, or long, keeps nobody from reading.
        if schema::is_current(&connection)? {
            return Ok(Ok(()));
        }
        let mut lock = self.lock_file()?;
        let locked = lock.as_mut().map(|lock| lock.lock(Some(BUSY_TIMEOUT)));
        let _locked = locked.transpose()?;
        connection
            .pragma_update(None, "journal_mode", "WAL")
            .doing("switching to a write-ahead log")?;
        schema::migrate(&mut connection, self.options.prefix.as_deref())
    }

    /// Reads the whole database and checks its structure.
    ///
    /// # Errors
    /// It is damaged; the error says how to recover.
    pub fn check_structure(&self) -> Result<(), Error> {
        let connection = self.connect(OpenFlags::SQLITE_OPEN_READ_ONLY, READER_CACHE)?;
        let found: String = connection
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .doing("checking the database")?;
        match found.as_str() {
            "ok" => Ok(()),
            damage => Err(Error::Unusable {
                path: self.path.clone(),
                problem: format!("is damaged ({damage}){DAMAGE_REMEDY}"),
            }),
        }
    }

    /// Returns the path of the database.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the connection that writes.
    ///
    /// # Errors
    /// The database cannot be opened.
    pub fn writer(&self) -> Result<Writer, Error> {
        let mut connection = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE, WRITER_CACHE)?;
        // The changes count themselves. For an insert with a trigger, SQLite looks for rows of all tables that refer to the
        // new one, and copies every page before it changes: a third of the instructions of a create.
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
            .doing("turning triggers off")?;
        // The writer checkpoints itself, after a commit has been answered. This hook replaces SQLite's own, which would
        // checkpoint before.
        let log_pages = Arc::new(AtomicI32::new(0));
        let noted = Arc::clone(&log_pages);
        let note = move |_: &mut rusqlite::hooks::Wal, pages| {
            noted.store(pages, Ordering::Relaxed);
            Ok(())
        };
        connection
            .wal_hook(Some(note))
            .doing("turning automatic checkpoints off")?;
        let ids = Ids::new(self.options.seed);
        let prefix = match &self.options.prefix {
            Some(prefix) => prefix.clone(),
            None => schema::prefix(&connection)?.unwrap_or_else(|| DEFAULT_PREFIX.to_owned()),
        };
        Ok(Writer::new(
            connection,
            self.lock_file()?,
            ids,
            prefix,
            log_pages,
            self.checkpoint_pages(),
        ))
    }

    fn checkpoint_pages(&self) -> i32 {
        self.options.checkpoint_pages.unwrap_or(CHECKPOINT_PAGES)
    }

    /// Opens a connection that reads.
    ///
    /// # Errors
    /// The database cannot be opened.
    pub fn reader(&self) -> Result<Reader, Error> {
        let connection = self.connect(OpenFlags::SQLITE_OPEN_READ_ONLY, READER_CACHE)?;
        Ok(Reader::new(connection))
    }

    /// Returns the lock file, unless a test has put the database elsewhere.
    fn lock_file(&self) -> Result<Option<LockFile>, Error> {
        match self.options.vfs {
            Some(_) => Ok(None),
            None => LockFile::open(&self.path).map(Some),
        }
    }

    fn connect(&self, access: OpenFlags, cache: i64) -> Result<Connection, Error> {
        let doing = "opening the database";
        // Each connection stays on one thread.
        let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = match &self.options.vfs {
            Some(vfs) => {
                let creates = match access {
                    OpenFlags::SQLITE_OPEN_READ_WRITE => OpenFlags::SQLITE_OPEN_CREATE,
                    _ => OpenFlags::empty(),
                };
                Connection::open_with_flags_and_vfs(&self.path, flags | creates, vfs.as_str())
            }
            None => Connection::open_with_flags(&self.path, flags),
        };
        let connection = connection.doing(doing)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        // Otherwise SQLite compiles a cached statement again for each value that is bound near a partial index: a third
        // of the CPU time of a create. It would choose plans by the values, but only after ANALYZE, which nobody runs.
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
            .doing(doing)?;
        connection.busy_timeout(BUSY_TIMEOUT).doing(doing)?;
        connection
            .pragma_update(None, "synchronous", self.options.durability.synchronous())
            .doing(doing)?;
        connection
            .pragma_update(None, "cache_size", cache)
            .doing(doing)?;
        connection
            .pragma_update(None, "foreign_keys", true)
            .doing(doing)?;
        // Otherwise half of all writes go to journals of statements in a folder for temporary files, and a full one
        // makes the database read-only.
        connection
            .pragma_update(None, "temp_store", "MEMORY")
            .doing(doing)?;
        let log_bytes = i64::from(self.checkpoint_pages()) * LOG_BYTES;
        connection
            .pragma_update(None, "journal_size_limit", log_bytes)
            .doing(doing)?;
        // A damaged file under a memory map is a signal instead of an error.
        connection
            .pragma_update(None, "mmap_size", 0)
            .doing(doing)?;
        Ok(connection)
    }
}

fn check_prefix(prefix: &str) -> Result<(), Error> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if prefix.is_empty() || prefix.len() > 32 || !prefix.bytes().all(fits) {
        let problem = format!("{prefix:?} must be 1 to 32 of a-z, 0-9 and _");
        return Err(Error::invalid("prefix", problem));
    }
    Ok(())
}
