//! The workers of one process: threads that report [`WorkerSecond`]s and obey [`Order`]s.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, mpsc};

use anyhow::Context as _;
use measure::tally::Tally;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedSender;

use crate::driver::{
    Cancellation, Driver, Phases, SharedOperations as _, SharedProgress, ValidPlan, Worker,
};
use crate::limits;
use crate::opening_phase::{OpeningPhase, WorkerOpening};
use crate::pacer::Pacer;
use crate::recorder::{self, Recorder, WorkerSecond};
use crate::schedule::Share;

/// The workers of one process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkerRange {
    /// Index of the first worker among all workers.
    pub first: u64,
    /// Number of workers in this process.
    pub count: u64,
    /// Number of workers in all processes.
    pub total: u64,
    /// The part of the whole load that these workers have together: all of it, unless the run is divided over several
    /// programs.
    pub shard: Share,
}

impl WorkerRange {
    /// All workers of a run, in one process.
    #[must_use]
    pub const fn all(workers: u64) -> Self {
        Self {
            first: 0,
            count: workers,
            total: workers,
            shard: Share::ALL,
        }
    }

    /// Returns true if these are all workers of the run.
    #[must_use]
    pub const fn is_all(&self) -> bool {
        self.count == self.total && self.shard.of == 1
    }
}

/// An order to running workers.
#[derive(Debug, Clone, Copy)]
pub enum Order {
    /// Begin the load at this time, nanoseconds of CLOCK_MONOTONIC: all connections are open.
    BeginLoad(u64),
    /// Start nothing more; open operations may take this long, nanoseconds.
    Stop(u64),
    /// Take note of the progress of operations that begin in one process and end in another.
    Progress(SharedProgress),
}

/// The part of this process in operations that begin in one process and end in another.
trait Account: std::fmt::Debug + Send + Sync {
    fn open(&self) -> Option<i64>;
    fn progress(&self, progress: SharedProgress);
    fn ledger(&self) -> anyhow::Result<String>;
}

impl<D: Driver> Account for Arc<D> {
    fn open(&self) -> Option<i64> {
        D::Shared::open(self)
    }

    fn progress(&self, progress: SharedProgress) {
        D::Shared::progress(self, progress);
    }

    fn ledger(&self) -> anyhow::Result<String> {
        D::Shared::ledger(self)
    }
}

/// The worker threads of this process, with a channel to return tallies to each.
#[derive(Debug)]
pub struct Threads {
    range: WorkerRange,
    clean: Vec<mpsc::Sender<Tally>>,
    cancellation: Arc<Cancellation>,
    opening: Option<Arc<OpeningPhase>>,
    account: Box<dyn Account>,
}

impl Threads {
    /// Starts the workers of this process, in phases whose origin is also given as Unix time. Each reports to
    /// `worker_seconds` until its last report says that it has ended.
    ///
    /// # Errors
    /// A thread that can't be started.
    pub fn start<D: Driver>(
        driver: &Arc<D>,
        load: &ValidPlan<D::Config>,
        range: WorkerRange,
        (phases, origin_unix_ns): (Phases, u64),
        opening: Option<&Arc<OpeningPhase>>,
        cancellation: &Arc<Cancellation>,
        worker_seconds: &UnboundedSender<WorkerSecond>,
    ) -> anyhow::Result<Self> {
        limits::preallocate_fd_table();
        let descriptors = limits::nofile()?.soft / range.count.max(1);
        let objectives = load.plan.objectives(load.spec)?;
        let mut clean = Vec::new();
        for worker in range.first..range.first + range.count {
            let (give, take) = mpsc::channel();
            // One tally is written while the other is read: the first seconds allocate nothing.
            let first = recorder::empty_tally(driver.as_ref(), load.spec);
            give.send(recorder::empty_tally(driver.as_ref(), load.spec))
                .expect("the receiver is in hand");
            clean.push(give);
            let share = range.shard.within(Share {
                index: worker,
                of: range.total,
            });
            let pacer = Pacer::new(
                phases.begin,
                phases.end,
                driver.schedules(&load.plan, share),
            );
            let response = load.description.response;
            let objectives = objectives.clone();
            let deadline = load.plan.deadline.map(|deadline| deadline.as_nanos());
            let deadline_ns = deadline.map_or(u64::MAX, |deadline| deadline as u64);
            let (driver, cancellation, worker_seconds) = (
                Arc::clone(driver),
                Arc::clone(cancellation),
                worker_seconds.clone(),
            );
            let opening = WorkerOpening::new(opening.cloned());
            std::thread::Builder::new()
                .name(format!("worker-{worker}"))
                .spawn(move || {
                    let counters = &D::SPEC.counters;
                    let record =
                        Recorder::new(worker, phases.origin, first, counters, worker_seconds, take)
                            .measuring(phases, &cancellation, response)
                            .with_objectives(&objectives);
                    let worker = Worker {
                        share,
                        pacer,
                        record: record.clone(),
                        phases,
                        deadline_ns,
                        origin_unix_ns,
                        opening,
                        cancellation,
                        descriptors,
                    };
                    record.finish(run_worker(driver.as_ref(), worker));
                })
                .context("starting a worker thread")?;
        }
        Ok(Self {
            range,
            clean,
            cancellation: Arc::clone(cancellation),
            opening: opening.cloned(),
            account: Box::new(Arc::clone(driver)),
        })
    }

    /// Tells an order to all workers.
    pub fn obey(&self, order: Order) {
        match order {
            Order::BeginLoad(begin) => {
                if let Some(opening) = &self.opening {
                    opening.begin_at(begin);
                }
            }
            Order::Stop(grace_ns) => self.cancellation.request(grace_ns),
            Order::Progress(progress) => self.account.progress(progress),
        }
        self.cancellation.wake();
    }

    /// Returns how many operations the workers have begun and not ended; `None` while one may begin more.
    #[must_use]
    pub fn open_operations(&self) -> Option<i64> {
        self.account.open()
    }

    /// Returns the ledger of this process, once its workers have ended.
    ///
    /// # Errors
    /// It cannot be written as JSON.
    pub fn ledger(&self) -> anyhow::Result<String> {
        self.account.ledger()
    }

    /// Returns a tally to its worker after it was read.
    pub fn give_back(&self, worker: u64, mut tally: Tally) {
        tally.clear();
        if let Some(clean) = self.clean.get((worker - self.range.first) as usize) {
            // A worker that has ended needs no tally.
            let _ = clean.send(tally);
        }
    }
}

/// Runs one worker on a current-thread runtime. A panic becomes an error of this worker alone.
fn run_worker<D: Driver>(driver: &D, worker: Worker) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let work = AssertUnwindSafe(|| {
        runtime.block_on(tokio::task::LocalSet::new().run_until(driver.work(worker)))
    });
    match std::panic::catch_unwind(work) {
        Ok(done) => done.map_err(|error| format!("{error:#}")),
        Err(panic) => {
            let text = panic
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned());
            Err(format!(
                "panicked: {}",
                text.unwrap_or_else(|| "without a message".to_owned())
            ))
        }
    }
}
