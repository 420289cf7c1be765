//! The end of a divided run: operations that begin in one shard and end in another, and who cleans up.

use std::ffi::OsStr;
use std::time::Duration;

use load::driver::SharedProgress;
use load::schedule::Share;
use measure::units;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use super::{DividedRun, Shards, is_local, look, names, write};

/// Time that the daemon stays after the planned end of the load, if results of shards are missing.
const RESULTS_LIMIT: Duration = Duration::from_secs(20);

/// Time between two looks at the shards, which report once a second.
const LOOKING: Duration = Duration::from_secs(1);
/// Time without a new second of its load after which a shard is taken for dead, if the folder is on a local disk.
const LOCAL_SILENCE: Duration = Duration::from_secs(10);
/// The same for a network file system, whose clients see new lines late.
const REMOTE_SILENCE: Duration = Duration::from_secs(30);

const LEFT: &str = "left-";
const PROGRESS: &str = "progress";
const DONE: &str = "done-";
/// Time that the last shard waits for the ends of the others. They end by the same instants; a file takes a while to be
/// seen.
const LEAVING_NS: u64 = 10_000_000_000;

/// The shards that the part with the daemon waits for.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// The text for the live line.
    pub(crate) step: String,
    /// Shards that have become silent.
    pub(crate) note: Option<String>,
}

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

    /// Returns once all shards have a result, have failed or show no sign of life, or the time for them is over: the
    /// planned end of the load and 20 s. Says meanwhile what it waits for.
    pub(crate) async fn all_results(
        self,
        of: u64,
        planned: Duration,
        waiting: UnboundedSender<Waiting>,
    ) {
        let deadline = Instant::now() + planned + RESULTS_LIMIT;
        let silence = if is_local(&self.folder) {
            LOCAL_SILENCE
        } else {
            REMOTE_SILENCE
        };
        let mut shards = Shards::new(&self.folder, of);
        let mut noted = Vec::new();
        while Instant::now() < deadline {
            shards.refresh();
            let left = shards.all().iter().filter(|shard| !shard.has_ended());
            let left = left.map(|shard| (shard.index, Duration::from_nanos(shard.silent_ns())));
            let left: Vec<(u64, Duration)> = left.collect();
            if left.iter().all(|(_, silent)| *silent >= silence) {
                return;
            }
            let silent = left.iter().filter(|(_, silent)| *silent >= silence / 2);
            let silent: Vec<u64> = silent.map(|(index, _)| *index).collect();
            let step = format!("waiting for the results of {} of {of} shards", left.len());
            let note = (!silent.is_empty() && silent != noted).then(|| {
                format!(
                    "No sign of life for {}: shard {}. The run ends without it once all others have ended and {} have passed.",
                    humantime::format_duration(silence / 2),
                    units::ranges(&silent),
                    humantime::format_duration(silence)
                )
            });
            noted = silent;
            // Nobody reads this any more if the run was interrupted.
            let _ = waiting.send(Waiting { step, note });
            tokio::time::sleep(LOOKING).await;
        }
    }
}
