//! The end of operations that begin in one process and end in another, and the ledgers from which their outcomes are
//! derived.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use load::driver::{Driver, SharedOperations as _, SharedProgress};
use load::workers::COUNTING;

use crate::divided::DividedRun;

/// Time between two looks at the other parts of a divided run.
const LOOKING: Duration = Duration::from_millis(250);

/// The operations that workers of this process share with those of others.
pub(super) struct SharedOperations {
    /// Counts the operations that this process has begun and not ended.
    pub(super) open: Box<dyn Fn() -> Option<i64> + Send + Sync>,
    tell: Box<dyn Fn(SharedProgress) + Send + Sync>,
    divided: Option<DividedRun>,
    /// The last number of open operations that was reported to the other parts.
    reported: Option<i64>,
    progress: Option<SharedProgress>,
}

impl fmt::Debug for SharedOperations {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SharedOperations")
            .field("reported", &self.reported)
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}

impl SharedOperations {
    pub(super) fn new<D: Driver>(driver: &Arc<D>, divided: Option<&DividedRun>) -> Self {
        let (counting, telling) = (Arc::clone(driver), Arc::clone(driver));
        Self {
            open: Box::new(move || D::Shared::open(&counting)),
            tell: Box::new(move |progress| D::Shared::progress(&telling, progress)),
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

    /// Returns news about the operations of all parts of the run, and tells the workers of this process. `open` are those
    /// of this program.
    pub(super) fn news(&mut self, open: i64) -> Option<SharedProgress> {
        self.report(open);
        let progress = match &self.divided {
            None => Some(SharedProgress::of_open(open)),
            // If the folder cannot be read, the drain time ends the run.
            Some(divided) => divided.shared_progress().unwrap_or(None),
        };
        let news = progress.filter(|progress| Some(*progress) > self.progress)?;
        self.progress = Some(news);
        (self.tell)(news);
        Some(news)
    }
}
