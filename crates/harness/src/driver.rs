//! Protocol code, and what it is given.

use std::fmt;
use std::future::Future;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use measure::audit::{Facts, Lifetime};
use measure::result::{Answer, RunResult};
use measure::tally::{Series, Tally};
use measure::warning::Warning;
use nix::sys::eventfd::{EfdFlags, EventFd};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::clock;
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

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => path.display().fmt(formatter),
            Self::Url(url) => formatter.write_str(url),
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
    /// The kinds of failures that it counts.
    const ERRORS: &'static [&'static str];
    /// Failures that a plan asks for: they are counted as such and fail no run.
    const ASKED_FOR: &'static [&'static str];
    /// Failures that a plan asks for with a fault: those of its seconds fail no run.
    const OF_A_FAULT: &'static [&'static str];
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

    /// Whether its workers take a whole core each on purpose, so that this says nothing of how busy they are.
    fn spins(_plan: &Plan<Self::Config>) -> bool {
        false
    }

    /// Descriptors that the load itself keeps open at once: in the daemon, and in the processes of the driver together.
    fn descriptors(plan: &Plan<Self::Config>) -> u64;

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
    /// Asks it to end early.
    pub stop: Arc<Stop>,
    /// Descriptors that it may open.
    pub descriptors: u64,
}

/// The phases of a run, in nanoseconds of CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phases {
    /// When the first operation is due.
    pub origin: u64,
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
        let measure = origin + timeline.warmup.as_nanos() as u64;
        let end = measure + timeline.measure.as_nanos() as u64;
        Self {
            origin,
            measure,
            end,
            drained: end + timeline.drain.as_nanos() as u64,
        }
    }

    /// Whether an operation that starts at `at` counts.
    #[must_use]
    pub fn counts(&self, at: u64) -> bool {
        (self.measure..self.end).contains(&at)
    }
}

/// Asks the workers of a run to end early: nothing starts any more, and what is open is given up at a deadline.
#[derive(Debug)]
pub struct Stop {
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
            deadline: AtomicU64::new(u64::MAX),
            waker,
        })
    }

    /// Asks: what is open may take `grace_ns` more.
    pub fn ask(&self, grace_ns: u64) {
        self.deadline
            .fetch_min(clock::now() + grace_ns, Ordering::Release);
        // A full counter is as readable as any other.
        let _ = self.waker.write(1);
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
