//! Defines the protocol code of a driver, and what it is given.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::reconciliation::Reconciliation;
use crate::redact;
use measure::metrics;
use measure::result::{Answer, AuditInputs, Lifetime, RunResult};
use measure::spec::Spec;
use measure::tally::{Series, Tally};
use measure::warning::Warning;
use nix::sys::eventfd::{EfdFlags, EventFd};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::clock;
use crate::opening_phase::WorkerOpening;
use crate::pacer::Pacer;
use crate::plan::{Invalid, Plan};
use crate::recorder::Recorder;
use crate::schedule::{Schedule, Share};
use crate::workers::WorkerRange;

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

    /// Takes the targets out of a plan: a result names them apart from its load.
    ///
    /// # Errors
    /// The plan names a daemon to launch, too.
    pub fn from_plan<C>(plan: &mut Plan<C>) -> Result<Option<Self>, Invalid> {
        let targets = std::mem::take(&mut plan.targets);
        if targets.is_empty() {
            return Ok(None);
        }
        if plan.daemon.is_some() {
            let problem = "are daemons that already run, and `daemon` is one to launch: leave one of both out";
            return Err(Invalid::new("targets", problem));
        }
        let address = |text: String| {
            if text.starts_with(['/', '.']) {
                Address::Socket(text.into())
            } else {
                Address::Url(text)
            }
        };
        let addresses = targets.into_iter().map(address).collect();
        Ok(Some(Self { addresses }))
    }

    /// Returns the targets as a plan names them, with the secrets in URLs.
    #[must_use]
    pub fn to_plan(&self) -> Vec<String> {
        let text = |address: &Address| match address {
            Address::Socket(path) => std::path::absolute(path)
                .as_ref()
                .unwrap_or(path)
                .display()
                .to_string(),
            Address::Url(url) => url.clone(),
        };
        self.addresses.iter().map(text).collect()
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
pub trait Driver: std::fmt::Debug + Sized + Send + Sync + 'static {
    /// The driver's names, series, errors and counters.
    const SPEC: &'static Spec;
    /// The driver's own settings.
    type Config: std::fmt::Debug
        + Clone
        + PartialEq
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static;
    /// The part of this driver in operations that begin in one process and end in another: `()` if it has none.
    type Shared: SharedOperations<Self>;

    /// Returns the specification of the runs of a plan: the driver's own, which may be followed by series that the plan
    /// names. Called once a run; it may leak the longer list.
    fn spec(_plan: &Plan<Self::Config>) -> &'static Spec {
        Self::SPEC
    }

    /// Checks the driver's own settings and the shape of the load, before anything starts, and describes the load.
    /// Foreign syntax, such as the thresholds of another tool, is first rewritten in the plan. A plan that has passed
    /// once passes again unchanged.
    ///
    /// # Errors
    /// The first field that can't be run, with the remedy.
    fn validate(plan: &mut Plan<Self::Config>) -> Result<Description, Invalid>;

    /// Builds everything that the hot loop sends. `workers` are the workers of this process: none if other processes
    /// have them.
    ///
    /// # Errors
    /// Something that can't be prepared, such as a file or an address.
    fn setup(
        plan: &Plan<Self::Config>,
        target: &Target,
        workers: &WorkerRange,
    ) -> anyhow::Result<Self>;

    /// Performs every operation once and verifies the answer, because a measurement of a wrong answer is worthless.
    ///
    /// # Errors
    /// An answer that is wrong.
    fn check(&self) -> anyhow::Result<Checked>;

    /// Takes over what the check has [learned](Checked::learned) in the process that started this one.
    ///
    /// # Errors
    /// A value that this driver has not written.
    fn learn(&self, _learned: serde_json::Value) -> anyhow::Result<()> {
        Ok(())
    }

    /// Returns the schedules of all groups for one share of the load: the plan's own, unless the driver has another source of
    /// due times. There is one for each group.
    fn schedules(&self, plan: &Plan<Self::Config>, share: Share) -> Vec<Schedule> {
        plan.schedules(share)
    }

    /// Returns whether the configured driver records `series`, so that its histogram (128 KiB per tally) is allocated
    /// up front. Other series still work, but allocate on first use, inside the hot loop.
    fn uses_series(&self, _series: Series) -> bool {
        true
    }

    /// Does one worker's share of the load, until its pacer is over and its operations have ended.
    fn work(&self, worker: Worker) -> impl Future<Output = anyhow::Result<()>>;

    /// Returns the line that users of this driver expect for each second, if any. It is printed even if there is no
    /// terminal: on stdout if the [summary](Self::SUMMARY_IS_READ) follows there, and otherwise on stderr.
    fn live_line(_second: &Tally, _total: &Tally) -> Option<String> {
        None
    }

    /// True if scripts read [`summary`](Self::summary) from stdout, so that it precedes the short report too, and the
    /// live lines precede it.
    const SUMMARY_IS_READ: bool = false;

    /// Returns the text that users of this driver expect on stdout at the end, before the whole report that all
    /// drivers share.
    fn summary(_result: &RunResult) -> Option<String> {
        None
    }

    /// Returns what the totals of a run show beyond what is examined for every driver.
    fn findings(_plan: &Plan<Self::Config>, _total: &Tally) -> Findings {
        Findings::default()
    }
}

