//! The running share of a program: its workers, and what it agrees on with the other programs of the run.

use std::sync::Arc;
use std::time::Duration;

use measure::result::OpeningTime;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;

use super::Settings;
use super::shared_operations::SharedOperations;
use crate::divided::{DividedRun, Start, Waiting};
use crate::part::Part;
use crate::processes::Processes;
use load::clock;
use load::driver::{Cancellation, Driver, Phases, ValidPlan};
use load::opening_phase::OpeningPhase;
use load::recorder::WorkerSecond;
use load::workers::{Order, Threads};
use measure::tally::Tally;

/// The running share of a program.
#[derive(Debug)]
pub(crate) struct RunningShare {
    pub(super) phases: Phases,
    opening: Opening,
    pub(super) cancellation: Arc<Cancellation>,
    worker_seconds: UnboundedReceiver<WorkerSecond>,
    workers: Workers,
    /// The instant that seconds count from.
    pub(super) start: Start,
    /// Time from the start until all workers were running, nanoseconds.
    pub(super) late_ns: u64,
    /// Operations that begin in one process and end in another, if there are any.
    shared: Option<SharedOperations>,
}

/// The workers of a program. All report the same [`WorkerSecond`]s and obey the same [`Order`]s.
#[derive(Debug)]
enum Workers {
    /// Threads of this process.
    Threads(Threads),
    /// Threads of processes that this one has started.
    Processes(Processes),
    /// None: this program has the daemon of a divided run. The task ends with the load of the shards, and says what it
    /// waits for.
    Elsewhere(JoinHandle<()>, UnboundedReceiver<Waiting>),
}

/// The opening of connections before the load.
#[derive(Debug)]
enum Opening {
    /// Nothing is opened before the load.
    Absent,
    /// The task ends once all connections are open, with the begin of the load, if the programs agree on one.
    Pending(Arc<OpeningPhase>, JoinHandle<Option<u64>>),
    /// The begin of the load is known.
    Over(Arc<OpeningPhase>),
}

/// An event in the life of a share.
#[derive(Debug)]
pub(crate) enum Event {
    /// A worker reports.
    WorkerSecond(Box<WorkerSecond>),
    /// All connections are open, and the load begins at this instant, if the programs agree on one.
    Opened(Option<u64>),
    /// The next look at operations that begin in one process and end in another.
    Look,
    /// The load of the other programs goes on; this one has the daemon.
    Waiting(Waiting),
    /// The load of the other programs has ended.
    Ended,
}

impl RunningShare {
    /// Starts the workers of this program at the common start of the run: threads, unless it has `processes`.
    ///
    /// # Errors
    /// The programs do not begin together, or a worker cannot be started.
    pub(crate) async fn start<D: Driver>(
        driver: &Arc<D>,
        load: &ValidPlan<D::Config>,
        settings: &Settings,
        processes: Option<Processes>,
        host: &str,
    ) -> anyhow::Result<Self> {
        let (send, worker_seconds) = tokio::sync::mpsc::unbounded_channel();
        let cancellation = Arc::new(Cancellation::new()?);
        let (count, here) = (settings.workers(), settings.workers_here());
        let shared = (settings.is_spread() && load.description.shares_operations)
            .then(|| SharedOperations::new(settings.part.clone()));
        let limit = load.description.opening;
        let opening = limit.map(|_| Arc::new(OpeningPhase::new(count)));
        let start = settings.part.start(host).await?;
        let phases =
            Phases::after_opening(load.plan.timeline, start.origin, limit.unwrap_or_default());
        let workers = match (processes, &settings.part) {
            (Some(mut processes), _) => {
                let (series, opening) = (&load.spec.series, opening.as_ref());
                processes.go(start, series, opening, &send).await?;
                Workers::Processes(processes)
            }
            (None, Part::Divided(divided)) if count == 0 => {
                Workers::elsewhere(divided, &start, &phases)
            }
            (None, _) => {
                let (times, opening) = ((phases, start.unix_ns), opening.as_ref());
                let threads =
                    Threads::start(driver, load, here, times, opening, &cancellation, &send)?;
                Workers::Threads(threads)
            }
        };
        let late_ns = clock::now().saturating_sub(start.origin);
        let opening = Opening::watch(opening, settings.part.clone(), start, host);
        Ok(Self {
            phases,
            opening,
            cancellation,
            worker_seconds,
            workers,
            start,
            late_ns,
            shared,
        })
    }

