//! The end of a divided run: operations that begin in one shard and end in another, and who cleans up.

use std::ffi::OsStr;
use std::time::Duration;

use load::driver::SharedProgress;
use load::schedule::Share;
use tokio::time::Instant;

use super::{DividedRun, FAILED, SLEEP, look, names, shard_folder, write};
use crate::store::RESULT;

/// Time that the daemon stays after the planned end of the load, if results of shards are missing.
const RESULTS_LIMIT: Duration = Duration::from_secs(20);

const LEFT: &str = "left-";
const PROGRESS: &str = "progress";
const DONE: &str = "done-";
/// Time that the last shard waits for the ends of the others. They end by the same instants; a file takes a while to be
/// seen.
const LEAVING_NS: u64 = 10_000_000_000;

impl DividedRun {
    /// Tells the other parts how many operations this shard has begun and not ended, below 0 if it ends operations of
    /// others.
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
        let is_last = |share: &Share| share.index + 1 == share.of;
        let Some(share) = self.share.filter(is_last) else {
            let found = look(&self.folder, PROGRESS)?.1;
            let progress = found.map(|content| serde_json::from_slice(&content));
            return Ok(progress.transpose()?);
        };
        let mut open: i64 = 0;
        for index in 0..share.of {
            let Some(content) = look(&self.folder, &format!("{LEFT}{index}"))?.1 else {
                return Ok(None);
            };
            let left: i64 = serde_json::from_slice(&content)?;
            open = open.saturating_add(left);
        }
        let progress = SharedProgress::of_open(open);
        write(&self.folder.join(PROGRESS), &progress)?;
        Ok(Some(progress))
    }

    /// Says that this shard has ended. Returns true for the last shard, which waits until all others have said it too, and
    /// may clean up then.
    ///
    /// # Errors
    /// The error of the file system.
    pub(crate) fn leave(&self) -> anyhow::Result<bool> {
        let Some(share) = self.share else {
            return Ok(false);
        };
        let done = |index: u64| format!("{DONE}{index}");
        write(&self.folder.join(done(share.index)), &())?;
        let has_all = || -> anyhow::Result<bool> {
            let names = names(&self.folder)?;
            Ok((0..share.of).all(|index| names.contains(OsStr::new(&done(index)))))
        };
        let deadline = load::clock::now() + LEAVING_NS;
        while share.index + 1 == share.of && load::clock::now() < deadline {
            if has_all()? {
                return Ok(true);
            }
            std::thread::sleep(super::LOCAL_POLL);
        }
        Ok(false)
    }

    /// Returns once all shards have a result or have failed, or the time for them is over: the planned end of the load
    /// and 20 s.
    pub(crate) async fn all_results(self, of: u64, planned: Duration) {
        let deadline = Instant::now() + planned + RESULTS_LIMIT;
        while Instant::now() < deadline {
            let listed = names(&self.folder).unwrap_or_default();
            let has_ended = |index: u64| {
                let shard = shard_folder(index);
                let files = || names(&self.folder.join(&shard)).unwrap_or_default();
                listed.contains(OsStr::new(&format!("{FAILED}{index}")))
                    || listed.contains(OsStr::new(&shard)) && files().contains(OsStr::new(RESULT))
            };
            if (0..of).all(has_ended) {
                return;
            }
            tokio::time::sleep(SLEEP).await;
        }
    }
}
