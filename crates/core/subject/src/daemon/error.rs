//! Errors of a daemon before it is ready, each with a remedy.

use std::path::PathBuf;
use std::time::Duration;

use measure::similar::similar;

use super::allotment::MEMORY_LIMIT;
use super::process_name::ProcessName;
use super::tool;
use crate::manifest::{ManifestError, built_programs, install_command};

/// An error in preparing or starting a daemon.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// The daemon has no directory.
    #[error(
        "there is no daemon `{name}`{}\n  known daemons: {}",
        meant(name, known),
        listed(known)
    )]
    UnknownDaemon {
        /// The requested name.
        name: String,
        /// The daemons that serve the requested protocol.
        known: Vec<String>,
    },
    /// The daemon speaks other protocols.
    #[error(
        "the daemon `{name}` serves {}, not {wanted}{}\n  choose one of: {}",
        listed(serves),
        misspelled(serves, wanted),
        listed(known)
    )]
    OtherProtocol {
        /// The daemon.
        name: String,
        /// The protocols that it serves.
        serves: Vec<String>,
        /// The requested protocol.
        wanted: String,
        /// The daemons that serve it.
        known: Vec<String>,
    },
    /// The manifest cannot be used.
    #[error(transparent)]
    BadManifest(#[from] ManifestError),
    /// A required program is missing or does not work.
    #[error(
        "the daemon `{name}` needs `{tool}`: {problem}\n  install it (scripts/setup does so on Debian), or choose another daemon"
    )]
    ToolMissing {
        /// The daemon.
        name: String,
        /// The program.
        tool: String,
        /// The problem when the program was run.
        problem: String,
    },
    /// Its program is not installed.
    #[error(
        "the daemon `{name}` needs the program `{program}`, which {}",
        missing_program()
    )]
    ProgramMissing {
        /// The daemon.
        name: String,
        /// The program.
        program: String,
    },
    /// `DROVER_PROGRAMS` says that everything is built, and this daemon is not.
    #[error(
        "the daemon `{name}` is not built, and DROVER_PROGRAMS is set, so that nothing is built now\n  build it with `drover build {name}`, or unset DROVER_PROGRAMS"
    )]
    NotBuilt {
        /// The daemon.
        name: String,
    },
    /// A command of its build, or of its own tests, failed.
    #[error("{doing} `{name}`: {problem}\n{}  the whole output is in {}", indented(last_lines), log.display())]
    StepFailed {
        /// The daemon.
        name: String,
        /// The purpose of the command: `building` or `testing`.
        doing: &'static str,
        /// The command, and its exit status.
        problem: String,
        /// The end of its output.
        last_lines: String,
        /// The file with all of its output.
        log: PathBuf,
    },
    /// The system can't start its command.
    #[error("{name}: starting `{command}`: {problem}\n  {remedy}")]
    NotStarted {
        /// The daemon or the service.
        name: ProcessName,
        /// The command.
        command: String,
        /// The error of the system.
        problem: std::io::Error,
        /// The remedy.
        remedy: String,
    },
    /// Another program already has the address at which the daemon should get ready.
    #[error(
        "the {name} was not started: another program answers already to its `ready`, {probe}\n  \
         stop that program, or write {{port}} or {{socket}} in daemon.toml instead of a fixed address"
    )]
    Occupied {
        /// The daemon or the service.
        name: ProcessName,
        /// The probe.
        probe: String,
    },
    /// The daemon ended before it was ready.
    #[error(
        "the {name} {status} before it was ready\n{}{}  started as: {command}",
        indented(last_lines),
        remedy(status)
    )]
    ExitedEarly {
        /// The daemon or the service.
        name: ProcessName,
        /// The exit status.
        status: String,
        /// The end of its output.
        last_lines: String,
        /// The command that started it.
        command: String,
    },
    /// The daemon runs but was not ready in time; it has been killed.
    #[error(
        "the {name} was not ready within {}: waited for {waited_for}\n{}  \
         if it only needs more time, raise the `timeout` of `ready` in its daemon.toml; started as: {command}",
        humantime::format_duration(*limit), indented(last_lines)
    )]
    NotReady {
        /// The daemon or the service.
        name: ProcessName,
        /// The time that it had.
        limit: Duration,
        /// The probe, and its last answer.
        waited_for: String,
        /// The end of its output.
        last_lines: String,
        /// The command that started it.
        command: String,
    },
    /// The system refused an operation.
    #[error("{name}: {doing}")]
    Io {
        /// The daemon or the service.
        name: ProcessName,
        /// The operation, and its object.
        doing: String,
        /// The error of the system.
        source: std::io::Error,
    },
}

impl DaemonError {
    /// Returns a function for `map_err` that adds the operation which the system refused.
    pub(super) fn io(
        name: &ProcessName,
        doing: impl Into<String>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let (name, doing) = (name.clone(), doing.into());
        move |source| Self::Io {
            name,
            doing,
            source,
        }
    }
}

/// Asks for the known name that is most similar to a name.
fn meant(name: &str, known: &[String]) -> String {
    if name.contains('/') {
        return ": a daemon is named by its folder in daemons/, without a path".to_owned();
    }
    let meant = similar(name, known.iter().map(String::as_str));
    meant.map_or_else(String::new, |meant| format!(": did you mean `{meant}`?"))
}

/// Asks whether a manifest means the requested protocol by one of its own.
fn misspelled(serves: &[String], wanted: &str) -> String {
    match similar(wanted, serves.iter().map(String::as_str)) {
        Some(_) => format!(": if `serves` means it, write `{wanted}` there"),
        None => String::new(),
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

/// Returns where a program is missing, and the remedy.
fn missing_program() -> String {
    match built_programs() {
        Some(folder) => format!(
            "is not in {}, which DROVER_PROGRAMS names\n  build all programs with `cargo build --workspace --bins`, or unset DROVER_PROGRAMS",
            folder.display()
        ),
        None => format!(
            "is neither beside this one, nor in libexec/drover, nor in PATH\n  install it with all programs, daemons and plans: {}",
            install_command()
        ),
    }
}

/// Returns a line with what to do about an exit status, if that is known.
fn remedy(status: &str) -> &'static str {
    if status == tool::exited(0) {
        "  `run` must keep it in the foreground\n"
    } else if status.contains(MEMORY_LIMIT) {
        "  raise --daemon-memory\n"
    } else {
        ""
    }
}

/// Indents the lines of a log for a message, or says that there are none.
fn indented(lines: &str) -> String {
    if lines.is_empty() {
        return "  it wrote nothing\n".to_owned();
    }
    lines.lines().map(|line| format!("  | {line}\n")).collect()
}
