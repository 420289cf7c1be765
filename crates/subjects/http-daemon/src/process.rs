//! The processes that serve: one process, and the children of the daemon.

use std::process;

use anyhow::{Context as _, bail};
use daemon_kit::open_files;
use nix::errno::Errno;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigHandler, SigSet, Signal, kill, signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpid, getppid};
use tokio::signal::unix::{SignalKind, signal as watch};
use tokio::task::JoinSet;

use crate::listener::Listening;
use crate::resources::Resources;
use crate::sink::Sink;
use crate::stop::Stop;
use crate::worker;

pub(crate) const SIGNALS: &str = "cannot block or unblock signals";

pub(crate) struct Process {
    pub(crate) index: usize,
    /// The listeners of each worker.
    pub(crate) listeners: Vec<Vec<Listening>>,
    pub(crate) resources: Resources,
}

impl Process {
    /// Serves until `asked` is ready, then until requests in flight are done or the grace period ends. Needs a runtime,
    /// and blocks one of its threads per worker.
    pub(crate) async fn serve(self, asked: impl Future<Output = ()>) -> anyhow::Result<()> {
        let limits = self.resources.limits;
        open_files::preallocate_table(limits.room.min(limits.max).saturating_add(1));
        let stop = Stop::new().context("making an eventfd")?;
        let mut workers = JoinSet::new();
        let count = self.listeners.len();
        for (index, listeners) in self.listeners.into_iter().enumerate() {
            let (resources, stop) = (self.resources.clone(), stop.clone());
            let counts = resources.counters.worker(self.index, count, index);
            workers.spawn_blocking(move || match resources.root.clone() {
                None => Sink::new(listeners, &resources, counts)?.run(&stop),
                Some(root) => worker::run(resources, root, counts, listeners, &stop),
            });
        }
        tokio::select! {
            () = asked => {}
            Some(ended) = workers.join_next() => {
                stop.request();
                ended.context("a worker panicked")?.context("a worker failed")?;
                bail!("a worker ended unexpectedly");
            }
        }
        stop.request();
        while let Some(ended) = workers.join_next().await {
            ended
                .context("a worker panicked")?
                .context("a worker failed")?;
        }
        Ok(())
    }
}

/// The child processes. Dropping this kills those that still run.
#[derive(Debug, Default)]
pub(crate) struct Children {
    running: Vec<Pid>,
}

impl Children {
    /// Forks a process that runs `serve` and exits with the code it returns. The child is killed if this process ends.
    /// Must be called while there is one thread.
    pub(crate) fn start(&mut self, serve: impl FnOnce() -> i32) -> anyhow::Result<()> {
        let parent = getpid();
        match fork_process().context("cannot fork a process (use fewer: --processes)")? {
            ForkResult::Parent { child } => self.running.push(child),
            // The child exits here, and never drops the values of its parent.
            ForkResult::Child => process::exit(if set_parent_death_signal(parent).is_ok() {
                serve()
            } else {
                1
            }),
        }
        Ok(())
    }

    /// Waits until `asked` is ready, then terminates the children and waits for them. Needs a runtime with signals.
    ///
    /// # Errors
    /// A child ended unexpectedly.
    pub(crate) async fn watch(mut self, asked: impl Future<Output = ()>) -> anyhow::Result<()> {
        let mut ended = watch(SignalKind::child()).context("watching for the end of processes")?;
        tokio::pin!(asked);
        let mut asks = true;
        loop {
            if let Some(status) = self.reap()?
                && (asks || status != 0)
            {
                bail!("a process ended unexpectedly, with status {status}");
            }
            if self.running.is_empty() {
                return Ok(());
            }
            tokio::select! {
                () = &mut asked, if asks => {
                    asks = false;
                    self.signal(Signal::SIGTERM);
                }
                _ = ended.recv() => {}
            }
        }
    }

    /// Removes the children that have ended; returns the worst exit status among them.
    fn reap(&mut self) -> anyhow::Result<Option<i32>> {
        let mut worst = None;
        let mut failure = None;
        self.running.retain(|child| {
            let code = match waitpid(*child, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(_, code)) => code,
                Ok(WaitStatus::Signaled(_, signal, _)) => 128 + signal as i32,
                Ok(_) | Err(Errno::EINTR) => return true,
                Err(error) => {
                    failure = Some(error);
                    return false;
                }
            };
            worst = worst.max(Some(code));
            false
        });
        match failure {
            Some(error) => Err(error).context("waiting for a process"),
            None => Ok(worst),
        }
    }

    fn signal(&self, signal: Signal) {
        for child in &self.running {
            // A failure means that the child has already ended.
            let _ = kill(*child, signal);
        }
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        for child in &self.running {
            let _ = waitpid(*child, None);
        }
    }
}

/// Returns SIGTERM, SIGINT and SIGHUP. They are blocked until a handler is installed, in this process and its children: a signal
/// that came earlier would kill the process, and a child killed this way would count as failed.
pub(crate) fn stop_signals() -> SigSet {
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]
        .into_iter()
        .collect()
}

/// Returns a future that is ready when the parent sends SIGTERM. The signal may come twice if the whole group is
/// signalled; the second one has no effect. SIGINT and SIGHUP are left to the parent.
pub(crate) fn parent_stop() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = watch(SignalKind::terminate()).context("watching SIGTERM")?;
    stop_signals().thread_unblock().context(SIGNALS)?;
    Ok(async move {
        terminate.recv().await;
    })
}

#[expect(
    unsafe_code,
    reason = "fork is unsafe beside threads, and so are signal handlers"
)]
fn fork_process() -> nix::Result<ForkResult> {
    // SAFETY: this process has one thread, as `start` asks for, so the child finds no lock held.
    unsafe { fork() }
}

/// Makes the kernel kill this process when its parent ends.
#[expect(
    unsafe_code,
    reason = "fork is unsafe beside threads, and so are signal handlers"
)]
fn set_parent_death_signal(parent: Pid) -> nix::Result<()> {
    set_pdeathsig(Signal::SIGKILL)?;
    if getppid() != parent {
        // The parent had already ended.
        return Err(Errno::ESRCH);
    }
    for ignored in [Signal::SIGINT, Signal::SIGHUP] {
        // SAFETY: ignoring a signal runs no code.
        unsafe { signal(ignored, SigHandler::SigIgn)? };
    }
    Ok(())
}
