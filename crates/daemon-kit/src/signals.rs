//! Shutdown of a daemon by signal.

use anyhow::Context as _;
use futures_util::future::BoxFuture;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// SIGTERM and SIGINT, which both request a shutdown.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Starts to catch the signals, so that they no longer end the process by themselves. Requires a Tokio runtime with
    /// I/O.
    ///
    /// # Errors
    /// The system refuses to install a signal handler.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("watching SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("watching SIGINT")?,
        })
    }

    /// Runs a daemon to its end. The first signal resolves the future that is passed to `daemon`. Returns `None` on a
    /// second signal, without waiting for the daemon.
    pub async fn run<T, F>(&mut self, daemon: impl FnOnce(BoxFuture<'static, ()>) -> F) -> Option<T>
    where
        F: Future<Output = T>,
    {
        let (request, requested) = oneshot::channel();
        let mut request = Some(request);
        let running = daemon(Box::pin(async {
            // An error means that the sender is gone, and with it every source of a signal.
            let _ = requested.await;
        }));
        tokio::pin!(running);
        loop {
            tokio::select! {
                ended = &mut running => return Some(ended),
                () = self.next() => drop(request.take()?.send(())),
            }
        }
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
