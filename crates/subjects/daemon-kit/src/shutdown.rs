//! Shutdown of a daemon: by signal, with a grace period.

use std::time::Duration;

use anyhow::Context as _;
use futures_util::future::BoxFuture;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;

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
            terminate: signal(SignalKind::terminate()).context("cannot watch SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("cannot watch SIGINT")?,
        })
    }

    /// Runs a daemon to its end. The first signal resolves the future that is passed to `daemon`. Returns `None` on a
    /// second signal, without waiting for the daemon.
    pub async fn run_until_shutdown<T, F>(
        &mut self,
        daemon: impl FnOnce(BoxFuture<'static, ()>) -> F,
    ) -> Option<T>
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

/// Waits until all tasks have ended, and passes the result of each to `ended`. After the grace period, it aborts the
/// tasks that still run. Returns true if none was aborted.
pub async fn finish_within<T: 'static>(
    tasks: &mut JoinSet<T>,
    grace: Duration,
    mut ended: impl FnMut(Result<T, JoinError>),
) -> bool {
    let all_ended = async {
        while let Some(result) = tasks.join_next().await {
            ended(result);
        }
    };
    let in_time = timeout(grace, all_ended).await.is_ok();
    tasks.shutdown().await;
    in_time
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use nix::sys::signal::{Signal, raise};
    use tokio::time::sleep;

    use super::*;

    #[tokio::test]
    async fn the_first_signal_asks_and_the_second_ends() {
        let mut signals = Signals::new().unwrap();
        let obedient = signals.run_until_shutdown(|asked| async {
            raise(Signal::SIGTERM).unwrap();
            asked.await;
            7
        });
        assert_eq!(obedient.await, Some(7));
        let stubborn = signals.run_until_shutdown(|asked| async {
            raise(Signal::SIGINT).unwrap();
            asked.await;
            raise(Signal::SIGTERM).unwrap();
            pending::<()>().await;
        });
        assert_eq!(stubborn.await, None);
    }

    #[tokio::test]
    async fn tasks_that_outlast_the_grace_period_are_aborted() {
        let mut tasks = JoinSet::new();
        let mut ended = 0;
        tasks.spawn(async {});
        // One that ends later.
        tasks.spawn(sleep(Duration::from_millis(1)));
        let ample = Duration::from_secs(600);
        assert!(finish_within(&mut tasks, ample, |_| ended += 1).await);
        assert_eq!(ended, 2);
        tasks.spawn(pending());
        let short = Duration::from_millis(1);
        assert!(!finish_within(&mut tasks, short, |_| ended += 1).await);
        assert_eq!(ended, 2);
        assert!(tasks.is_empty());
    }
}
