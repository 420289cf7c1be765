//! Operations on the daemon itself, and the checks that all requests pass.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use daemon_kit::MetricsPage;
use issue_rpc::{
    Answer, Code, Header, Operation, Request, Service, VERSION, Write, WriteRequest, check_version,
    database_identity,
};
use issue_store::{Durability, Timestamp, file_beside};
use serde_json::json;
use tokio::time::Instant;

use crate::committer::Health;
use crate::counts::{Counts, add, get};
use crate::database_files::DatabaseFiles;
use crate::session::Task;

/// The health of the database, which the writer notes.
pub(crate) type SharedHealth = Arc<Mutex<Health>>;

/// The facts about a daemon that its requests are checked against, and that it reports.
#[derive(Debug)]
pub(crate) struct Identity {
    /// The database, absolute and without links.
    pub(crate) database: PathBuf,
    pub(crate) socket: PathBuf,
    pub(crate) durability: Durability,
    /// True if answers have the shapes of bd's daemon.
    pub(crate) is_compatible: bool,
    pub(crate) files: Arc<DatabaseFiles>,
}

impl Identity {
    /// Parses a line, and checks that the request is for this daemon.
    pub(crate) fn understand(&self, line: &[u8], counts: &Counts) -> Task {
        add(&counts.requests, 1);
        let refuse = |answer: &Answer, id| {
            counts.answered(answer);
            Task::Answered(answer.line(id))
        };
        let Request { header, operation } = match Request::parse(line) {
            Ok(request) => request,
            Err(rejection) => return refuse(&rejection.answer, rejection.request_id.as_ref()),
        };
        if let Err((code, problem)) = self.check(&header, &operation) {
            return refuse(&Answer::failure(code, &problem), header.request_id.as_ref());
        }
        match operation {
            Operation::Service(service) => Task::Service(header, service),
            Operation::Read(read) => Task::Read(header, read),
            Operation::Write(mut write) => {
                if let Write::Batch(batch) = &mut write {
                    batch.is_compatible = self.is_compatible;
                }
                Task::Write(WriteRequest { header, write })
            }
        }
    }

    fn check(&self, header: &Header, operation: &Operation) -> Result<(), (Code, String)> {
        if matches!(
            operation,
            Operation::Service(Service::Ping | Service::Health)
        ) {
            return Ok(());
        }
        match &header.client_version {
            Some(version) if version != VERSION => check_version(VERSION, version)?,
            _ => {}
        }
        match &header.expected_db {
            Some(expected) if Path::new(expected) != self.database => self.check_database(expected),
            _ => Ok(()),
        }
    }

    fn check_database(&self, expected: &str) -> Result<(), (Code, String)> {
        match database_identity(Path::new(expected)) {
            Ok(found) if found == self.database => Ok(()),
            _ => {
                let problem = format!(
                    "this daemon serves {}, and not {expected}: connect to the socket of that database",
                    self.database.display()
                );
                Err((Code::DatabaseMismatch, problem))
            }
        }
    }
}

/// Answers operations on the daemon.
#[derive(Debug)]
pub(crate) struct Services {
    pub(crate) identity: Arc<Identity>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) health: SharedHealth,
    page: MetricsPage,
    started: Instant,
}

impl Services {
    pub(crate) fn new(identity: Arc<Identity>, counts: Arc<Counts>, health: SharedHealth) -> Self {
        Self {
            identity,
            counts,
            health,
            page: MetricsPage::new(),
            started: Instant::now(),
        }
    }

    pub(crate) fn answer(&self, service: Service) -> Answer {
        match service {
            Service::Ping => {
                Answer::success(&json!({"version": VERSION, "pid": std::process::id()}))
            }
            Service::Status => self.status(),
            Service::Health => match self.current_health() {
                Health::Healthy => Answer::success(&json!({"status": "healthy"})),
                Health::ReadOnly { since, problem } => Answer::success(
                    &json!({"status": "read_only", "since": since, "problem": problem}),
                ),
            },
            Service::Metrics => Answer::success(&json!({"page": self.page()})),
            Service::Shutdown => Answer::success(&json!({})),
        }
    }

    /// Returns the health that the writer has noted, or that it would note now because a file is missing.
    fn current_health(&self) -> Health {
        let noted = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*noted, self.identity.files.check()) {
            (Health::Healthy, Err(changed)) => Health::ReadOnly {
                since: Timestamp::now(),
                problem: changed.to_string(),
            },
            (noted, _) => noted.clone(),
        }
    }

    /// Returns why writes are refused.
    pub(crate) fn problem(&self) -> Option<String> {
        match self.current_health() {
            Health::Healthy => None,
            Health::ReadOnly { problem, .. } => Some(format!("writes are refused: {problem}")),
        }
    }

    fn status(&self) -> Answer {
        let Identity {
            database,
            socket,
            durability,
            ..
        } = &*self.identity;
        let counts = &self.counts;
        Answer::success(&json!({
            "version": VERSION,
            "pid": std::process::id(),
            "database": database,
            "socket": socket,
            "durability": durability.name(),
            "uptime_ms": self.started.elapsed().as_millis() as u64,
            "connections": get(&counts.open),
            "requests": get(&counts.requests),
            "in_flight": get(&counts.in_flight),
            "groups": get(&counts.groups),
            "writes": get(&counts.writes),
            "is_read_only": self.current_health() != Health::Healthy,
        }))
    }

    /// Renders the page of metrics.
    pub(crate) fn page(&self) -> String {
        let page = &self.page;
        self.counts.set(page);
        let is_read_only = self.current_health() != Health::Healthy;
        page.set_gauge(
            "issue_daemon_read_only",
            "1 while writes are refused because the disk failed.",
            is_read_only.into(),
        );
        page.set_gauge(
            "issue_daemon_database_bytes",
            "Size of the database.",
            self.file_bytes(""),
        );
        page.set_gauge(
            "issue_daemon_log_bytes",
            "Size of the write-ahead log.",
            self.file_bytes("-wal"),
        );
        page.render()
    }

    fn file_bytes(&self, end: &str) -> u64 {
        std::fs::metadata(file_beside(&self.identity.database, end)).map_or(0, |found| found.len())
    }
}
