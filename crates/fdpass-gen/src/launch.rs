//! Launching a daemon again and again, each time with settings of its own.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use harness::daemon::{Daemon, DaemonError, Options, Prepared};
use harness::driver::Driver as _;
use harness::output;
use tokio::runtime::Runtime;

use crate::driver::FdPass;
use crate::handoff::SocketType;

/// How long a daemon that dies may take for it.
const DYING: Duration = Duration::from_millis(300);
/// Lines of a dead daemon's log that are shown.
const LOG_LINES: usize = 10;
/// The types of socket that every streaming daemon knows.
pub(crate) const BOTH_TYPES: [SocketType; 2] = [SocketType::Seqpacket, SocketType::Stream];

/// The name of a type, as in `DAEMON_SOCKET_TYPE`.
pub(crate) fn name(kind: SocketType) -> &'static str {
    match kind {
        SocketType::Stream => "stream",
        SocketType::Auto | SocketType::Seqpacket => "seqpacket",
    }
}

/// Builds a daemon; each step that takes a while is a line on stderr, unless `quiet`.
pub(crate) fn prepare(root: &Path, name: &str, quiet: bool) -> Result<Prepared, DaemonError> {
    Daemon::prepare(root, name, FdPass::PROTOCOL, &mut |step| {
        remark(quiet, step);
    })
}

/// A line on stderr, unless `quiet`.
pub(crate) fn remark(quiet: bool, text: &str) {
    if !quiet {
        output::remark(text);
    }
}

/// What a command has found out, on stdout.
pub(crate) fn print(text: &str) {
    if let Err(error) = output::print(text.trim_end()) {
        output::remark(&format!("error: writing to stdout: {error}"));
    }
}

/// Where daemons are started; on the thread that starts them, which must outlive them.
#[derive(Debug)]
pub(crate) struct Launcher {
    runtime: Runtime,
}

impl Launcher {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("making a runtime")?;
        Ok(Self { runtime })
    }

    /// Waits for what is asynchronous of a daemon.
    pub(crate) fn wait<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// Starts a daemon with a type of socket and further `DAEMON_…` variables.
    pub(crate) fn start(
        &self,
        prepared: &Prepared,
        kind: SocketType,
        settings: &[(&str, &str)],
    ) -> Result<Daemon, DaemonError> {
        let kind = [("DAEMON_SOCKET_TYPE", name(kind))];
        let environment: Vec<(String, String)> = kind
            .iter()
            .chain(settings)
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        self.wait(prepared.start(&environment, &Options::default()))
    }

    /// How a daemon has ended by itself, with the end of its log, if it has. Where that is `suspected` it has a moment:
    /// its sockets are closed before it is gone.
    pub(crate) fn death(&self, daemon: &Daemon, suspected: bool) -> Option<String> {
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

    /// Ends a daemon as its manifest says.
    pub(crate) fn stop(&self, mut daemon: Daemon) {
        // How it ended is looked at by the cases that are about it.
        let _ = self.wait(daemon.stop());
    }
}
