//! The signals that ask a run to end: Ctrl-C and SIGTERM. None is missed between two looks.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens from its creation on.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Begins to listen; from now on the signals do not end the program by themselves.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Completes with the next signal. May be dropped and called again.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
