//! A run that is divided over several programs, on one machine or many. Each shard drives its share of the load, and one
//! more program may launch the daemon. They need no connection to each other: they meet in a folder that all can reach,
//! and begin at one instant of the wall clock. [`crate::merge`] makes one result of their results.
//!
//! | file | content |
//! | --- | --- |
//! | `daemon.json` | the address of the daemon, from the program that launched it |
//! | `ready-I` | shard I is ready to begin |
//! | `failed-I`, `failed-daemon` | the reason why shard I, or the part with the daemon, has no result |
//! | `probe-0`, `probe-1` | all shards are ready, and have seen the probe before, from shard 0 |
//! | `seen-0-I`, `seen-1-I` | shard I has seen the probe: how long that took is how late the file system shows a file |
//! | `go` | the instant of the start, from shard 0 once all shards have seen both probes |
//! | `open-I`, `load-probe-0`, …, `load` | the same for the load, if connections are opened before it |
//! | `left-I` | how many operations shard I has begun and not ended, if others end them |
//! | `progress` | all have begun their last, or the sum is 0 and nobody needs to wait any more, from the last shard |
//! | `done-I` | shard I has ended; the last shard waits for the others and cleans up |
//! | `shard-I/live.jsonl` | a line for each second of its load: it is alive |
//! | `shard-I/`, `daemon/` | the result of each part; `result.json` is written last, so it is complete |

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use load::clock;
use load::plan::Invalid;
use load::redact;
use load::schedule::Share;
use measure::shard::{Role, RunPart};
use measure::warning::{Severity, Warning};
use nix::sys::statfs::{
    BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC, TMPFS_MAGIC, XFS_SUPER_MAGIC,
    statfs,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::store;

mod end;
mod program;
mod shards;
mod start;
#[cfg(test)]
mod tests;

pub(crate) use end::Waiting;
pub use program::{ProgramId, PublishedDaemon};
pub use shards::{Shard, ShardState, Shards};
pub(crate) use start::{HEAD_START_NS, Start};

/// Time between two readings of the folder, if it is on a local disk.
const LOCAL_POLL: Duration = Duration::from_millis(20);
/// The same for a network file system, whose server answers all shards.
const REMOTE_POLL: Duration = Duration::from_millis(250);
/// Least time from the order to begin to the start, if the folder is on a local disk.
const LOCAL_HEAD_START: Duration = Duration::from_millis(500);
/// The same for a network file system, whose clients see new files late: NFS by up to 3 s, unless configured otherwise.
const REMOTE_HEAD_START: Duration = Duration::from_secs(5);
/// Least time from the order to begin to the start, as a multiple of the time in which all shards saw the probes.
const HEAD_START_PER_PROBE: u32 = 2;
/// Number of probes. A file system may keep the listing of a folder for a while. The first probe may arrive just when
/// the listings of the shards expire; the second arrives when some are new, so both together take as long as a listing
/// is kept.
const PROBES: u64 = 2;
/// Time before the start at which the wall clock is converted to the monotonic clock, and the workers are started.
const CONVERTED_BEFORE: Duration = Duration::from_millis(200);
/// Longest sleep until the wall clock is read again: it may be set meanwhile.
const SLEEP: Duration = Duration::from_millis(100);

/// Most shards of a run.
pub(crate) const MOST_SHARDS: u64 = 100_000;
const DAEMON: &str = "daemon.json";
const FAILED: &str = "failed-";
/// Prefix of the folders of shards.
const SHARD: &str = "shard-";
/// The folder of the daemon's part.
pub const DAEMON_FOLDER: &str = "daemon";

/// An instant that all parts of a run agree on: each shard says that it is ready for it, and shard 0 sets it once all
/// are.
#[derive(Debug, Clone, Copy)]
struct Meeting {
    /// Prefix of the file of each shard.
    ready: &'static str,
    /// Prefix of the files that all shards must see first.
    probe: &'static str,
    /// Prefix of the files of each shard that has seen one.
    seen: &'static str,
    /// Name of the file with the instant.
    go: &'static str,
}

impl Meeting {
    /// Returns the name of a probe.
    fn probe(&self, number: u64) -> String {
        format!("{}{number}", self.probe)
    }

    /// Returns the prefix of the file of each shard that has seen a probe.
    fn seen(&self, number: u64) -> String {
        format!("{}{number}-", self.seen)
    }
}

/// The start of the run.
const START: Meeting = Meeting {
    ready: "ready-",
    probe: "probe-",
    seen: "seen-",
    go: "go",
};

/// The start of the load, once all connections are open.
const LOAD: Meeting = Meeting {
    ready: "open-",
    probe: "load-probe-",
    seen: "load-seen-",
    go: "load",
};

/// The part of this program in a divided run.
#[derive(Debug, Clone)]
pub struct DividedRun {
    role: Role,
    /// Its share of the load; absent if it only launches the daemon.
    share: Option<Share>,
    folder: PathBuf,
    /// The start, Unix time in nanoseconds; without it the parts agree on one.
    start_at: Option<u64>,
    /// Time limit for the other parts to be ready.
    limit: Duration,
    /// The whole plan, which all parts have in common.
    pub(crate) plan: serde_json::Value,
    plan_sha256: String,
}

/// The state of a shard that is ready.
#[derive(Debug, Serialize, Deserialize)]
struct Ready {
    of: u64,
    plan_sha256: String,
    version: String,
    program: ProgramId,
}

/// The order to begin.
#[derive(Debug, Serialize, Deserialize)]
struct Go {
    of: u64,
    plan_sha256: String,
    at_unix_ns: u64,
    /// The same instant of CLOCK_MONOTONIC, for programs that [see the same processes](ProgramId::processes): it does not
    /// jump.
    at_monotonic: u64,
    processes: String,
}

impl Go {
    /// Returns the instant of CLOCK_MONOTONIC, if it was set by a program of this machine.
    fn monotonic(&self, host: &str) -> Option<u64> {
        (self.processes == ProgramId::this(host).processes).then_some(self.at_monotonic)
    }
}

impl DividedRun {
    /// Creates the part of a program with a role, a share unless its role is the daemon, the common folder, a start
    /// that was agreed on elsewhere, and a time limit for the other parts.
    ///
    /// # Errors
    /// The folder can't be created, or has been used by this part before.
    pub fn new(
        role: Role,
        share: Option<Share>,
        folder: &Path,
        start_at: Option<u64>,
        limit: Duration,
        plan: serde_json::Value,
    ) -> Result<Self, Invalid> {
        let field = || format!("--result-dir {}", folder.display());
        fs::create_dir_all(folder).map_err(|error| {
            let problem = format!("{error}: name a folder that can be created, and that all parts of the run can reach");
            Invalid::new(field(), problem)
        })?;
        // Shards on other machines may have other secrets, and no file of the run shows any.
        let mut plain = plan.clone();
        redact::value(&mut plain);
        let plan_sha256 = format!("{:x}", Sha256::digest(plain.to_string()));
        let divided = Self {
            role,
            share,
            folder: folder.to_owned(),
            start_at,
            limit,
            plan,
            plan_sha256,
        };
        let used = divided
            .own_files()
            .into_iter()
            .find(|name| divided.folder.join(name).exists());
        if let Some(name) = used {
            let problem = format!("has `{name}` of an earlier run: name a new folder for each run");
            return Err(Invalid::new(field(), problem));
        }
        Ok(divided)
    }

    /// Returns the names of the files that this part makes.
    fn own_files(&self) -> Vec<String> {
        match self.share {
            Some(Share { index, .. }) => [START.ready, FAILED, SHARD]
                .map(|prefix| format!("{prefix}{index}"))
                .to_vec(),
            None => vec![
                DAEMON.to_owned(),
                DAEMON_FOLDER.to_owned(),
                format!("{FAILED}{DAEMON_FOLDER}"),
            ],
        }
    }

    /// Returns its role.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns its share of the load. The program that only launches the daemon has nothing to divide.
    #[must_use]
    pub fn share(&self) -> Share {
        self.share.unwrap_or(Share::ALL)
    }

    /// Returns the folder for its result.
    #[must_use]
    pub fn result_folder(&self) -> PathBuf {
        match self.share {
            Some(share) => self.folder.join(shard_folder(share.index)),
            None => self.folder.join(DAEMON_FOLDER),
        }
    }

    /// Returns the name of the whole run, which all parts derive from what they have in common.
    pub(crate) fn run_id(&self, start: &Start) -> String {
        format!("{:x}-{}", start.unix_ns, &self.plan_sha256[..8])
    }

    /// Describes this part for its result.
    pub(crate) fn part(&self, start: &Start) -> RunPart {
        RunPart {
            role: self.role,
            shard: self.share.map(|share| share.index),
            of: start.of,
            plan_sha256: self.plan_sha256.clone(),
            origin_unix_ns: start.unix_ns,
            clock: start.clock(),
            ..RunPart::default()
        }
    }

    /// Publishes the daemon that this program has launched, unless it is for the program's own share.
    ///
    /// # Errors
    /// The error of the file system.
    pub(crate) fn publish(&self, daemon: &PublishedDaemon) -> anyhow::Result<()> {
        match self.share {
            Some(_) => Ok(()),
            None => write(&self.folder.join(DAEMON), daemon),
        }
    }

    /// Waits for the daemon that another part launches.
    ///
    /// # Errors
    /// No daemon is published in time, or it cannot be reached from this machine.
    pub async fn published_daemon(&self, host: &str) -> anyhow::Result<PublishedDaemon> {
        let missing = |_: &Path| {
            "the daemon: start this program with --role daemon and the same folder, or give the address of a running daemon".to_owned()
        };
        let daemon: PublishedDaemon = self.wait_for(DAEMON, missing).await?;
        let by = &daemon.by.host;
        if by != host {
            if let Some(socket) = daemon.target.sockets().first() {
                bail!(
                    "the socket {} is on {by}, and this is {host}: a Unix socket cannot be reached from another machine; let each shard launch its own daemon (--role both)",
                    socket.display(),
                );
            }
            if let Some(url) = daemon.target.urls().find(|url| is_loopback(url)) {
                bail!(
                    "the daemon listens on {} of {by}, and this is {host}: give its part (--role daemon) --listen ADDRESS, an address of {by} that other machines reach",
                    redact::uri(url)
                );
            }
        }
        Ok(daemon)
    }

    /// Says that this shard is ready, and returns the common start once it is known and near.
    ///
    /// # Errors
    /// Another shard is not ready in time, has failed, or runs another plan; or the start was so long ago that the result
    /// of this shard would be INVALID.
    pub(crate) async fn start(&self, host: &str) -> anyhow::Result<Start> {
        let (unix_ns, of, known) = match (self.start_at, self.share) {
            (Some(start_at), Some(share)) => (start_at, share.of, None),
            _ => {
                let go = self.meet(START, host).await?;
                (go.at_unix_ns, go.of, go.monotonic(host))
            }
        };
        let before = u64::try_from(CONVERTED_BEFORE.as_nanos()).expect("a short time");
        if self.share.is_some() {
            refuse_late(clock::unix_ns().saturating_sub(unix_ns))?;
        }
        // The wall clock may be set while this waits, so it is read again and again, and converted only once.
        loop {
            let left = unix_ns.saturating_sub(clock::unix_ns() + before);
            if left == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_nanos(left).min(SLEEP)).await;
        }
        Ok(match known {
            Some(origin) => Start::known(unix_ns, of, origin),
            None => Start::convert(unix_ns, of),
        })
    }

    /// Says that all connections of this shard are open, if it has any, and returns the instant at which the load of all
    /// shards begins, nanoseconds of CLOCK_MONOTONIC; `None` if they do not agree on one.
    pub(crate) async fn load_begin(self, start: &Start, host: &str) -> Option<u64> {
        // Shards that know the start need no common folder.
        if self.start_at.is_some() {
            return None;
        }
        let go = self.meet(LOAD, host).await.ok()?;
        Some(
            go.monotonic(host)
                .unwrap_or_else(|| start.monotonic(go.at_unix_ns)),
        )
    }

    /// Returns the instant that shard 0 has set, once all shards are ready for it.
    async fn meet(&self, meeting: Meeting, host: &str) -> anyhow::Result<Go> {
        if let Some(share) = self.share {
            let ready = Ready {
                of: share.of,
                plan_sha256: self.plan_sha256.clone(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                program: ProgramId::this(host),
            };
            let file = |prefix: &str| self.folder.join(format!("{prefix}{}", share.index));
            write(&file(meeting.ready), &ready)?;
            if share.index == 0 {
                self.set_instant(meeting, share.of, host).await?;
            } else {
                for probe in 0..PROBES {
                    let missing = |folder: &Path| missing_shards(folder, meeting.ready, share.of);
                    let () = self.wait_for(&meeting.probe(probe), missing).await?;
                    write(&file(&meeting.seen(probe)), &())?;
                }
            }
        }
        let missing = |folder: &Path| match self.share {
            Some(share) => missing_shards(folder, &meeting.seen(PROBES - 1), share.of),
            None => "the shards: start them with the same --result-dir".to_owned(),
        };
        let go: Go = self.wait_for(meeting.go, missing).await?;
        if let Some(share) = self.share.filter(|share| share.of != go.of) {
            let problem = format!(
                "is one of {}, but the run in {} has {} shards: name a new folder for each run",
                share.of,
                self.folder.display(),
                go.of
            );
            return Err(
                Invalid::new(format!("--shard {}/{}", share.index, share.of), problem).into(),
            );
        }
        if go.plan_sha256 != self.plan_sha256 {
            return Err(self.other_plan("shard 0").into());
        }
        Ok(go)
    }

    /// Waits until all shards are ready and have seen the probes, and sets the instant.
    async fn set_instant(&self, meeting: Meeting, of: u64, host: &str) -> anyhow::Result<()> {
        for index in 0..of {
            let name = format!("{}{index}", meeting.ready);
            let missing = |folder: &Path| missing_shards(folder, meeting.ready, of);
            let ready: Ready = self.wait_for(&name, missing).await?;
            if ready.of != of {
                let problem = format!(
                    "is one of {}, but shard 0 is one of {of}: give all shards the same number",
                    ready.of
                );
                let field = format!("shard {index} on {}", ready.program.host);
                return Err(Invalid::new(field, problem).into());
            }
            if ready.plan_sha256 != self.plan_sha256 {
                let shard = format!("shard {index} on {}", ready.program.host);
                return Err(self.other_plan(&shard).into());
            }
        }
        let written = Instant::now();
        for probe in 0..PROBES {
            write(&self.folder.join(meeting.probe(probe)), &())?;
            let seen = meeting.seen(probe);
            for index in 1..of {
                let missing = |folder: &Path| missing_shards(folder, &seen, of);
                let () = self.wait_for(&format!("{seen}{index}"), missing).await?;
            }
        }
        let head_start = head_start(written.elapsed(), is_local(&self.folder));
        let head_start = u64::try_from(head_start.as_nanos()).expect("a short time");
        let at_monotonic = clock::now() + head_start;
        let go = Go {
            of,
            plan_sha256: self.plan_sha256.clone(),
            at_unix_ns: at_monotonic + clock::wall_offset(),
            at_monotonic,
            processes: ProgramId::this(host).processes,
        };
        write(&self.folder.join(meeting.go), &go)
    }

    fn other_plan(&self, other: &str) -> Invalid {
        Invalid::new(
            other,
            "runs another plan: give all parts of the run the same options (--print-plan shows the plan)",
        )
    }

    /// Returns the process ids of the other programs of the run on this machine, which are no strangers there.
    pub(crate) fn siblings(&self, host: &str) -> Vec<u32> {
        let this = ProgramId::this(host);
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let program = |entry: fs::DirEntry| -> Option<ProgramId> {
            let content = |entry: &fs::DirEntry| store::read(&entry.path()).ok();
            let name = entry.file_name();
            match name.to_str()? {
                DAEMON => {
                    let daemon = serde_json::from_slice::<PublishedDaemon>(&content(&entry)?);
                    Some(daemon.ok()?.by)
                }
                name if name.starts_with(START.ready) => {
                    let ready = serde_json::from_slice::<Ready>(&content(&entry)?);
                    Some(ready.ok()?.program)
                }
                _ => None,
            }
        };
        entries
            .filter_map(program)
            .filter(|other| other.processes == this.processes && other.pid != this.pid)
            .map(|other| other.pid)
            .collect()
    }

    /// Tells the other parts that this part has no result. Those that wait for it end too.
    pub(crate) fn give_up(&self, reason: &str) {
        let part = match self.share {
            Some(share) => share.index.to_string(),
            None => DAEMON_FOLDER.to_owned(),
        };
        let path = self.folder.join(format!("{FAILED}{part}"));
        // If this cannot be written, the others wait for their time limit.
        let _ = store::write_whole(&path, redact::text(reason).as_bytes());
    }

    /// Waits for a file that another part writes.
    async fn wait_for<T: DeserializeOwned>(
        &self,
        name: &str,
        missing: impl Fn(&Path) -> String,
    ) -> anyhow::Result<T> {
        let deadline = Instant::now() + self.limit;
        let poll = if is_local(&self.folder) {
            LOCAL_POLL
        } else {
            REMOTE_POLL
        };
        loop {
            let (failed, found) = look(&self.folder, name)?;
            if let Some(failed) = failed {
                bail!("{failed}");
            }
            if let Some(content) = found {
                return serde_json::from_slice(&content)
                    .with_context(|| format!("reading {}", self.folder.join(name).display()));
            }
            if Instant::now() >= deadline {
                bail!(
                    "waited {} for {} (--shard-timeout sets the limit)",
                    humantime::format_duration(self.limit),
                    missing(&self.folder)
                );
            }
            tokio::time::sleep(poll).await;
        }
    }
}

/// Returns true if the host of a URL is reached from its own machine only.
fn is_loopback(url: &str) -> bool {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = authority.split('/').next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    ["127.", "localhost", "[::1]"]
        .iter()
        .any(|local| host.starts_with(local))
}

/// Refuses to begin a load so late that its result would be INVALID.
fn refuse_late(late_ns: u64) -> anyhow::Result<()> {
    match Warning::shard_late(late_ns) {
        Some(Warning {
            severity: Severity::Invalid,
            hint,
            ..
        }) => bail!(
            "the common start was {} ago when this shard read it: {hint}",
            measure::units::duration(late_ns)
        ),
        _ => Ok(()),
    }
}

/// Returns the time from the order to begin to the start, if all shards have seen the probes after `probed`: their way
/// there, and the way of the answers back.
fn head_start(probed: Duration, is_local: bool) -> Duration {
    let least = if is_local {
        LOCAL_HEAD_START
    } else {
        REMOTE_HEAD_START
    };
    least.max(probed * HEAD_START_PER_PROBE)
}

/// Returns the names in a folder.
fn names(folder: &Path) -> io::Result<BTreeSet<OsString>> {
    fs::read_dir(folder)?
        .map(|entry| Ok(entry?.file_name()))
        .collect()
}

/// Returns the reason why a shard has failed, if one has, and the content of a file of the folder, if it is listed. A name
/// that is not listed is not opened: a network file system may remember that it was not there, and for how long is up to
/// its configuration.
fn look(folder: &Path, name: &str) -> anyhow::Result<(Option<String>, Option<Vec<u8>>)> {
    let names = names(folder).with_context(|| format!("reading {}", folder.display()))?;
    for name in &names {
        let name = name.to_string_lossy();
        if let Some(part) = name.strip_prefix(FAILED) {
            let reason = store::read(&folder.join(&*name)).unwrap_or_default();
            let reason = String::from_utf8_lossy(&reason);
            let part = if part == DAEMON_FOLDER {
                "the part with the daemon".to_owned()
            } else {
                format!("shard {part}")
            };
            return Ok((Some(format!("{part} failed: {reason}")), None));
        }
    }
    if !names.contains(OsStr::new(name)) {
        return Ok((None, None));
    }
    let path = folder.join(name);
    match store::read(&path) {
        Ok(content) => Ok((None, Some(content))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((None, None)),
        Err(error) => Err(anyhow!(error).context(format!("reading {}", path.display()))),
    }
}

fn missing_shards(folder: &Path, prefix: &str, of: u64) -> String {
    let names = names(folder).unwrap_or_default();
    let is_missing = |index: &u64| !names.contains(OsStr::new(&format!("{prefix}{index}")));
    let missing: Vec<u64> = (0..of).filter(is_missing).collect();
    match missing.as_slice() {
        [] => "shard 0 to set the start".to_owned(),
        missing => format!(
            "{} of {of} shards to be ready, {}",
            missing.len(),
            measure::units::ranges(missing)
        ),
    }
}

/// Returns the name of a shard's folder.
#[must_use]
pub fn shard_folder(index: u64) -> String {
    format!("{SHARD}{index}")
}

/// Returns true if the daemon of a run was launched by a part of its own.
pub(crate) fn has_daemon_part(folder: &Path) -> bool {
    folder.join(DAEMON).exists()
}

/// Returns the index in the name of a shard's folder.
pub(crate) fn shard_of_folder(name: &str) -> Option<u64> {
    name.strip_prefix(SHARD)?.parse().ok()
}

/// Writes a file that others wait for: completely, or not at all.
fn write(path: &Path, content: &impl Serialize) -> anyhow::Result<()> {
    store::write_whole(path, &serde_json::to_vec(content)?)
}

/// Returns true if a folder is on a local disk. Others may be network file systems.
fn is_local(folder: &Path) -> bool {
    let local = [
        BTRFS_SUPER_MAGIC,
        EXT4_SUPER_MAGIC,
        OVERLAYFS_SUPER_MAGIC,
        TMPFS_MAGIC,
        XFS_SUPER_MAGIC,
    ];
    statfs(folder).is_ok_and(|system| local.contains(&system.filesystem_type()))
}
