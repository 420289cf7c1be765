//! The end of a divided run: operations that begin in one shard and end in another, and who cleans up.

use std::fs::File;
use std::time::Duration;

use load::driver::SharedProgress;
use load::schedule::Share;
use tokio::time::Instant;

use super::{DividedRun, FAILED, SLEEP, look, shard_folder, write};
use crate::store::RESULT;

/// Time that the daemon stays after the planned end of the load, if results of shards are missing.
const RESULTS_LIMIT: Duration = Duration::from_secs(20);

const LEFT: &str = "left-";
const PROGRESS: &str = "progress";
const DONE: &str = "done-";
const CLEANED: &str = "cleaned";

impl DividedRun {
    /// Tells the other parts how many operations this shard has begun and not ended, below 0 if it ends those of others.
    ///
    /// # Errors
    /// The error of the file system.
    pub(crate) fn report_open(&self, open: i64) -> anyhow::Result<()> {
        match self.share {
            Some(share) => write(&self.folder.join(format!("{LEFT}{}", share.index)), &open),
            None => Ok(()),
        }
    }

    /// Returns the progress of the operations of all shards, if all have reported their part. The last shard adds the
    /// parts up for the others, because it ends operations: a shard that only begins some may have left.
    ///
    /// # Errors
    /// The error of the file system, or a file that cannot be read.
    pub(crate) fn shared_progress(&self) -> anyhow::Result<Option<SharedProgress>> {
        let path = self.folder.join(PROGRESS);
        let is_last = |share: &Share| share.index + 1 == share.of;
        let Some(share) = self.share.filter(is_last) else {
            let found = look(&self.folder, &path)?.1;
            let progress = found.map(|content| serde_json::from_slice(&content));
            return Ok(progress.transpose()?);
        };
        let mut open: i64 = 0;
        for index in 0..share.of {
            let path = self.folder.join(format!("{LEFT}{index}"));
            let Some(content) = look(&self.folder, &path)?.1 else {
                return Ok(None);
            };
            let left: i64 = serde_json::from_slice(&content)?;
            open = open.saturating_add(left);
        }
        let progress = SharedProgress::of_open(open);
        write(&path, &progress)?;
        Ok(Some(progress))
    }

    /// Says that this shard has ended. Returns true for the last one.
    ///
    /// # Errors
    /// The error of the file system.
    pub(crate) fn leave(&self) -> anyhow::Result<bool> {
        let Some(share) = self.share else {
            return Ok(false);
        };
        let done = |index: u64| self.folder.join(format!("{DONE}{index}"));
        write(&done(share.index), &())?;
        if !(0..share.of).all(|index| done(index).exists()) {
            return Ok(false);
        }
        // Two shards may see all the files at the same time, and one of them can create this.
        Ok(File::create_new(self.folder.join(CLEANED)).is_ok())
    }

    /// Returns once all shards have a result or have failed, or the time for them is over: the planned end of the load
    /// and 20 s.
    pub(crate) async fn all_results(self, of: u64, planned: Duration) {
        let deadline = Instant::now() + planned + RESULTS_LIMIT;
        let has_ended = |index: u64| {
            self.folder.join(shard_folder(index)).join(RESULT).exists()
                || self.folder.join(format!("{FAILED}{index}")).exists()
        };
        while Instant::now() < deadline && !(0..of).all(has_ended) {
            tokio::time::sleep(SLEEP).await;
        }
    }
}
