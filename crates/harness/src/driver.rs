//! Protocol code, and what it is given.

use std::fmt;
use std::future::Future;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use measure::audit::{Facts, Lifetime};
use measure::redact;
use measure::result::{Answer, RunResult};
use measure::tally::{Series, Tally};
use measure::warning::Warning;
use nix::sys::eventfd::{EfdFlags, EventFd};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::clock;
use crate::opening::WorkerOpening;
use crate::pacer::Pacer;
use crate::plan::{Invalid, Plan};
use crate::recorder::Recorder;
use crate::schedule::Share;

/// Where a daemon can be reached, or several that share the load: operation k goes to the one at place k modulo their
/// number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The address of each, at least one.
    pub addresses: Vec<Address>,
}

/// The address of one daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Address {
    /// The path of a Unix socket.
    Socket(PathBuf),
    /// A URL of the driver's protocol.
    Url(String),
}

/// Without the password of a URL: to be shown and stored.
impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => path.display().fmt(formatter),
            Self::Url(url) => formatter.write_str(&redact::uri(url)),
        }
    }
}

impl Target {
    /// One daemon with a Unix socket.
    #[must_use]
    pub fn at(socket: PathBuf) -> Self {
        Self {
            addresses: vec![Address::Socket(socket)],
        }
    }

    /// Daemons with a URL each.
    #[must_use]
    pub fn of_urls(urls: Vec<String>) -> Self {
        Self {
            addresses: urls.into_iter().map(Address::Url).collect(),
        }
    }

    /// The Unix sockets among the addresses.
    #[must_use]
    pub fn sockets(&self) -> Vec<PathBuf> {
        let socket = |address: &Address| match address {
            Address::Socket(path) => Some(path.clone()),
            Address::Url(_) => None,
        };
        self.addresses.iter().filter_map(socket).collect()
    }

    /// The URLs among the addresses.
    pub fn urls(&self) -> impl Iterator<Item = &str> {
        self.addresses.iter().filter_map(|address| match address {
            Address::Url(url) => Some(url.as_str()),
            Address::Socket(_) => None,
        })
    }
}

