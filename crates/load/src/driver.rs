//! Defines the protocol code of a driver, and what it is given.

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

/// The address of a daemon, or of several that share the load: operation k goes to the address with index k modulo
/// their number.
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

/// Shows the address without the password of a URL, so that it can be printed and stored.
impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => path.display().fmt(formatter),
            Self::Url(url) => formatter.write_str(&redact::uri(url)),
        }
    }
}

impl Target {
    /// Creates the target of one daemon with a Unix socket.
    #[must_use]
    pub fn at(socket: PathBuf) -> Self {
        Self {
            addresses: vec![Address::Socket(socket)],
        }
    }

    /// Creates the target of daemons with one URL each.
    #[must_use]
    pub fn of_urls(urls: Vec<String>) -> Self {
        Self {
            addresses: urls.into_iter().map(Address::Url).collect(),
        }
    }

    /// Returns the Unix sockets among the addresses.
    #[must_use]
    pub fn sockets(&self) -> Vec<PathBuf> {
        let socket = |address: &Address| match address {
            Address::Socket(path) => Some(path.clone()),
            Address::Url(_) => None,
        };
        self.addresses.iter().filter_map(socket).collect()
    }

    /// Returns the URLs among the addresses.
    pub fn urls(&self) -> impl Iterator<Item = &str> {
        self.addresses.iter().filter_map(|address| match address {
            Address::Url(url) => Some(url.as_str()),
            Address::Socket(_) => None,
        })
    }
}

