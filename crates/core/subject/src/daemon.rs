//! Manages the subject of a run as a process: builds it, starts it, waits until it is ready, watches it and stops it.

use std::collections::BTreeMap;
use std::fs::File;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::manifest::{Manifest, Roots, Stop};
use load::driver::Address;
use load::net::ports::ReservedPort;

mod allotment;
mod environment;
mod error;
mod group;
mod guard;
mod launch;
mod log;
mod mark;
mod prepare;
mod process_name;
mod ready;
mod scratch;
mod step;
mod tool;

pub use allotment::Limits;
pub use environment::for_builds;
pub use error::DaemonError;
pub use group::set_pdeathsig;
pub use guard::output as guarded_output;
pub use launch::{CountersCommand, Options};
pub use prepare::Prepared;
pub use process_name::ProcessName;
pub use step::{Step, last_line};

use group::Group;
use guard::Guard;
use launch::LaunchSpec;
use log::{Log, LogScanner};
use nix::sys::signal::Signal;

/// Longest time that SIGKILL takes, unless a process hangs in the kernel.
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// A running daemon with every process that it starts, in its own process group.
///
/// It must be started on a thread that lives for the whole run. The kernel kills the daemon when that thread ends,
/// which is how the daemon ends if this program is killed. A small guard process then kills the processes that the
/// daemon has forked, also those that have left its group and session. Dropping a `Daemon` kills the whole group at once; [`Daemon::stop`] terminates it first.
///
/// Its standard output and error go to one file in its scratch directory, which keeps about the last 64 MiB. The
/// directory is removed with the `Daemon`.
#[derive(Debug)]
pub struct Daemon {
    name: ProcessName,
    version: Option<String>,
    endpoint: Endpoint,
    ports: Vec<ReservedPort>,
    stop: Stop,
    // Dropped in this order: the group dies, the guard finds nothing left to do, the log and its directory are
    // removed, and the services die.
    group: Group,
    guard: Option<Guard>,
    trimmer: JoinHandle<()>,
    log: Log,
    /// Bytes that earlier starts have written to the log.
    logged_before: u64,
    /// Processes of earlier starts that the memory limit has killed.
    killed_before: u64,
    spec: LaunchSpec,
    scratch: tempfile::TempDir,
    /// The services that were started for this daemon alone.
    services: Vec<Daemon>,
}

/// The addresses of a daemon. Those that its manifest does not use are absent.
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
    /// Returns the address that a driver connects to: the URL called `name`. Without a name it returns the URL of the
    /// manifest if there is one, otherwise the Unix socket.
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

/// The way in which a daemon ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopReport {
    /// The action that ended the daemon.
    pub how: Stopped,
    /// Time from the request to the end of its last process.
    pub took: Duration,
    /// Exit status of the first process, such as `exited with status 0`.
    pub status: String,
    /// Number of processes of its group that even SIGKILL did not end within 5 s.
    pub left: usize,
}

/// The action that ended a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// All of its processes ended within the grace time.
    Terminated,
    /// At least one process had to be killed.
    Killed,
    /// The daemon had already ended by itself.
    AlreadyDead,
}

impl Daemon {
    /// Checks what the daemon `name` needs, builds it and reads its version. Calls `on_step` for each step that takes
    /// a while, at its begin and once a second. Blocks until the build has finished.
    ///
    /// # Errors
    /// There is no such daemon, it does not serve the protocol `serves`, its manifest is wrong, a tool is missing, or
    /// a build command fails.
    pub fn prepare(
        roots: impl Into<Roots>,
        name: &str,
        serves: &str,
        on_step: &mut dyn FnMut(&Step<'_>),
    ) -> Result<Prepared, DaemonError> {
        Prepared::new(&roots.into(), name, serves, on_step)
    }

    /// Checks what the daemon `name` needs, and builds it, as [`Daemon::prepare`] does unless `DROVER_PROGRAMS` is set.
    /// A program of the checkout is built by cargo only without that variable.
    ///
    /// # Errors
    /// Its manifest is wrong, a tool is missing, or a build command fails.
    pub fn build(
        roots: impl Into<Roots>,
        name: &str,
        on_step: &mut dyn FnMut(&Step<'_>),
    ) -> Result<(), DaemonError> {
        let roots = roots.into();
        let manifest = Manifest::load(&roots, name)?;
        let daemon = Prepared::from_manifest(&roots, name, manifest)?;
        daemon.require_tools()?;
        daemon.build(on_step)
    }

    /// Checks that the tools which the daemon `name` needs are installed.
    ///
    /// # Errors
    /// Its manifest is wrong or a tool is missing.
    pub fn check_tools(roots: impl Into<Roots>, name: &str) -> Result<(), DaemonError> {
        let roots = roots.into();
        let manifest = Manifest::load(&roots, name)?;
        Prepared::from_manifest(&roots, name, manifest)?.require_tools()
    }

    /// Returns the name of the daemon's directory, or of the service.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.own()
    }

    /// Returns the services that were started for this daemon alone.
    #[must_use]
    pub fn services(&self) -> &[Self] {
        &self.services
    }

    /// Returns the version that the daemon reports.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Returns the addresses of the daemon.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the command that prints the daemon's counters, if its manifest has one instead of a metrics page.
    #[must_use]
    pub fn counters(&self) -> Option<CountersCommand> {
        self.spec.counters()
    }

    /// Returns the process id of the first process, which is also the id of the group.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.group.id().as_raw().cast_unsigned()
    }

