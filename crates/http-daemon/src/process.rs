//! One process that serves, and those that are made of it.

use std::process;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use nix::errno::Errno;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigHandler, SigSet, Signal, kill, signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpid, getppid};
use tokio::signal::unix::{SignalKind, signal as watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::config::Config;
use crate::counts::Shared;
use crate::limits::make_room;
use crate::listener::Listeners;
use crate::sink::{self, Limits};
use crate::stop::Stop;
use crate::worker::{self, Parts};

/// What one process needs to serve.
pub(crate) struct Process {
    pub(crate) config: Arc<Config>,
    /// Which of the processes it is.
    pub(crate) index: usize,
    /// One for each worker.
    pub(crate) listeners: Vec<Listeners>,
    pub(crate) shared: Shared,
    pub(crate) limits: Limits,
    pub(crate) tls: Option<TlsAcceptor>,
}

impl Process {
    /// Serves until `asked` is ready, then until requests in flight are done or the grace is over. Needs a runtime, on
    /// which it holds a thread for each worker.
    pub(crate) async fn serve(self, asked: impl Future<Output = ()>) -> anyhow::Result<()> {
        make_room(self.limits.room.min(self.limits.max));
        let stop = Stop::new().context("making an eventfd")?;
        let mut workers = JoinSet::new();
        let count = self.listeners.len();
        for (index, listeners) in self.listeners.into_iter().enumerate() {
            let counts = self.shared.worker(self.index, count, index);
            let (config, stop) = (Arc::clone(&self.config), stop.clone());
            let parts = Parts {
                config,
                counts,
                shared: self.shared,
                limits: self.limits,
                tls: self.tls.clone(),
            };
            workers.spawn_blocking(move || match parts.config.sink_body {
                Some(body) => sink::run(listeners, body, counts, parts.limits, &stop),
                None => worker::run(parts, listeners, &stop),
            });
        }
        tokio::select! {
            () = asked => {}
            Some(ended) = workers.join_next() => {
                stop.ask();
                ended.context("a worker panicked")?.context("a worker failed")?;
                bail!("a worker ended by itself");
            }
        }
        stop.ask();
        while let Some(ended) = workers.join_next().await {
            ended
                .context("a worker panicked")?
                .context("a worker failed")?;
        }
        Ok(())
    }
}

/// Processes that were made of this one. Dropping kills what is left of them.
#[derive(Debug, Default)]
pub(crate) struct Children {
    running: Vec<Pid>,
}

impl Children {
    /// Makes a process that runs `serve` and ends with the exit code that it returns. It ends with this one, too,
    /// however this one ends. To be called while there is one thread.
    pub(crate) fn start(&mut self, serve: impl FnOnce() -> i32) -> anyhow::Result<()> {
        let parent = getpid();
        match split().context("making a process (fewer: --processes)")? {
            ForkResult::Parent { child } => self.running.push(child),
            // It ends here, and never drops what its parent holds.
            ForkResult::Child => process::exit(if dies_with(parent).is_ok() {
                serve()
            } else {
                1
            }),
        }
        Ok(())
    }

    /// Waits until `asked` is ready, then has them end. Needs a runtime with signals.
    ///
    /// # Errors
    /// When one ends by itself.
    pub(crate) async fn watch(mut self, asked: impl Future<Output = ()>) -> anyhow::Result<()> {
        let mut ended = watch(SignalKind::child()).context("watching for the end of processes")?;
        tokio::pin!(asked);
        let mut asks = true;
        loop {
            if let Some(status) = self.reap()?
                && (asks || status != 0)
            {
                bail!("a process ended by itself, with {status}");
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

    /// Forgets those that have ended; how one did, those before all that did not end well.
    fn reap(&mut self) -> anyhow::Result<Option<i32>> {
        let mut worst = None;
        let mut failure = None;
        self.running
            .retain(|child| match waitpid(*child, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) | Err(Errno::EINTR) => true,
                Ok(WaitStatus::Exited(_, code)) => {
                    worst = worst.max(Some(code));
                    false
                }
                Ok(WaitStatus::Signaled(_, signal, _)) => {
                    worst = worst.max(Some(128 + signal as i32));
                    false
                }
                Ok(_) => true,
                Err(error) => {
                    failure = Some(error);
                    false
                }
            });
        match failure {
            Some(error) => Err(error).context("waiting for a process"),
            None => Ok(worst),
        }
    }

    fn signal(&self, signal: Signal) {
        for child in &self.running {
            // It fails where the child has ended, which is what is wanted.
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

/// What asks for the end waits until somebody watches for it, in this process and in those that are made of it: one that
/// comes before would kill, and a child that dies so has ended by itself. To be called while there is one thread.
pub(crate) fn hold_signals() -> anyhow::Result<()> {
    asking().thread_block().context("holding signals back")
}

/// Somebody watches now.
pub(crate) fn release_signals() -> anyhow::Result<()> {
    asking().thread_unblock().context("letting signals through")
}

fn asking() -> SigSet {
    [Signal::SIGTERM, Signal::SIGINT].into_iter().collect()
}

/// What asks a child to end: its parent's SIGTERM. That may come twice, where the whole group was signalled, and means
/// no more then; SIGINT is for the parent.
pub(crate) fn parent_asks() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = watch(SignalKind::terminate()).context("watching SIGTERM")?;
    release_signals()?;
    Ok(async move {
        terminate.recv().await;
    })
}

#[expect(
    unsafe_code,
    reason = "fork is unsafe beside threads, and so are signal handlers"
)]
fn split() -> nix::Result<ForkResult> {
    // SAFETY: this process has one thread, as `start` asks for, so the child finds no lock held.
    unsafe { fork() }
}

/// Has the kernel kill this process when its parent ends.
#[expect(
    unsafe_code,
    reason = "fork is unsafe beside threads, and so are signal handlers"
)]
fn dies_with(parent: Pid) -> nix::Result<()> {
    set_pdeathsig(Signal::SIGKILL)?;
    if getppid() != parent {
        // It had ended before.
        return Err(Errno::ESRCH);
    }
    // SAFETY: ignoring a signal runs no code.
    unsafe { signal(Signal::SIGINT, SigHandler::SigIgn)? };
    Ok(())
}