/// Protocol code. It knows nothing of time, processes, files and reports.
pub trait Driver: Sized + Send + Sync + 'static {
    /// Name of the driver, which is that of its program.
    const NAME: &'static str;
    /// Name of the protocol in daemon manifests and plan folders.
    const PROTOCOL: &'static str;
    /// Measured series in the order of reports; a [`Series`] is an index into this list.
    const SERIES: &'static [&'static str];
    /// Counters that the daemon keeps as well, as pairs of its metric and our counter. The two are compared after a
    /// run.
    const AUDIT: &'static [(&'static str, &'static str)];
    /// Daemon metric for what is open, for `resources.csv`.
    const ACTIVE_METRIC: &'static str;
    /// Daemon metric for the most that was open at once, if it has one.
    const PEAK_METRIC: Option<&'static str> = None;
    /// Kinds of failures that the driver counts.
    const ERRORS: &'static [&'static str];
    /// Kinds of failures that a plan asks for: they are counted, and fail no run.
    const ASKED_FOR: &'static [&'static str];
    /// Kinds of failures that a fault in the plan causes: those in its seconds fail no run.
    const OF_A_FAULT: &'static [&'static str];
    /// Errors and counters that show that the driver itself had no descriptor or port left. They are not failures of
    /// the daemon, and make a result INVALID.
    const EXHAUSTED: &'static [&'static str] = &[];
    /// False if the workers keep joint accounts, so that they must share one process.
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

    /// Rewrites foreign syntax (e.g. k6 thresholds) into plan syntax. Called before validation.
    ///
    /// # Errors
    /// The first field that can't be rewritten, with the remedy.
    fn spell_out(_plan: &mut Plan<Self::Config>) -> Result<(), Invalid> {
        Ok(())
    }

    /// Describes the plan in one sentence.
    fn sentence(plan: &Plan<Self::Config>) -> String;

    /// Returns the series that counts from the intended start to the end of the operation: the response time.
    fn response(plan: &Plan<Self::Config>) -> Series;

    /// Returns whether the configured driver records `series`, so that its histogram (264 KiB per tally) is allocated
    /// up front. Other series still work, but allocate on first use, inside the hot loop.
    fn records(&self, _series: Series) -> bool {
        true
    }

    /// Returns true if a schedule alone determines when operations begin, so that the audit can compare due and ended
    /// operations.
    fn is_open_loop(plan: &Plan<Self::Config>) -> bool {
        plan.is_open_loop()
    }

    /// Returns what the audit compares the figures with, as far as the plan determines it. By default an operation is
    /// open for as long as its response takes, and the users of a closed loop are always busy.
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

    /// Returns the line that users of this driver expect on stderr for each second, if any. It is printed even if
    /// stderr is not a terminal.
    fn line(_second: &Tally, _total: &Tally) -> Option<String> {
        None
    }

    /// Returns the text that users of this driver expect on stdout at the end, before the report that all drivers
    /// share.
    fn summary(_result: &RunResult) -> Option<String> {
        None
    }

    /// Returns driver-specific warnings derived from the totals.
    fn doubts(_plan: &Plan<Self::Config>, _total: &Tally) -> Vec<Warning> {
        Vec::new()
    }

    /// Returns how the daemon's count may legitimately differ from the driver's counter `name` of [`Self::AUDIT`].
    fn bounds(_name: &str, _plan: &Plan<Self::Config>, _total: &Tally) -> Bounds {
        Bounds::default()
    }

    /// Returns the longest time that one operation may take. After an interruption, open operations get that time if
    /// it exceeds the plan's drain time.
    fn longest(_plan: &Plan<Self::Config>) -> Duration {
        Duration::ZERO
    }

    /// Returns true if each worker uses a whole core on purpose, so that CPU use does not show how busy it is.
    fn spins(_plan: &Plan<Self::Config>) -> bool {
        false
    }

    /// Returns the time limit for opening connections before the load begins, if the driver opens them in a phase of
    /// its own. Its workers report when theirs are open ([`Worker::opening`]), and the load begins when all have.
    fn opening(_plan: &Plan<Self::Config>) -> Option<Duration> {
        None
    }

    /// Returns the number of descriptors that the load keeps open at once: in the daemon, and in all processes of the
    /// driver together.
    fn descriptors(plan: &Plan<Self::Config>) -> u64;

    /// Returns the number of connections that the load certainly keeps open at once, in all daemons together. The run
    /// is refused if they may not open that many.
    fn open_at_once(plan: &Plan<Self::Config>) -> u64 {
        Self::descriptors(plan)
    }

    /// Builds everything that the hot loop sends.
    ///
    /// # Errors
    /// Something that can't be prepared, such as a file or an address.
    fn setup(plan: &Plan<Self::Config>, target: &Target) -> anyhow::Result<Self>;

    /// Performs every operation once and verifies the answer, because a measurement of a wrong answer is worthless.
    ///
    /// # Errors
    /// An answer that is wrong.
    fn check(&self) -> anyhow::Result<()>;

    /// Returns what the check has learned, for workers in other processes.
    fn learned(&self) -> serde_json::Value {
        serde_json::Value::Null
    }

    /// Takes over what the check has learned in the process that started this one.
    ///
    /// # Errors
    /// A value that this driver has not written.
    fn learn(&self, _learned: serde_json::Value) -> anyhow::Result<()> {
        Ok(())
    }

    /// Returns the answer that the check got, if answers of several daemons can be compared.
    fn answer(&self) -> Option<Answer> {
        None
    }

    /// Returns the process id of a daemon that was not launched for the run, learned by the check, so that its
    /// resources can be sampled.
    fn daemon_pid(&self) -> Option<u32> {
        None
    }

    /// Does one worker's share of the load, until its pacer is over and its operations have ended.
    fn work(&self, worker: Worker) -> impl Future<Output = anyhow::Result<()>>;
}

/// Permitted differences of the daemon's count from the driver's; by default none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The daemon may have counted less: not all that was sent reached it.
    pub daemon_less: bool,
    /// The daemon may have counted more: not all that it sent was read.
    pub daemon_more: bool,
}

