//! Describes faults that are injected into the daemon under load.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Invalid;
use crate::duration;

/// A signal to all processes of the daemon, and the recovery from it. Each of several instances gets the signal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Time of the fault, counted from the first start, including the warm-up.
    #[serde(with = "duration")]
    pub at: Duration,
    /// `KILL` and `TERM` end the daemon, `STOP` suspends it.
    pub signal: Signal,
    /// Time after which the daemon is started again, or continues.
    #[serde(with = "duration")]
    pub back_after: Duration,
}

/// A signal that a fault sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Signal {
    /// Ends the daemon at once.
    Kill,
    /// Asks the daemon to end.
    Term,
    /// Suspends the daemon until `CONT`.
    Stop,
}

impl Fault {
    /// Describes the fault for people.
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

/// Checks that each fault recovers within the load, and begins after the one before is over.
pub(super) fn validate(faults: &[Fault], planned: Duration) -> Result<(), Invalid> {
    let mut free = Duration::ZERO;
    for (index, fault) in faults.iter().enumerate() {
        let invalid = |problem: String| Err(Invalid::new(format!("faults[{index}].at"), problem));
        let over = fault.at.saturating_add(fault.back_after);
        if fault.at >= planned {
            return invalid(format!(
                "is not within the {} of warm-up and measure: move it earlier",
                duration::format(planned)
            ));
        }
        if fault.at < free {
            return invalid(
                "comes before the fault above it is over: list faults in order, at least `back_after` apart"
                    .to_owned(),
            );
        }
        if over >= planned {
            let problem = format!(
                "ends only after the {} of warm-up and measure: shorten it, or move the fault earlier",
                duration::format(planned)
            );
            return Err(Invalid::new(format!("faults[{index}].back_after"), problem));
        }
        free = over;
    }
    Ok(())
}