/// Operations that may begin in one process and end in another, so that their outcomes are known only to all processes
/// together. Used only if the [operations are shared](Description::shares_operations).
pub trait SharedOperations<D: Driver> {
    /// Returns how many operations this process has begun and not ended, below 0 if it ends what others began; `None`
    /// while it may begin more.
    fn open(_driver: &D) -> Option<i64> {
        None
    }

    /// Handles what is known about the operations of all processes.
    fn progress(_driver: &D, _progress: SharedProgress) {}

    /// Returns the ledger of this process as one line of JSON, once its workers have ended: its part in shared
    /// operations.
    ///
    /// # Errors
    /// It cannot be written as JSON.
    fn ledger(_driver: &D) -> anyhow::Result<String> {
        Ok("{}".to_owned())
    }

    /// Cleans up after all processes of the run, once their workers have ended. Returns a line that is added to their
    /// ledgers, if there is something to tell.
    ///
    /// # Errors
    /// It cannot be written as JSON.
    fn clean_up(_driver: &D) -> anyhow::Result<Option<String>> {
        Ok(None)
    }

    /// Derives the outcomes from the ledgers of all processes, as corrections of the sum of what they have counted,
    /// `total`. If some ledgers are missing, `is_complete` is false.
    ///
    /// # Errors
    /// A ledger that cannot be read.
    fn reconcile(
        _plan: &Plan<D::Config>,
        _ledgers: &mut dyn Iterator<Item = anyhow::Result<String>>,
        _is_complete: bool,
        _total: &Tally,
    ) -> anyhow::Result<Reconciliation> {
        Ok(Reconciliation::new(&D::SPEC.series))
    }
}

impl<D: Driver> SharedOperations<D> for () {}

/// The description of a load, derived from a valid plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Description {
    /// The plan in one sentence.
    pub sentence: String,
    /// The series that counts from the intended start to the end of the operation: the response time.
    pub response: Series,
    /// The series that have all their values of an operation when it ends, so that a plan can set objectives on them.
    pub objective_series: Vec<Series>,
    /// True if a schedule alone determines when operations begin, so that due and ended operations can be compared.
    pub is_open_loop: bool,
    /// Expectations for the audit, as far as the plan determines them.
    pub audit_inputs: AuditInputs,
    /// The longest time that one operation may take. After an interruption, open operations get that time if it exceeds
    /// the plan's drain time.
    pub longest: Duration,
    /// The time limit for opening connections before the load begins, if the driver opens them in a phase of its own.
    /// Its workers report when theirs are open ([`Worker::opening`]), and the load begins when all have.
    pub opening: Option<Duration>,
    /// True if each worker uses a whole core on purpose, so that CPU use does not show how busy it is.
    pub busy_waits: bool,
    /// True if the daemon syncs what it is sent to a disk before it answers, so that other users of that disk delay it.
    pub writes_durably: bool,
    /// True if an operation may begin in one worker and end in another. If these are in different processes, outcomes
    /// are derived from the [ledgers](SharedOperations::ledger) of all. The last worker of the last shard must be one
    /// that ends operations, because it waits for the others.
    pub shares_operations: bool,
    /// The number of descriptors that the load keeps open at once: in the daemon, and in all processes of the driver
    /// together.
    pub max_open_fds: u64,
    /// The number of connections that the load certainly keeps open at once, in all daemons together. The run is
    /// refused if they may not open that many.
    pub open_at_once: u64,
    /// The line that users of this driver expect before the [live lines](Driver::live_line), if any.
    pub announcement: Option<String>,
}

