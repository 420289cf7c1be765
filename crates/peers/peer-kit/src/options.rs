//! The options that all null peers have, and their end.

use std::io;
use std::sync::Arc;

use clap::Args;
use load::driver::Cancellation;
use nix::sys::signal::{SigSet, Signal};

use crate::delays::{Delays, Shape, Stall};

/// The delays of a null peer, as typed.
#[derive(Debug, Clone, Args)]
pub struct DelayOptions {
    /// Answer this much later: none, constant:5ms, bimodal:1ms:50ms:10% (the share of the second), or lognormal:3ms:0.8
    /// (median and sigma)
    #[arg(
        long,
        value_name = "DISTRIBUTION",
        default_value = "none",
        env = "NULL_PEER_DELAYS",
        global = true
    )]
    delays: Shape,
    /// Answer nothing for a while after the first request: 3s:1s for 1 s, after 3 s
    #[arg(
        long,
        value_name = "AFTER:LENGTH",
        default_value = "",
        hide_default_value = true,
        env = "NULL_PEER_STALL",
        global = true
    )]
    stall: Stall,
    /// Set the order of the delays
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        env = "NULL_PEER_SEED",
        global = true
    )]
    seed: u64,
}

impl DelayOptions {
    /// Returns the planned delays.
    #[must_use]
    pub fn delays(&self) -> Delays {
        Delays::new(&self.delays.in_turn(self.seed), self.stall)
    }
}

/// Returns what SIGTERM and SIGINT will request. They must be caught before the process has other threads.
///
/// # Errors
/// The kernel's error, usually `EMFILE`.
pub fn end_at_signal() -> io::Result<Arc<Cancellation>> {
    let end = Arc::new(Cancellation::new()?);
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals.thread_block()?;
    let requested = Arc::clone(&end);
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            if signals.wait().is_ok() {
                requested.request(0);
            }
        })?;
    Ok(end)
}
