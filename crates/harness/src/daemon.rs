//! The subject of a run as a process: built, started, known to be ready, watched, and gone afterwards.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::driver::Address;
use crate::manifest::{Manifest, Stop};

mod environment;
mod error;
mod group;
mod guard;
mod launch;
mod log;
mod prepare;
mod ready;
mod tool;

pub use environment::for_builds;
pub use error::DaemonError;
pub use guard::output as guarded_output;
pub use launch::{CountersCommand, Options};
pub use prepare::Prepared;

use group::Group;
use guard::Guard;
use launch::Recipe;
use log::{Log, Search};
use nix::sys::signal::Signal;

/// What SIGKILL takes at most, before a process must hang in the kernel.
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// A running daemon with every process that it starts, in a process group of its own.
///
/// It must be started on a thread that lives for the whole run: the kernel kills the daemon when that thread ends, which
/// is how the daemon ends when this program is killed. Processes that the daemon has forked are killed by a small guard
/// process then. Dropping a `Daemon` kills the whole group at once; [`Daemon::stop`] asks first.
///
/// Its standard output and error go to one file in its scratch directory, of which the last 64 MiB or so are kept.
/// The directory is removed with the `Daemon`.
#[derive(Debug)]
pub struct Daemon {
    name: String,
    version: Option<String>,
    endpoint: Endpoint,
    stop: Stop,
    // Dropped in this order: the group dies, the guard finds nothing left to do, then the log and its directory go.
    group: Group,
    guard: Option<Guard>,
    trimmer: JoinHandle<()>,
    log: Log,
    /// Bytes of the log that starts before this one have written.
    logged_before: u64,
    recipe: Recipe,
    _scratch: tempfile::TempDir,
}

/// Where a daemon is reached. What its manifest does not use is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// The path of its Unix socket.
    pub socket: Option<PathBuf>,
    /// Its first TCP port on the loopback interface.
    pub port: Option<u16>,
    /// The URL of its manifest.
    pub url: Option<String>,
    /// Further URLs of its manifest, by name.
    pub urls: BTreeMap<String, String>,
    /// The URL of its Prometheus page.
    pub metrics: Option<String>,
}

impl Endpoint {
    /// What a driver connects to: the URL of that name, or without a name the URL of the manifest where it has one, or
    /// else the Unix socket.
    #[must_use]
    pub fn address(&self, name: Option<&str>) -> Option<Address> {
        match name {
            Some(name) => self.urls.get(name).cloned().map(Address::Url),
            None => {
                let socket = || self.socket.clone().map(Address::Socket);
                self.url.clone().map(Address::Url).or_else(socket)
            }
        }
    }
}

/// How a daemon ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopReport {
    /// What it took.
    pub how: Stopped,
    /// From the request to the end of its last process.
    pub took: Duration,
    /// How the first process ended, such as `exited with status 0`.
    pub status: String,
    /// Processes of its group that even SIGKILL did not end within 5 s.
    pub left: usize,
}

/// What it took to end a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// All of its processes ended within the grace time.
    Terminated,
    /// At least one process had to be killed.
    Killed,
    /// It had ended by itself.
    AlreadyDead,
}

impl Daemon {
    /// Checks what the daemon `name` needs, builds it, and asks for its version. `on_step` hears of each step that takes a
    /// while. Blocks for as long as the build takes.
    ///
    /// # Errors
    /// When there is no such daemon, it does not serve the protocol `serves`, its manifest is wrong, a tool is missing, or
    /// a build command fails.
    pub fn prepare(
        root: &Path,
        name: &str,
        serves: &str,
        on_step: &mut dyn FnMut(&str),
    ) -> Result<Prepared, DaemonError> {
        Prepared::new(root, name, serves, on_step)
    }

    /// Checks that the tools which the daemon `name` needs are there.
    ///
    /// # Errors
    /// When its manifest is wrong or a tool is missing.
    pub fn check_tools(root: &Path, name: &str) -> Result<(), DaemonError> {
        Prepared::found(root, name, Manifest::load(root, name)?)?.require_tools()
    }

