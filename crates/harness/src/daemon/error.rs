//! What can go wrong with a daemon before it is ready, each with what to do about it.

use std::path::PathBuf;
use std::time::Duration;

use crate::manifest::ManifestError;

/// Why a daemon could not be prepared or started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// There is no directory for it.
    #[error("there is no daemon `{name}`\n  known are: {}", listed(known))]
    UnknownDaemon {
        /// What was asked for.
        name: String,
        /// Every daemon that has a manifest.
        known: Vec<String>,
    },
    /// It speaks other protocols.
    #[error(
        "the daemon `{name}` serves {}, not {wanted}\n  choose one of: {}",
        listed(serves),
        listed(known)
    )]
    OtherProtocol {
        /// The daemon.
        name: String,
        /// What it serves.
        serves: Vec<String>,
        /// What was asked for.
        wanted: String,
        /// The daemons that serve it.
        known: Vec<String>,
    },
    /// Its manifest cannot be used.
    #[error(transparent)]
    BadManifest(#[from] ManifestError),
    /// A program that it needs is not there, or does not work.
    #[error(
        "the daemon `{name}` needs `{tool}`: {problem}\n  install it (scripts/setup does so on Debian), or choose another daemon"
    )]
    ToolMissing {
        /// The daemon.
        name: String,
        /// The program.
        tool: String,
        /// What happened when it was asked for.
        problem: String,
    },
    /// A build command failed.
    #[error("building `{name}`: `{command}` {status}\n{}  the whole output is in {}", indented(last_lines), log.display())]
    BuildFailed {
        /// The daemon.
        name: String,
        /// The command.
        command: String,
        /// How it ended.
        status: String,
        /// The end of its output.
        last_lines: String,
        /// The file with all of its output.
        log: PathBuf,
    },
    /// One of its own tests failed.
    #[error("testing `{name}`: {problem}\n{}  the whole output is in {}", indented(last_lines), log.display())]
    TestsFailed {
        /// The daemon.
        name: String,
        /// The command, and how it ended.
        problem: String,
        /// The end of its output.
        last_lines: String,
        /// The file with all of its output.
        log: PathBuf,
    },
    /// It ended before it was ready.
    #[error(
        "the daemon `{name}` {status} before it was ready\n{}  started as: {command}",
        indented(last_lines)
    )]
    ExitedEarly {
        /// The daemon.
        name: String,
        /// How it ended.
        status: String,
        /// The end of its output.
        last_lines: String,
        /// How it was started.
        command: String,
    },
    /// It runs, but was not ready in time; it has been killed.
    #[error(
        "the daemon `{name}` was not ready within {}: waited for {waited_for}\n{}  \
         if it only needs longer, give `ready` in its daemon.toml a longer `timeout`; started as: {command}",
        humantime::format_duration(*limit), indented(last_lines)
    )]
    NotReady {
        /// The daemon.
        name: String,
        /// How long it had.
        limit: Duration,
        /// The probe, and what it last answered.
        waited_for: String,
        /// The end of its output.
        last_lines: String,
        /// How it was started.
        command: String,
    },
    /// The system refused something.
    #[error("daemon `{name}`: {doing}")]
    Io {
        /// The daemon.
        name: String,
        /// What was being done, to what.
        doing: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl DaemonError {
    /// For `map_err`: what was being done when the system refused.
    pub(super) fn io(name: &str, doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let (name, doing) = (name.to_owned(), doing.into());
        move |source| Self::Io {
            name,
            doing,
            source,
        }
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

/// The lines of a log within a message, or a word on their absence.
fn indented(lines: &str) -> String {
    if lines.is_empty() {
        return "  it wrote nothing\n".to_owned();
    }
    lines.lines().map(|line| format!("  | {line}\n")).collect()
}