impl Description {
    /// Describes a load as most drivers have it: an operation is open for as long as its response takes, the users of a
    /// closed loop are always busy, and every descriptor is a connection.
    #[must_use]
    pub fn new<C>(
        plan: &Plan<C>,
        spec: &Spec,
        sentence: String,
        response: Series,
        max_open_fds: u64,
    ) -> Self {
        let name = spec.series[response.0].name.as_ref();
        Self {
            sentence,
            response,
            objective_series: vec![response],
            is_open_loop: plan.is_open_loop(),
            audit_inputs: AuditInputs {
                lifetime: Some(Lifetime {
                    from_due: plan.is_paced(),
                    ..Lifetime::new(name)
                }),
                ..plan.audit_inputs()
            },
            longest: Duration::ZERO,
            opening: None,
            busy_waits: false,
            writes_durably: false,
            shares_operations: false,
            max_open_fds,
            open_at_once: max_open_fds,
            announcement: None,
        }
    }
}

/// A plan that its driver accepts, with the description of its load.
#[derive(Debug, Clone)]
pub struct ValidPlan<C> {
    /// The plan, with foreign syntax rewritten.
    pub plan: Plan<C>,
    /// Its description.
    pub description: Description,
    /// The specification of its runs.
    pub spec: &'static Spec,
}

impl<C> ValidPlan<C> {
    /// Checks a plan: what every driver requires, the driver's own settings, then the objectives and thresholds.
    ///
    /// # Errors
    /// The first field that can't be run, with the remedy.
    pub fn new<D: Driver<Config = C>>(mut plan: Plan<C>) -> Result<Self, Invalid> {
        plan.validate()?;
        let description = D::validate(&mut plan)?;
        let valid = Self::described::<D>(plan, description);
        let (plan, spec) = (&valid.plan, valid.spec);
        plan.objectives_on(spec, &valid.description.objective_series)?;
        if let Some(primary) = &plan.primary {
            let checked = metrics::check_primary(primary, spec);
            checked.map_err(|problem| Invalid::new("primary", problem))?;
        }
        Ok(valid)
    }

    /// Takes a plan that was checked in another process, with its description.
    #[must_use]
    pub fn described<D: Driver<Config = C>>(plan: Plan<C>, description: Description) -> Self {
        Self {
            spec: D::spec(&plan),
            plan,
            description,
        }
    }
}

/// The progress of operations that begin in one process and end in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SharedProgress {
    /// No process begins any more: the time for the end of operations runs from now.
    AllBegun,
    /// All operations have ended: nothing is left to wait for.
    AllEnded,
}

impl SharedProgress {
    /// Returns the progress, given the number of operations that all processes have begun and not ended, once none of
    /// them begins any more.
    #[must_use]
    pub fn of_open(open: i64) -> Self {
        if open > 0 {
            Self::AllBegun
        } else {
            Self::AllEnded
        }
    }
}

/// Findings of the check before a run.
#[derive(Debug, Clone, Default)]
pub struct Checked {
    /// The answer that the check got, if answers of several daemons can be compared.
    pub answer: Option<Answer>,
    /// State that workers in other processes [take over](Driver::learn).
    pub learned: serde_json::Value,
}

/// Findings of a driver in the totals of a run.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    /// Warnings beyond those that every driver has.
    pub warnings: Vec<Warning>,
    /// Permitted differences of the daemon's counts, by the driver's counter; for the others, none.
    pub bounds: BTreeMap<&'static str, Bounds>,
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
    /// Time after which an operation that is due is not started any more, nanoseconds; `u64::MAX` without a limit.
    pub deadline_ns: u64,
    /// The start of the run, Unix time in nanoseconds: the same in all processes of the run, on all machines.
    pub origin_unix_ns: u64,
    /// Its part in the opening of the run, if there is one.
    pub opening: WorkerOpening,
    /// Tells the worker to end early.
    pub cancellation: Arc<Cancellation>,
    /// Number of descriptors that it may open.
    pub descriptors: u64,
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
pub struct Cancellation {
    requested_at: AtomicU64,
    deadline: AtomicU64,
    waker: EventFd,
}

impl Cancellation {
    /// Creates a cancellation that has not been requested.
    ///
    /// # Errors
    /// The kernel's error, usually `EMFILE`.
    pub fn new() -> std::io::Result<Self> {
        let waker =
            EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Self {
            requested_at: AtomicU64::new(u64::MAX),
            deadline: AtomicU64::new(u64::MAX),
            waker,
        })
    }

    /// Requests the end: open operations may take `grace_ns` more.
    pub fn request(&self, grace_ns: u64) {
        let now = clock::now();
        self.requested_at.fetch_min(now, Ordering::Release);
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
    pub fn requested_at(&self) -> u64 {
        self.requested_at.load(Ordering::Acquire)
    }

    /// Returns when open operations are given up, if the end was requested.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        Some(self.deadline.load(Ordering::Acquire)).filter(|deadline| *deadline != u64::MAX)
    }

    /// Returns a descriptor that is readable once the end was requested.
    #[must_use]
    pub fn waker(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}
