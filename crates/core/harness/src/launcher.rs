//! Launches daemons one after the other, for the commands `check` and `conformance` of drivers.

use std::time::Duration;

use anyhow::Context as _;
use tokio::runtime::Runtime;

use crate::failure::Failure;
use crate::output;
use crate::progress::StepLine;
use subject::daemon::{Daemon, DaemonError, Options, Prepared};
use subject::manifest::{self, Roots};

/// Time that a dying daemon gets to end.
const DYING: Duration = Duration::from_millis(300);
/// Number of lines of a dead daemon's log that are shown.
const LOG_LINES: usize = 10;

/// Returns the folders with daemons, as [`manifest::find_root`] finds them.
///
/// # Errors
/// There are no daemons here, above here, or installed.
pub fn root() -> Result<Roots, Failure> {
    manifest::find_root()
        .context("finding daemons/")
        .map_err(Failure::Call)
}

/// Returns the named daemons, or all daemons that speak a protocol if none is named.
///
/// # Errors
/// A manifest that cannot be used.
pub fn named_or_all(
    root: &Roots,
    named: &[String],
    protocol: &str,
) -> Result<Vec<String>, Failure> {
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

/// Returns true if a missing tool is a failure: `DROVER_REQUIRE_ALL=1`.
#[must_use]
pub fn everything_is_required() -> bool {
    std::env::var_os("DROVER_REQUIRE_ALL").is_some_and(|value| value == "1")
}

/// Builds a daemon. Each step that takes a while is printed to stderr; with `quiet`, only those that take ten seconds.
///
/// # Errors
/// The daemon is unknown or speaks another protocol, a tool is missing, or the build fails.
pub fn prepare(
    root: &Roots,
    name: &str,
    protocol: &str,
    quiet: bool,
) -> Result<Prepared, DaemonError> {
    let mut line = StepLine::new(quiet);
    Daemon::prepare(root, name, protocol, &mut |step| line.show(step))
}

/// Creates a runtime on the calling thread.
///
/// # Errors
/// The error of the system.
pub fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// Prints a line to stderr, unless `quiet`.
pub fn note(quiet: bool, text: &str) {
    if !quiet {
        output::note(text);
    }
}

/// Starts daemons, on a thread that must outlive them.
#[derive(Debug)]
pub struct Launcher {
    runtime: Runtime,
}

impl Launcher {
    /// Creates the runtime that daemons need.
    ///
    /// # Errors
    /// The error of the system.
    pub fn new() -> anyhow::Result<Self> {
        let runtime = runtime().context("making a runtime")?;
        Ok(Self { runtime })
    }

    /// Runs a future to its end, such as an operation on a daemon.
    pub fn wait<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// Starts a daemon with further variables. If a variable occurs twice, the later value counts.
    ///
    /// # Errors
    /// The daemon does not start, or is not ready in time.
    pub fn start(
        &self,
        prepared: &Prepared,
        variables: &[(&str, &str)],
    ) -> Result<Daemon, DaemonError> {
        self.wait(prepared.start(&owned(variables), &Options::default()))
    }

    /// Starts several instances of a daemon as [`Self::start`] starts one. They share the services of its manifest,
    /// which are stopped with the last instance.
    ///
    /// # Errors
    /// As [`Self::start`]; instances that have started are then killed.
    pub fn start_nodes(
        &self,
        prepared: &Prepared,
        count: usize,
        variables: &[(&str, &str)],
    ) -> Result<Vec<Daemon>, DaemonError> {
        self.wait(prepared.start_several(count, &owned(variables), &Options::default()))
    }

    /// Starts a daemon as [`Self::start`] does, calls `act`, and stops the daemon.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn with<T>(
        &self,
        prepared: &Prepared,
        variables: &[(&str, &str)],
        act: impl FnOnce(&Daemon) -> T,
    ) -> Result<T, DaemonError> {
        let daemon = self.start(prepared, variables)?;
        let result = act(&daemon);
        self.stop(daemon);
        Ok(result)
    }

    /// Returns how a daemon, or a service that was started for it, has ended by itself, with the end of its log, or
    /// `None` if all run. A `suspected` death gets a moment to show: a daemon's sockets are closed before its process
    /// ends.
    pub fn death(&self, daemon: &Daemon, suspected: bool) -> Option<String> {
        if suspected {
            let ending = async { tokio::time::timeout(DYING, daemon.exited()).await };
            let _ = self.wait(ending);
        }
        let services = daemon.services().iter();
        let services = services.map(|service| (format!("the service {}", service.name()), service));
        let mut all = [("the daemon".to_owned(), daemon)]
            .into_iter()
            .chain(services);
        let (what, status, ended) = all.find_map(|(what, it)| Some((what, it.try_exit()?, it)))?;
        let log = ended.last_lines(LOG_LINES);
        Some(format!(
            "{what} {status}; the end of its log:\n{}",
            if log.is_empty() { "(empty)" } else { &log }
        ))
    }

    /// Stops a daemon as its manifest says. Callers that care check its death themselves.
    pub fn stop(&self, mut daemon: Daemon) {
        let _ = self.wait(daemon.stop());
    }
}

fn owned(variables: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    variables.iter().map(owned).collect()
}