/// Speaks one protocol. Knows nothing of time, processes, files and reports.
pub trait Driver: Sized + Send + Sync + 'static {
    /// The driver's name: that of its program.
    const NAME: &'static str;
    /// The protocol, as the manifests of daemons and the folders of plans call it.
    const PROTOCOL: &'static str;
    /// The measured series, in the order of reports; a [`Series`] is a place in this list.
    const SERIES: &'static [&'static str];
    /// Counts that the daemon keeps as well: its metric, our count. After a run the two are compared.
    const AUDIT: &'static [(&'static str, &'static str)];
    /// The daemon's metric of what is open, for `resources.csv`.
    const ACTIVE_METRIC: &'static str;
    /// The daemon's metric of the most that was open at once, where it has one.
    const PEAK_METRIC: Option<&'static str> = None;
    /// The kinds of failures that it counts.
    const ERRORS: &'static [&'static str];
    /// Failures that a plan asks for: they are counted as such and fail no run.
    const ASKED_FOR: &'static [&'static str];
    /// Failures that a plan asks for with a fault: those of its seconds fail no run.
    const OF_A_FAULT: &'static [&'static str];
    /// Errors, and counts, that say that the driver itself had no descriptor or port left: they are no failures of the
    /// daemon and make a result INVALID.
    const EXHAUSTED: &'static [&'static str] = &[];
    /// Whether its workers may be spread over several processes: not where they account for something together.
    const SHARDS: bool = true;
    /// The driver's own settings.
    type Config: std::fmt::Debug
        + Clone
        + PartialEq
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static;

    /// Checks the driver's own settings and the shape of the load, before anything starts.
    ///
    /// # Errors
    /// The first field that can't be run, with the remedy.
    fn validate(plan: &Plan<Self::Config>) -> Result<(), Invalid>;

    /// Takes what its users write in another way than plans have it, such as the thresholds of another tool; before
    /// anything is validated.
    ///
    /// # Errors
    /// The first field that can't be taken, with the remedy.
    fn spell_out(_plan: &mut Plan<Self::Config>) -> Result<(), Invalid> {
        Ok(())
    }

    /// The plan as a sentence.
    fn sentence(plan: &Plan<Self::Config>) -> String;

    /// The series that counts from the intended start and ends with the operation: the response time.
    fn response(plan: &Plan<Self::Config>) -> Series;

    /// Whether it will record a series, now that it is set up: those have their memory, 264 KiB in each tally, before the
    /// load begins. Any other takes values too, of which the first pays for that memory in the loop that measures.
    fn records(&self, _series: Series) -> bool {
        true
    }

    /// Returns true where a schedule alone says when operations begin, so that what was due can be held against what ended.
    fn is_open_loop(plan: &Plan<Self::Config>) -> bool {
        plan.is_open_loop()
    }

    /// What the audit holds the figures against, as far as the plan says it. By default an operation is open for as long
    /// as its response takes, and the users of a closed loop are busy all the time.
    fn facts(plan: &Plan<Self::Config>) -> Facts {
        let response = Self::SERIES[Self::response(plan).0];
        Facts {
            lifetime: Some(Lifetime {
                series: vec![response.to_owned()],
                from_due: plan.is_paced(),
                counted_late_ns: 0,
            }),
            ..plan.facts()
        }
    }

    /// What its users expect to read on stderr for each second, if anything; off a terminal too.
    fn line(_second: &Tally, _total: &Tally) -> Option<String> {
        None
    }

    /// What its users expect to read on stdout at the end, before the report that all drivers share.
    fn summary(_result: &RunResult) -> Option<String> {
        None
    }

    /// What speaks against the daemon or the figures beyond what is asked of every driver, from what was counted.
    fn doubts(_plan: &Plan<Self::Config>, _total: &Tally) -> Vec<Warning> {
        Vec::new()
    }

    /// Returns how far the daemon's count may rightly be another than the driver's count `name` of [`Self::AUDIT`].
    fn bounds(_name: &str, _plan: &Plan<Self::Config>, _total: &Tally) -> Bounds {
        Bounds::default()
    }

    /// Returns how long one operation may take: what is open after an interruption has that long, where it is more than
    /// the plan's time to drain.
    fn longest(_plan: &Plan<Self::Config>) -> Duration {
        Duration::ZERO
    }

    /// Whether its workers take a whole core each on purpose, so that this says nothing of how busy they are.
    fn spins(_plan: &Plan<Self::Config>) -> bool {
        false
    }

    /// Returns the longest time that connections may be opened before the load begins, where the driver opens them as a
    /// phase of its own: its workers say when theirs are open ([`Worker::opening`]), and the load begins when all have.
    fn opening(_plan: &Plan<Self::Config>) -> Option<Duration> {
        None
    }

    /// Descriptors that the load itself keeps open at once: in the daemon, and in the processes of the driver together.
    fn descriptors(plan: &Plan<Self::Config>) -> u64;

    /// Returns how many connections the load has open at once for certain, in the daemons together: what is refused where
    /// they may not open as many.
    fn open_at_once(plan: &Plan<Self::Config>) -> u64 {
        Self::descriptors(plan)
    }

    /// Builds everything that the hot loop sends.
    ///
    /// # Errors
    /// What can't be prepared: a file, an address.
    fn setup(plan: &Plan<Self::Config>, target: &Target) -> anyhow::Result<Self>;

    /// Performs every operation once and verifies the answer: a measurement of a wrong answer is worth nothing.
    ///
    /// # Errors
    /// What was wrong with the answer.
    fn check(&self) -> anyhow::Result<()>;

    /// Returns what the check has learned that workers need, for those in processes of their own.
    fn learned(&self) -> serde_json::Value {
        serde_json::Value::Null
    }

    /// Takes what the check has learned in the process that started this one.
    ///
    /// # Errors
    /// Something that this driver has not written.
    fn learn(&self, _learned: serde_json::Value) -> anyhow::Result<()> {
        Ok(())
    }

    /// What the check was answered, where answers of several daemons can be held against each other.
    fn answer(&self) -> Option<Answer> {
        None
    }

    /// The process of a daemon that was not launched for the run, learned by the check, so that its cost can be sampled.
    fn daemon_pid(&self) -> Option<u32> {
        None
    }

    /// Does one worker's share of the load, until its pacer is over and what it began has ended.
    fn work(&self, worker: Worker) -> impl Future<Output = anyhow::Result<()>>;
}

/// How far the daemon's count of something may rightly be another than the driver's; by default not at all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The daemon may have counted less: not all that was sent reached it.
    pub daemon_less: bool,
    /// The daemon may have counted more: not all that it sent was read.
    pub daemon_more: bool,
}

/// One worker: a share of the simulated clients, on a thread of its own.
///
/// A driver whose clients need a task each spawns them on the worker's current-thread runtime; one that holds many
/// connections serves them all in one loop.
#[derive(Debug)]
pub struct Worker {
    /// Its place among all workers, and their number.
    pub share: Share,
    /// Says when the next operation starts, and when it is over.
    pub pacer: Pacer,
    /// Where it writes.
    pub record: Recorder,
    /// The phases, in nanoseconds of CLOCK_MONOTONIC.
    pub phases: Phases,
    /// Its part in the opening of the run, where there is one.
    pub opening: WorkerOpening,
    /// Asks it to end early.
    pub stop: Arc<Stop>,
    /// Descriptors that it may open.
    pub descriptors: u64,
}

