//! What is done to the daemon on purpose while it is under load.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::duration;

/// A signal to the daemon, and what follows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// When, counted from the first start, the warm-up included.
    #[serde(with = "duration")]
    pub at: Duration,
    /// `KILL` and `TERM` end the daemon, `STOP` holds it up.
    pub signal: Signal,
    /// After which time the daemon is started again, or goes on.
    #[serde(with = "duration")]
    pub back_after: Duration,
}

/// What a fault sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Signal {
    /// Ends it at once.
    Kill,
    /// Asks it to end.
    Term,
    /// Holds it up until `CONT`.
    Stop,
}
