//! Launching daemons one after the other, for a command that asks them itself: `check` and `conformance`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use tokio::runtime::Runtime;

use crate::cli::Failure;
use crate::daemon::{Daemon, DaemonError, Options, Prepared};
use crate::{manifest, output};

/// How long a daemon that dies may take for it.
const DYING: Duration = Duration::from_millis(300);
/// Lines of a dead daemon's log that are shown.
const LOG_LINES: usize = 10;

/// The project's root, as [`manifest::find_root`] finds it.
///
/// # Errors
/// There is none: the call is made in the wrong place.
pub fn root() -> Result<PathBuf, Failure> {
    manifest::find_root()
        .context("finding daemons/")
        .map_err(Failure::Call)
}

/// The daemons that were named, or else all that speak a protocol.
///
/// # Errors
/// A manifest that cannot be used.
pub fn named_or_all(root: &Path, named: &[String], protocol: &str) -> Result<Vec<String>, Failure> {
    if !named.is_empty() {
        return Ok(named.to_vec());
    }
    let all = manifest::list(root).map_err(|error| Failure::Call(error.into()))?;
    Ok(all
        .into_iter()
        .filter(|(_, manifest)| manifest.serves.iter().any(|served| served == protocol))
        .map(|(name, _)| name)
        .collect())
}

/// Whether a tool that is missing is a failure: `DROVER_REQUIRE_ALL=1`.
#[must_use]
pub fn everything_is_required() -> bool {
    std::env::var_os("DROVER_REQUIRE_ALL").is_some_and(|value| value == "1")
}

/// Builds a daemon; each step that takes a while is a line on stderr, unless `quiet`.
///
/// # Errors
/// A daemon that nobody knows or that speaks otherwise, a tool that is missing, or a build that fails.
pub fn prepare(
    root: &Path,
    name: &str,
    protocol: &str,
    quiet: bool,
) -> Result<Prepared, DaemonError> {
    Daemon::prepare(root, name, protocol, &mut |step| remark(quiet, step))
}

/// A line on stderr, unless `quiet`.
pub fn remark(quiet: bool, text: &str) {
    if !quiet {
        output::remark(text);
    }
}

/// Where daemons are started; on the thread that starts them, which must outlive them.
#[derive(Debug)]
pub struct Launcher {
    runtime: Runtime,
}

impl Launcher {
    /// Makes what daemons need to live.
    ///
    /// # Errors
    /// What the system answers.
    pub fn new() -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("making a runtime")?;
        Ok(Self { runtime })
    }

    /// Waits for what is asynchronous of a daemon.
    pub fn wait<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// Starts a daemon with further variables, the later one of two values counting.
    ///
    /// # Errors
    /// It does not start, or is not ready in time.
    pub fn start(
        &self,
        prepared: &Prepared,
        variables: &[(&str, &str)],
    ) -> Result<Daemon, DaemonError> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let environment: Vec<(String, String)> = variables.iter().map(owned).collect();
        self.wait(prepared.start(&environment, &Options::default()))
    }

    /// How a daemon has ended by itself, with the end of its log, if it has. Where that is `suspected` it has a moment:
    /// its sockets are closed before it is gone.
    pub fn death(&self, daemon: &Daemon, suspected: bool) -> Option<String> {
        if suspected {
            let ending = async { tokio::time::timeout(DYING, daemon.exited()).await };
            let _ = self.wait(ending);
        }
        let status = daemon.try_exit()?;
        let log = daemon.last_lines(LOG_LINES);
        Some(format!(
            "the daemon {status}; the end of its log:\n{}",
            if log.is_empty() { "(empty)" } else { &log }
        ))
    }

    /// Ends a daemon as its manifest says. How it ended is looked at by those that it is about.
    pub fn stop(&self, mut daemon: Daemon) {
        let _ = self.wait(daemon.stop());
    }
}