    /// Returns the children of this program that belong to the daemon. They are excluded from this program's own
    /// resource samples.
    #[must_use]
    pub fn own_pids(&self) -> Vec<u32> {
        std::iter::once(self.pid())
            .chain(self.guard.as_ref().map(Guard::pid))
            .chain(self.services.iter().flat_map(Self::own_pids))
            .collect()
    }

    /// Returns the path of the file with the daemon's standard output and error, which begins with a hole
    /// once it has grown too long. The file is removed with the `Daemon`.
    #[must_use]
    pub fn log_path(&self) -> &Path {
        self.log.path()
    }

    /// Opens the daemon's output, from the oldest byte that was not dropped for its length.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open_log(&self) -> io::Result<File> {
        self.log.open()
    }

    /// Returns the end of the daemon's output, at most `lines` lines.
    #[must_use]
    pub fn last_lines(&self, lines: usize) -> String {
        self.log.last_lines(lines)
    }

    /// Returns the exit status of the first process, such as `was killed by SIGSEGV`, if it has ended.
    #[must_use]
    pub fn try_exit(&self) -> Option<String> {
        self.group.exit().map(|status| self.with_reason(status))
    }

    /// Completes when the first process ends by itself. May be dropped and called again.
    pub async fn exited(&self) -> String {
        self.with_reason(self.group.exited().await)
    }

    /// Returns the limit of memory, bytes, if there is one, and the number of processes that it has killed.
    #[must_use]
    pub fn memory_kills(&self) -> Option<(u64, u64)> {
        self.spec.memory_kills()
    }

    /// Adds to an exit status that the memory limit has killed a process since the last start, if it has.
    fn with_reason(&self, status: String) -> String {
        match self.memory_kills() {
            Some((limit, kills)) if kills > self.killed_before => {
                allotment::killed_by_limit(&status, limit)
            }
            _ => status,
        }
    }

    /// Sends a signal to all processes of the daemon, and nothing else. A stopped process handles SIGTERM only once it
    /// continues.
    pub fn signal(&self, signal: Signal) {
        self.group.send(signal);
    }

    /// Returns the time that the manifest gives the daemon to end after its stop signal.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.stop.grace
    }

    /// Returns true once all processes of the daemon have ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.group.exit().is_some() && self.group.living() == 0
    }

    /// Starts the daemon again after its end, with the same socket path, ports, environment and log, as a new process
    /// group. [`Daemon::readiness`] tells whether and when it is ready.
    ///
    /// # Errors
    /// An operation that the system refuses.
    pub fn start_again(&mut self) -> Result<(), DaemonError> {
        let log = self
            .log
            .reopen()
            .map_err(DaemonError::io(&self.name, "opening its log again"))?;
        self.logged_before = self.log.length();
        self.killed_before = self.memory_kills().map_or(0, |(_, kills)| kills);
        let (group, guard) = self.spec.start(log)?;
        // The old guard is dropped first: it would remove the directory of the new processes.
        self.guard = guard;
        self.group = group;
        Ok(())
    }

    /// Returns the time that the manifest gives the daemon to take connections.
    #[must_use]
    pub fn ready_limit(&self) -> Duration {
        self.spec.limit
    }

    /// Returns a future that resolves to true if the daemon takes connections within the time that its manifest gives.
    /// The future borrows nothing. Output of earlier starts is ignored.
    pub fn readiness(&self) -> impl Future<Output = bool> + Send + 'static {
        let (probe, limit) = (self.spec.probe.clone(), self.spec.limit);
        let mut scanner = LogScanner::after(&self.log, self.logged_before);
        async move { ready::poll(&probe, &mut scanner, limit).await }
    }

    /// Stops the daemon, then the services that were started for it alone: sends the manifest's signal to the whole
    /// group, waits for the grace time, sends SIGKILL, and checks that nothing is left. A second call reports what the
    /// first found. Dropping the future leaves the rest to `Drop`, which kills.
    pub async fn stop(&mut self) -> StopReport {
        let report = self.stop_group().await;
        for service in &mut self.services {
            service.stop_group().await;
        }
        report
    }

    async fn stop_group(&mut self) -> StopReport {
        let began = Instant::now();
        let how = if self.group.exit().is_some() {
            Stopped::AlreadyDead
        } else {
            self.group.signal(self.stop.signal);
            match tokio::time::timeout(self.stop.grace, self.group.all_exited()).await {
                Ok(()) => Stopped::Terminated,
                Err(_) => Stopped::Killed,
            }
        };
        self.group.kill();
        // Only a process that hangs in the kernel reaches this limit: `left` reports it.
        let _ = tokio::time::timeout(KILL_LIMIT, self.group.all_exited()).await;
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