    /// The name of the daemon's directory.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it says of its version.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Where it is reached.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The command that prints what it counted, where its manifest has one instead of a metrics page.
    #[must_use]
    pub fn counters(&self) -> Option<CountersCommand> {
        self.recipe.counters()
    }

    /// The process id of its first process, which is the id of its group too.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.group.id().as_raw().cast_unsigned()
    }

    /// The children of this program that belong to the daemon: to be left out when this program's own cost is sampled.
    #[must_use]
    pub fn own_pids(&self) -> Vec<u32> {
        std::iter::once(self.pid())
            .chain(self.guard.as_ref().map(Guard::pid))
            .collect()
    }

    /// The file with its standard output and error; it goes with the `Daemon`.
    #[must_use]
    pub fn log_path(&self) -> &Path {
        self.log.path()
    }

    /// The end of its output, at most `lines` lines.
    #[must_use]
    pub fn last_lines(&self, lines: usize) -> String {
        self.log.last_lines(lines)
    }

    /// How its first process ended, such as `killed by SIGSEGV`, if it has.
    #[must_use]
    pub fn try_exit(&self) -> Option<String> {
        self.group.exit()
    }

    /// Completes when its first process ends by itself. May be dropped and called again.
    pub async fn exited(&self) -> String {
        self.group.exited().await
    }

    /// Sends a signal to all of its processes, and nothing else. A stopped process takes SIGTERM only once it continues.
    pub fn signal(&self, signal: Signal) {
        self.group.send(signal);
    }

    /// How long its manifest gives it to end after a signal that asks.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.stop.grace
    }

    /// Whether all of its processes have ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.group.exit().is_some() && self.group.living() == 0
    }

    /// Starts it again after its end, with the same socket path, ports, environment and log, as a new process group.
    /// Whether and when it is ready is for [`Daemon::readiness`] to say.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn start_again(&mut self) -> Result<(), DaemonError> {
        let log = self
            .log
            .reopen()
            .map_err(DaemonError::io(&self.name, "opening its log again"))?;
        self.logged_before = self.log.length();
        let (group, guard) = self.recipe.start(log)?;
        // The old guard goes first: it would take the new processes' directory with it.
        self.guard = guard;
        self.group = group;
        Ok(())
    }

    /// How long its manifest gives it to take connections.
    #[must_use]
    pub fn ready_limit(&self) -> Duration {
        self.recipe.limit
    }

    /// Completes with whether it took connections within the time that its manifest gives; borrows nothing. What
    /// earlier starts wrote shows nothing.
    pub fn readiness(&self) -> impl Future<Output = bool> + Send + 'static {
        let (probe, limit) = (self.recipe.probe.clone(), self.recipe.limit);
        let mut search = Search::after(&self.log, self.logged_before);
        async move { ready::again(&probe, &mut search, limit).await }
    }

    /// Ends it: the manifest's signal to the whole group, the grace time, SIGKILL, and a check that nothing is left.
    /// A second call reports what the first found. Dropping the future leaves the rest to `Drop`, which kills.
    pub async fn stop(&mut self) -> StopReport {
        let began = Instant::now();
        let how = if self.group.exit().is_some() {
            Stopped::AlreadyDead
        } else {
            self.group.signal(self.stop.signal);
            match tokio::time::timeout(self.stop.grace, self.group.emptied()).await {
                Ok(()) => Stopped::Terminated,
                Err(_) => Stopped::Killed,
            }
        };
        self.group.kill();
        // Unreachable limits but for a process that hangs in the kernel: `left` says so.
        let _ = tokio::time::timeout(KILL_LIMIT, self.group.emptied()).await;
        self.trimmer.abort();
        let status = self
            .group
            .reap()
            .unwrap_or_else(|| "still running after SIGKILL".to_owned());
        let left = self.group.living();
        if left == 0 {
            self.guard = None;
        }
        StopReport {
            how,
            took: began.elapsed(),
            status,
            left,
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.trimmer.abort();
    }
}
