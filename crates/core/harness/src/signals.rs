//! Receives the signals that ask a run to end: Ctrl-C, SIGTERM, and SIGHUP of a closed terminal. No signal is lost
//! between two calls.

use nix::sys::signal::Signal as SignalNumber;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A listener for signals, from its creation on.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// Absent if SIGHUP is ignored, as under `nohup`: the run then continues without its terminal.
    hang_up: Option<Signal>,
    /// Number of signals so far.
    count: u64,
}

impl Signals {
    /// Starts to listen; from now on the signals do not end the program by themselves. Nor does SIGXFSZ: writing more
    /// than a file may hold (`ulimit -f`) is an error, as on a full disk.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn listen() -> std::io::Result<Self> {
        // The handler stays, and programs that are started do not inherit it.
        drop(signal(SignalKind::from_raw(SignalNumber::SIGXFSZ as i32))?);
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: hang_up()?,
            count: 0,
        })
    }

    /// Completes with the next signal. May be dropped and called again.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = received(&mut self.hang_up) => {}
        }
        self.count += 1;
    }

    /// Returns true once a signal was taken by [`next`](Self::next).
    #[must_use]
    pub fn has_received(&self) -> bool {
        self.count > 0
    }
}

fn hang_up() -> std::io::Result<Option<Signal>> {
    (!ignores_hang_up())
        .then(|| signal(SignalKind::hangup()))
        .transpose()
}

/// Returns true if this process ignores SIGHUP, as under `nohup`; so do the processes that it starts.
#[must_use]
pub fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored(&status) & 1 != 0
}

/// Returns the signals that a process ignores, as bits starting at signal 1 (proc_pid_status(5), `SigIgn`).
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_mask() {
        assert_eq!(ignored("Name:\tx\nSigIgn:\t0000000000001001\n"), 0x1001);
        assert_eq!(ignored("Name:\tx\n"), 0);
    }
}
