//! The progress of operations that begin in one process and end in another.

use load::driver::SharedProgress;
use tokio::time::{Interval, MissedTickBehavior};

use crate::part::Part;

/// The operations that workers of this program share with other programs.
#[derive(Debug)]
pub(super) struct SharedOperations {
    part: Part,
    looking: Interval,
    /// The last number of open operations that was reported to the other parts.
    reported: Option<i64>,
    progress: Option<SharedProgress>,
}

impl SharedOperations {
    pub(super) fn new(part: Part) -> Self {
        let mut looking = tokio::time::interval(part.looking());
        looking.set_missed_tick_behavior(MissedTickBehavior::Skip);
        Self {
            part,
            looking,
            reported: None,
            progress: None,
        }
    }

    /// Returns when it is time to look for [`news`](Self::news). Cancel-safe.
    pub(super) async fn time_to_look(&mut self) {
        self.looking.tick().await;
    }

    /// Reports the open operations of this program to the other parts.
    pub(super) fn report(&mut self, open: i64) {
        if self.reported != Some(open) && self.part.report_open(open).is_ok() {
            self.reported = Some(open);
        }
    }

    /// Returns news about the operations of all parts of the run. `open` are this program's.
    pub(super) fn news(&mut self, open: i64) -> Option<SharedProgress> {
        self.report(open);
        let progress = self.part.shared_progress(open);
        let news = progress.filter(|progress| Some(*progress) > self.progress)?;
        self.progress = Some(news);
        Some(news)
    }
}
