//! Shutdown of a daemon: by signal, with a grace period.

use std::time::Duration;

use anyhow::Context as _;
use futures_util::future::{BoxFuture, OptionFuture};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;

/// SIGTERM, SIGINT and SIGHUP, which all request a shutdown.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// Absent if SIGHUP is ignored, as under `nohup`: the daemon then continues without its terminal.
    hang_up: Option<Signal>,
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
            hang_up: hang_up().context("cannot watch SIGHUP")?,
        })
    }

    /// Runs a daemon to its end. The first signal resolves the future that is passed to `daemon`. Returns `None` on a
    /// second signal, without waiting for the daemon, unless it is SIGHUP: the shell and the kernel send one each when a
    /// terminal closes.
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
                signal = self.next() => match request.take() {
                    Some(request) => drop(request.send(())),
                    None if signal == SignalKind::hangup() => {}
                    None => return None,
                },
            }
        }
    }

    async fn next(&mut self) -> SignalKind {
        let hang_up = OptionFuture::from(self.hang_up.as_mut().map(Signal::recv));
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            Some(_) = hang_up => SignalKind::hangup(),
        }
    }
}

fn hang_up() -> std::io::Result<Option<Signal>> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    // proc_pid_status(5): bits in hexadecimal, the last one for signal 1, which is SIGHUP.
    let mask = status.lines().find(|line| line.starts_with("SigIgn:"));
    let is_ignored =
        mask.is_some_and(|mask| mask.ends_with(['1', '3', '5', '7', '9', 'b', 'd', 'f']));
    (!is_ignored)
        .then(|| signal(SignalKind::hangup()))
        .transpose()
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
    async fn a_terminal_that_closes_asks_and_never_ends() {
        let mut signals = Signals::new().unwrap();
        let mut second = signal(SignalKind::hangup()).unwrap();
        let draining = signals.run_until_shutdown(|asked| async move {
            raise(Signal::SIGHUP).unwrap();
            asked.await;
            second.recv().await;
            raise(Signal::SIGHUP).unwrap();
            second.recv().await;
            tokio::task::yield_now().await;
            7
        });
        assert_eq!(draining.await, Some(7));
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