    /// Returns the next event. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Event {
        tokio::select! {
            Some(worker_second) = self.worker_seconds.recv() => Event::WorkerSecond(Box::new(worker_second)),
            event = self.workers.elsewhere_next() => event,
            begin = self.opening.load_begin() => Event::Opened(begin),
            () = time_to_look(&mut self.shared) => Event::Look,
        }
    }

    /// Does what an event asks of the workers. Returns the begin of the load, if it was brought forward.
    pub(crate) async fn act(&mut self, event: Event) -> Option<u64> {
        match event {
            Event::Opened(begin) => self.bring_forward(begin).await,
            Event::Look => {
                self.look_for_progress().await;
                None
            }
            Event::WorkerSecond(_) | Event::Waiting(_) | Event::Ended => None,
        }
    }

    /// Tells the workers the progress of operations that they share with others.
    async fn look_for_progress(&mut self) {
        let open = self.workers.open_operations().zip(self.shared.as_mut());
        if let Some(news) = open.and_then(|(open, shared)| shared.news(open)) {
            self.workers.obey(Order::Progress(news)).await;
        }
    }

    /// Begins the load earlier than planned, now that all connections are open, unless it is about to begin by itself.
    async fn bring_forward(&mut self, begin: Option<u64>) -> Option<u64> {
        let opening = std::mem::replace(&mut self.opening, Opening::Absent);
        let Opening::Pending(phase, _) = opening else {
            return None;
        };
        self.opening = Opening::Over(phase);
        let begin = begin.filter(|begin| *begin < self.phases.begin)?;
        self.phases = self.phases.with_begin(begin);
        self.workers.obey(Order::BeginLoad(begin)).await;
        Some(begin)
    }

    /// Returns the processes of this program that still run.
    pub(super) fn pids(&self) -> Vec<u32> {
        let mut pids = vec![std::process::id()];
        if let Workers::Processes(processes) = &self.workers {
            pids.extend(processes.pids());
        }
        pids
    }

    /// Returns true if operations begin in one process and end in another.
    pub(super) fn shares_operations(&self) -> bool {
        self.shared.is_some()
    }

    /// Returns the ledgers of all processes of this program, once their workers have ended. `None` if no operation
    /// begins in one process and ends in another.
    ///
    /// # Errors
    /// A ledger that cannot be written as JSON.
    pub(crate) async fn ledgers(&mut self) -> anyhow::Result<Option<Vec<String>>> {
        let Some(shared) = &mut self.shared else {
            return Ok(None);
        };
        let ledgers = match &mut self.workers {
            Workers::Threads(threads) => vec![threads.ledger()?],
            Workers::Processes(processes) => processes.ledgers().await,
            Workers::Elsewhere(..) => return Ok(None),
        };
        // Other programs may wait for what this one has begun.
        if let Some(open) = self.workers.open_operations() {
            shared.report(open);
        }
        Ok(Some(ledgers))
    }

    /// Returns a tally to its worker after it was read. Tallies of processes were made to be read once.
    pub(crate) fn give_back(&self, worker: u64, tally: Tally) {
        if let Workers::Threads(threads) = &self.workers {
            threads.give_back(worker, tally);
        }
    }

    /// Returns true while other programs drive load on the daemon of this one.
    pub(super) fn runs_elsewhere(&self) -> bool {
        matches!(&self.workers, Workers::Elsewhere(load, _) if !load.is_finished())
    }

    /// Returns the duration of the opening, if the plan has one.
    pub(super) fn opening_time(&self, limit: Option<Duration>) -> Option<OpeningTime> {
        let (Opening::Pending(phase, _) | Opening::Over(phase)) = &self.opening else {
            return None;
        };
        let took_ns = self.phases.begin - self.phases.origin;
        Some(OpeningTime {
            took_s: took_ns as f64 / 1e9,
            limit_s: limit?.as_secs_f64(),
            complete: phase.was_complete_at(self.phases.begin),
        })
    }

    /// Starts nothing more; open operations may take `grace_ns`.
    pub(crate) async fn stop_within(&mut self, grace_ns: u64) {
        self.cancellation.request(grace_ns);
        self.workers.obey(Order::Stop(grace_ns)).await;
    }

    /// Kills the processes of this program, for the reason `why`. Returns false if its workers are threads, which
    /// cannot be killed.
    pub(super) fn kill(&mut self, why: &'static str) -> bool {
        let Workers::Processes(processes) = &mut self.workers else {
            return false;
        };
        processes.kill(why);
        true
    }
}