/// A share of the simulated clients, on a thread of its own.
///
/// A driver whose clients need a task each spawns them on the worker's current-thread runtime; one that holds many
/// connections serves them all in one loop.
#[derive(Debug)]
pub struct Worker {
    /// Its index among all workers, and their number.
    pub share: Share,
    /// Determines when the next operation starts, and when the load is over.
    pub pacer: Pacer,
    /// Records its measurements.
    pub record: Recorder,
    /// The phases, in nanoseconds of CLOCK_MONOTONIC.
    pub phases: Phases,
    /// Its part in the opening of the run, if there is one.
    pub opening: WorkerOpening,
    /// Tells the worker to end early.
    pub stop: Arc<Stop>,
    /// Number of descriptors that it may open.
    pub descriptors: u64,
}

impl Worker {
    /// Takes over the start of the load if it was brought forward. Returns true if the phases have changed.
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
    /// Start of the run: its seconds count from here.
    pub origin: u64,
    /// Start of the load, at which the first operation may be due; after the opening, if there is one.
    pub begin: u64,
    /// Time from which starts count.
    pub measure: u64,
    /// Time from which nothing starts any more.
    pub end: u64,
    /// Time at which operations that are still open are given up.
    pub drained: u64,
}

impl Phases {
    /// Returns the phases of a timeline that begins at `origin`.
    #[must_use]
    pub fn new(timeline: crate::plan::Timeline, origin: u64) -> Self {
        Self::after_opening(timeline, origin, Duration::ZERO)
    }

    /// Returns the phases of a timeline whose load begins when the time for an `opening` has passed since `origin`.
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

    /// Returns the same phases with a load that begins at another time.
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

    /// Moves the load of a worker to another start. A worker whose load has already begun keeps its phases.
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

    /// Returns when open operations are given up: at the end of the drain phase, which lasts longer if starts were
    /// late, or earlier if a stop asked for that.
    #[must_use]
    pub fn deadline(&self, pacer: &Pacer, stop: &Stop) -> u64 {
        let drained = self.drained.saturating_add(pacer.overrun());
        let asked = stop.deadline();
        asked.map_or(drained, |asked| asked.min(drained))
    }

    /// Returns true if an operation that counts from `at` is measured. There is no upper bound: a pacer starts only
    /// operations that were due before the end, and late starts are measured like those in time.
    #[must_use]
    pub fn counts(&self, at: u64) -> bool {
        at >= self.measure
    }

    /// Returns true from the beginning of the measurement to its end, for events that no start of this driver causes.
    #[must_use]
    pub fn is_measuring(&self, now: u64) -> bool {
        (self.measure..self.end).contains(&now)
    }
}

/// A request to the workers of a run to end early: nothing starts any more, and open operations are given up at a
/// deadline.
#[derive(Debug)]
pub struct Stop {
    asked_at: AtomicU64,
    deadline: AtomicU64,
    waker: EventFd,
}

impl Stop {
    /// Creates a stop that has not been requested.
    ///
    /// # Errors
    /// The kernel's error, usually `EMFILE`.
    pub fn new() -> std::io::Result<Self> {
        let waker =
            EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Self {
            asked_at: AtomicU64::new(u64::MAX),
            deadline: AtomicU64::new(u64::MAX),
            waker,
        })
    }

    /// Requests the stop: open operations may take `grace_ns` more.
    pub fn ask(&self, grace_ns: u64) {
        let now = clock::now();
        self.asked_at.fetch_min(now, Ordering::Release);
        self.deadline.fetch_min(now + grace_ns, Ordering::Release);
        self.wake();
    }

    /// Wakes the workers, so that they check what has changed.
    pub fn wake(&self) {
        // A full counter is as readable as any other.
        let _ = self.waker.write(1);
    }

    /// Returns the time of the first request, nanoseconds of CLOCK_MONOTONIC, or `u64::MAX` without one.
    #[must_use]
    pub fn asked_at(&self) -> u64 {
        self.asked_at.load(Ordering::Acquire)
    }

    /// Returns when open operations are given up, if a stop was requested.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        Some(self.deadline.load(Ordering::Acquire)).filter(|deadline| *deadline != u64::MAX)
    }

    /// Returns a descriptor that is readable once a stop was requested.
    #[must_use]
    pub fn waker(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}
