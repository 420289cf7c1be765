//! The end of a daemon, as its signals ask for it.

use anyhow::Context as _;
use futures_util::future::BoxFuture;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// SIGTERM and SIGINT, which mean the same here.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// From now on they no longer end the process by themselves. Needs a Tokio runtime with I/O.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("watching SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("watching SIGINT")?,
        })
    }

    /// Runs a daemon until a signal asks for the end, which makes the future that it is given ready, and to the end;
    /// `None` if a second signal was impatient.
    pub async fn run<T, F>(&mut self, daemon: impl FnOnce(BoxFuture<'static, ()>) -> F) -> Option<T>
    where
        F: Future<Output = T>,
    {
        let (ask, asked) = oneshot::channel();
        let mut ask = Some(ask);
        let running = daemon(Box::pin(async {
            // An error means that the sender is gone, and with it whoever could ask.
            let _ = asked.await;
        }));
        tokio::pin!(running);
        loop {
            tokio::select! {
                ended = &mut running => return Some(ended),
                () = self.next() => drop(ask.take()?.send(())),
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