impl Worker {
    /// Takes over the instant at which the load begins, where that was brought forward. Returns true if the phases have
    /// changed.
    pub fn follow_opening(&mut self) -> bool {
        let Some(begin) = self.opening.brought_forward() else {
            return false;
        };
        self.phases = self.phases.begin_at(begin, &mut self.pacer, &self.record);
        true
    }
}

/// The phases of a run, in nanoseconds of CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phases {
    /// When the run begins: its seconds count from here.
    pub origin: u64,
    /// When the load begins, of which the first operation may be due: after the opening, where there is one.
    pub begin: u64,
    /// From when starts count.
    pub measure: u64,
    /// When nothing starts any more.
    pub end: u64,
    /// When what is still open is given up.
    pub drained: u64,
}

impl Phases {
    /// The phases of a timeline that begins at `origin`.
    #[must_use]
    pub fn of(timeline: crate::plan::Timeline, origin: u64) -> Self {
        Self::after_opening(timeline, origin, Duration::ZERO)
    }

    /// The phases of a timeline whose load begins when the time for an `opening` has passed since `origin`.
    #[must_use]
    pub fn after_opening(timeline: crate::plan::Timeline, origin: u64, opening: Duration) -> Self {
        let begin = origin + opening.as_nanos() as u64;
        let measure = begin + timeline.warmup.as_nanos() as u64;
        let end = measure + timeline.measure.as_nanos() as u64;
        Self {
            origin,
            begin,
            measure,
            end,
            drained: end + timeline.drain.as_nanos() as u64,
        }
    }

    /// The same phases with a load that begins at another time.
    #[must_use]
    pub fn with_begin(self, begin: u64) -> Self {
        let moved = |at: u64| begin + (at - self.begin);
        Self {
            origin: self.origin,
            begin,
            measure: moved(self.measure),
            end: moved(self.end),
            drained: moved(self.drained),
        }
    }

    /// Has the load of a worker begin at another time. A worker whose load has begun by itself keeps its phases.
    #[must_use]
    pub fn begin_at(self, begin: u64, pacer: &mut Pacer, record: &Recorder) -> Self {
        if pacer.started() > 0 {
            return self;
        }
        let phases = self.with_begin(begin);
        pacer.move_to(begin, phases.end);
        record.move_to(phases);
        phases
    }

    /// Returns when what is open is given up: at the end of the drain phase, which lasts longer where starts were late, or
    /// earlier where that was asked.
    #[must_use]
    pub fn deadline(&self, pacer: &Pacer, stop: &Stop) -> u64 {
        let drained = self.drained.saturating_add(pacer.overrun());
        let asked = stop.deadline();
        asked.map_or(drained, |asked| asked.min(drained))
    }

    /// Returns true if an operation that counts from `at` is measured. There is no upper bound: what a pacer starts was
    /// due before the end, and what of it starts late is measured as what starts in time.
    #[must_use]
    pub fn counts(&self, at: u64) -> bool {
        at >= self.measure
    }

    /// Returns true from the beginning of the measurement to its end, for what happens without a start of this driver.
    #[must_use]
    pub fn is_measuring(&self, now: u64) -> bool {
        (self.measure..self.end).contains(&now)
    }
}

/// Asks the workers of a run to end early: nothing starts any more, and what is open is given up at a deadline.
#[derive(Debug)]
pub struct Stop {
    asked_at: AtomicU64,
    deadline: AtomicU64,
    waker: EventFd,
}

impl Stop {
    /// Nothing asked yet.
    ///
    /// # Errors
    /// What the kernel answers, usually `EMFILE`.
    pub fn new() -> std::io::Result<Self> {
        let waker =
            EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Self {
            asked_at: AtomicU64::new(u64::MAX),
            deadline: AtomicU64::new(u64::MAX),
            waker,
        })
    }

    /// Asks: what is open may take `grace_ns` more.
    pub fn ask(&self, grace_ns: u64) {
        let now = clock::now();
        self.asked_at.fetch_min(now, Ordering::Release);
        self.deadline.fetch_min(now + grace_ns, Ordering::Release);
        self.wake();
    }

    /// Has the workers look for what has changed.
    pub fn wake(&self) {
        // A full counter is as readable as any other.
        let _ = self.waker.write(1);
    }

    /// Returns when it was first asked, nanoseconds of CLOCK_MONOTONIC; `u64::MAX` before.
    #[must_use]
    pub fn asked_at(&self) -> u64 {
        self.asked_at.load(Ordering::Acquire)
    }

    /// When what is open is given up, if it was asked for.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        Some(self.deadline.load(Ordering::Acquire)).filter(|deadline| *deadline != u64::MAX)
    }

    /// Readable once it was asked.
    #[must_use]
    pub fn waker(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}
