//! The end of operations that begin in one process and end in another, and the ledgers from which their outcomes are
//! derived.

use std::time::Duration;

use load::driver::SharedProgress;
use load::workers::COUNTING;

use crate::divided::DividedRun;

/// Time between two looks at the other parts of a divided run.
const LOOKING: Duration = Duration::from_millis(250);

/// The operations that workers of this program share with those of others.
#[derive(Debug)]
pub(super) struct SharedOperations {
    divided: Option<DividedRun>,
    /// The last number of open operations that was reported to the other parts.
    reported: Option<i64>,
    progress: Option<SharedProgress>,
}

impl SharedOperations {
    pub(super) fn new(divided: Option<&DividedRun>) -> Self {
        Self {
            divided: divided.cloned(),
            reported: None,
            progress: None,
        }
    }

    /// Returns the time between two counts of open operations.
    pub(super) fn interval(&self) -> Duration {
        match self.divided {
            Some(_) => LOOKING,
            None => COUNTING,
        }
    }

    /// Reports the open operations of this program to the other parts of a divided run.
    pub(super) fn report(&mut self, open: i64) {
        if let Some(divided) = self
            .divided
            .as_ref()
            .filter(|_| self.reported != Some(open))
            && divided.report_open(open).is_ok()
        {
            self.reported = Some(open);
        }
    }

    /// Returns news about the operations of all parts of the run. `open` are those of this program.
    pub(super) fn news(&mut self, open: i64) -> Option<SharedProgress> {
        self.report(open);
        let progress = match &self.divided {
            None => Some(SharedProgress::of_open(open)),
            // If the folder cannot be read, the drain time ends the run.
            Some(divided) => divided.shared_progress().unwrap_or(None),
        };
        let news = progress.filter(|progress| Some(*progress) > self.progress)?;
        self.progress = Some(news);
        Some(news)
    }
}
