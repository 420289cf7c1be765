//! What is done to the daemon on purpose while it is under load.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Invalid;
use crate::duration;

/// A signal to all processes of the daemon, and what follows it. Of several instances each gets it.
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

impl Fault {
    /// What is done, for people.
    #[must_use]
    pub fn sentence(&self) -> String {
        let after = duration::format(self.back_after);
        match self.signal {
            Signal::Kill => format!("SIGKILL, started again after {after}"),
            Signal::Term => format!("SIGTERM, started again after {after}"),
            Signal::Stop => format!("SIGSTOP for {after}"),
        }
    }
}

/// Checks that each fault falls into the load with its end, and begins when the one before is over.
pub(super) fn validate(faults: &[Fault], planned: Duration) -> Result<(), Invalid> {
    let mut free = Duration::ZERO;
    for (place, fault) in faults.iter().enumerate() {
        let invalid = |problem: String| Err(Invalid::new(format!("faults[{place}].at"), problem));
        let over = fault.at.saturating_add(fault.back_after);
        if fault.at >= planned {
            return invalid(format!(
                "is not within the {} of warm-up and measure: put it earlier",
                duration::format(planned)
            ));
        }
        if fault.at < free {
            return invalid(
                "comes before the fault above it is over: keep them in order, each `back_after` apart"
                    .to_owned(),
            );
        }
        if over >= planned {
            let problem = format!(
                "ends it only after the {} of warm-up and measure: shorten it, or put the fault earlier",
                duration::format(planned)
            );
            return Err(Invalid::new(format!("faults[{place}].back_after"), problem));
        }
        free = over;
    }
    Ok(())
}