impl Workers {
    /// Watches the load that the shards of a divided run drive.
    fn elsewhere(divided: &DividedRun, start: &Start, phases: &Phases) -> Self {
        let rest = Duration::from_nanos(phases.drained.saturating_sub(clock::now()));
        let (send, waiting) = tokio::sync::mpsc::unbounded_channel();
        let load = divided.clone().all_results(start.of, rest, send);
        Self::Elsewhere(tokio::spawn(load), waiting)
    }

    /// Returns what the load of the shards does next; never if this program drives load, or if it was seen to end.
    async fn elsewhere_next(&mut self) -> Event {
        match self {
            Self::Elsewhere(load, waiting) if !load.is_finished() => tokio::select! {
                Some(waiting) = waiting.recv() => Event::Waiting(waiting),
                // A panic of the watch ends the run as the last result does.
                _ = load => Event::Ended,
            },
            _ => std::future::pending().await,
        }
    }

    /// Tells an order to all workers of this program.
    async fn obey(&mut self, order: Order) {
        match (self, order) {
            (Self::Threads(threads), _) => threads.obey(order),
            (Self::Processes(processes), _) => processes.obey(order).await,
            (Self::Elsewhere(load, _), Order::Stop(_)) => load.abort(),
            (Self::Elsewhere(..), Order::BeginLoad(_) | Order::Progress(_)) => {}
        }
    }

    /// Returns how many operations the workers of this program have begun and not ended; `None` while they may begin
    /// more.
    fn open_operations(&self) -> Option<i64> {
        match self {
            Self::Threads(threads) => threads.open_operations(),
            Self::Processes(processes) => processes.open_operations(),
            Self::Elsewhere(..) => None,
        }
    }
}

impl Opening {
    /// Waits in a task until all connections are open, if any are opened before the load.
    fn watch(phase: Option<Arc<OpeningPhase>>, part: Part, start: Start, host: &str) -> Self {
        phase.map_or(Self::Absent, |phase| {
            let begin = load_begin(Arc::clone(&phase), part, start, host.to_owned());
            Self::Pending(phase, tokio::spawn(begin))
        })
    }

    /// Returns the begin of the load once all connections are open; never if nothing is opened.
    async fn load_begin(&mut self) -> Option<u64> {
        match self {
            Self::Pending(_, begin) => begin.await.ok().flatten(),
            _ => std::future::pending().await,
        }
    }
}

async fn time_to_look(shared: &mut Option<SharedOperations>) {
    match shared {
        Some(shared) => shared.time_to_look().await,
        None => std::future::pending().await,
    }
}

/// Returns the begin of the load once all connections are open: of all programs of the run, if they agree on one.
async fn load_begin(
    opening: Arc<OpeningPhase>,
    part: Part,
    start: Start,
    host: String,
) -> Option<u64> {
    opening.all_open().await;
    part.load_begin(start, host).await
}
