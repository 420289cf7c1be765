//! Runs the workers, and shows and stores their seconds.

use std::sync::Arc;
use std::time::Duration;

use measure::result::OpeningTime;
use measure::units;
use measure::warning::{EndedBy, Kind, Warning};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

use super::Settings;
use super::daemons::{DaemonId, Daemons};
use super::faults::{Faults, RestartFailed};
use super::live_outputs::LiveOutputs;
use super::resource_monitor::ResourceMonitor;
use super::shared_operations::SharedOperations;
use crate::divided::{DividedRun, Start};
use crate::part::Part;
use crate::signals::Signals;
use load::clock;
use load::collector::Collector;
use load::driver::{Cancellation, Driver, Phases, Target, ValidPlan};
use load::opening_phase::OpeningPhase;
use load::recorder::{self, SECOND_NS, WorkerSecond};
use load::workers::{Order, Processes, Threads, Workers};

/// Time after a second Ctrl-C in which a shard process must report its counts; then it is killed.
const LAST_REPORT: Duration = Duration::from_millis(1_500);
/// Time that open operations get once the daemon has ended: its sockets are closed already.
const DEATH_GRACE_NS: u64 = 1_000_000_000;
/// Number of lines of the daemon's log that are shown when it dies.
const LAST_LINES: usize = 20;

/// The running workers.
#[derive(Debug)]
pub(super) struct RunningLoad {
    pub(super) phases: Phases,
    opening: Opening,
    pub(super) cancellation: Arc<Cancellation>,
    worker_seconds: UnboundedReceiver<WorkerSecond>,
    pub(super) collector: Collector,
    drivers: Drivers,
    /// Number of workers of this program.
    pub(super) worker_count: u64,
    /// The longest time that one operation may take, nanoseconds.
    longest_ns: u64,
    /// The instant that seconds count from.
    pub(super) start: Start,
    /// Time from the start until all workers were running, nanoseconds.
    pub(super) late_ns: u64,
    /// Operations that workers of several processes share, if they do.
    shared: Option<SharedOperations>,
}

/// The programs that have the workers of a run.
#[derive(Debug)]
enum Drivers {
    /// This program.
    Here(Workers),
    /// The shards; this program has the daemon. The task ends with the load of the shards.
    Shards(JoinHandle<()>),
}

/// The opening of connections before the load.
#[derive(Debug)]
enum Opening {
    /// Nothing is opened before the load.
    Absent,
    /// The task ends once all connections are open, with the begin of the load, if the shards agree on one.
    Pending(Arc<OpeningPhase>, JoinHandle<Option<u64>>),
    /// The begin of the load is known.
    Over(Arc<OpeningPhase>),
}

/// The end of the load.
#[derive(Debug, Default)]
pub(super) struct LoadOutcome {
    pub(super) warnings: Vec<Warning>,
    pub(super) interrupts: u64,
    /// Time at which shard processes that have not ended are killed.
    kill_at: Option<Instant>,
}

impl LoadOutcome {
    /// Returns the reason why the load ended.
    pub(super) fn reason(&self) -> EndedBy {
        let lost = |kind| matches!(kind, Kind::DaemonDied | Kind::WorkersFailed);
        let mut kinds = self.warnings.iter().map(|warning| warning.kind);
        match self.interrupts {
            _ if kinds.any(lost) => EndedBy::Failure,
            0 => EndedBy::Plan,
            1 => EndedBy::Interrupt,
            _ => EndedBy::SecondInterrupt,
        }
    }

    /// Returns true if the user does not want to wait any more.
    pub(super) fn is_hurried(&self) -> bool {
        self.interrupts > 1
    }
}

impl RunningLoad {
    pub(super) async fn start<D: Driver>(
        driver: &Arc<D>,
        load: &ValidPlan<D::Config>,
        settings: &Settings,
        target: &Target,
        learned: &serde_json::Value,
        host: &str,
    ) -> anyhow::Result<Self> {
        let (send, worker_seconds) = tokio::sync::mpsc::unbounded_channel();
        let cancellation = Arc::new(Cancellation::new()?);
        let (count, share) = (settings.workers(), settings.share());
        let shared = (settings.is_spread() && load.description.shares_operations)
            .then(|| SharedOperations::new(settings.part.clone()));
        let first = recorder::empty_tally(driver.as_ref());
        let limit = load.description.opening;
        let opening = limit.map(|_| Arc::new(OpeningPhase::new(count)));
        let processes = match (settings.processes, settings.threads) {
            (several, threads) if count > threads => {
                Some(Processes::start::<D>(load, learned, target, several, threads, share).await?)
            }
            _ => None,
        };
        let start = settings.part.start(host).await?;
        let phases =
            Phases::after_opening(load.plan.timeline, start.origin, limit.unwrap_or_default());
        let drivers = match (processes, &settings.part) {
            (Some(mut processes), _) => {
                let opening = opening.as_ref();
                processes
                    .go::<D>(start.origin, start.unix_ns, opening, &send)
                    .await?;
                Drivers::Here(Workers::Processes(processes))
            }
            (None, Part::Divided(divided)) if count == 0 => {
                Drivers::shards(divided, &start, &phases)
            }
            (None, _) => {
                let (range, times) = (settings.workers_here(), (phases, start.unix_ns));
                let opening = opening.as_ref();
                let threads =
                    Threads::start(driver, load, range, times, opening, &cancellation, &send)?;
                Drivers::Here(Workers::Threads(threads))
            }
        };
        let late_ns = clock::now().saturating_sub(start.origin);
        let opening = Opening::watch(opening, settings.part.clone(), start, host);
        Ok(Self {
            phases,
            opening,
            cancellation,
            worker_seconds,
            collector: Collector::new(count, first, shared.is_some()),
            drivers,
            worker_count: count,
            start,
            late_ns,
            shared,
            longest_ns: u64::try_from(load.description.longest.as_nanos()).unwrap_or(u64::MAX),
        })
    }

    /// Watches until all workers have ended, and updates all views once a second.
    pub(super) async fn drive(
        &mut self,
        view: &mut LiveOutputs,
        daemons: &mut Daemons,
        monitor: &mut ResourceMonitor,
        faults: &mut Faults,
        signals: &mut Signals,
        planned: Duration,
    ) -> LoadOutcome {
        let mut ending = LoadOutcome::default();
        let mut every_second = tokio::time::interval(Duration::from_secs(1));
        every_second.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let looking = self.shared.as_ref().map(SharedOperations::looking);
        let mut counting = tokio::time::interval(looking.unwrap_or(Duration::MAX));
        counting.set_missed_tick_behavior(MissedTickBehavior::Skip);
        // A daemon that was started again may need longer than the load lasts; the loop waits to see whether it
        // recovers.
        while !self.is_over() || (ending.warnings.is_empty() && faults.is_returning()) {
            tokio::select! {
                Some(worker_second) = self.worker_seconds.recv() => self.add_worker_second(worker_second, view),
                () = self.drivers.shards_ended() => {}
                begin = self.opening.load_begin() => self.bring_forward(begin, faults).await,
                _ = every_second.tick() => monitor.snapshot(daemons),
                _ = counting.tick(), if self.shared.is_some() => self.look_for_progress().await,
                pages = monitor.pages() => {
                    monitor.note(&pages);
                    view.show_usage(monitor);
                }
                restarted = faults.due() => {
                    if let Err(failed) = faults.act(restarted, daemons, monitor) {
                        ending.warnings.push(not_back(&failed, daemons));
                        self.stop_within(DEATH_GRACE_NS).await;
                    }
                }
                () = signals.next() => self.interrupted(&mut ending, view, planned).await,
                () = sleep_until(ending.kill_at) => {
                    ending.kill_at = None;
                    self.kill(view);
                }
                (id, status) = daemons.next_exit() => self.died(&mut ending, daemons, id, &status).await,
                else => break,
            }
        }
        let failures: Vec<&str> = self.collector.failures().collect();
        if let Some(first) = failures.first() {
            ending.warnings.push(Warning::workers_failed(
                failures.len() as u64,
                self.worker_count,
                first,
            ));
        }
        ending
    }

    /// Tells the workers the progress of operations that they share with others.
    async fn look_for_progress(&mut self) {
        let open = self.open_operations().zip(self.shared.as_mut());
        if let Some(news) = open.and_then(|(open, shared)| shared.news(open)) {
            self.order(Order::Progress(news)).await;
        }
    }

    /// Returns how many operations the workers of this program have begun and not ended; `None` while they may begin more.
    fn open_operations(&self) -> Option<i64> {
        match &self.drivers {
            Drivers::Here(workers) => workers.open_operations(),
            Drivers::Shards(_) => None,
        }
    }

    /// Returns the ledgers of all processes of this program, once their workers have ended. `None` if no operation
    /// begins in one process and ends in another.
    ///
    /// # Errors
    /// A ledger that cannot be written as JSON.
    pub(super) async fn ledgers(&mut self) -> anyhow::Result<Option<Vec<String>>> {
        let (Drivers::Here(workers), Some(shared)) = (&mut self.drivers, &mut self.shared) else {
            return Ok(None);
        };
        let ledgers = workers.ledgers().await?;
        // Other parts may wait for what this one has begun.
        if let Some(open) = workers.open_operations() {
            shared.report(open);
        }
        Ok(Some(ledgers))
    }

    /// Tells an order to the workers of this program.
    async fn order(&mut self, order: Order) {
        if let Drivers::Here(workers) = &mut self.drivers {
            workers.obey(order).await;
        }
    }

    /// Returns true once all workers have ended, and the shards if this program only launches the daemon.
    fn is_over(&self) -> bool {
        let others_run = matches!(&self.drivers, Drivers::Shards(load) if !load.is_finished());
        self.collector.over() && !others_run
    }

    /// Begins the load earlier than planned, now that all connections are open, unless it is about to begin by itself.
    async fn bring_forward(&mut self, begin: Option<u64>, faults: &mut Faults) {
        let opening = std::mem::replace(&mut self.opening, Opening::Absent);
        let Opening::Pending(phase, _) = opening else {
            return;
        };
        if let Some(begin) = begin.filter(|begin| *begin < self.phases.begin) {
            self.phases = self.phases.with_begin(begin);
            self.order(Order::BeginLoad(begin)).await;
            faults.begin_at(begin);
        }
        self.opening = Opening::Over(phase);
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

    /// Ends the run because a daemon or a service has ended by itself.
    async fn died(
        &mut self,
        ending: &mut LoadOutcome,
        daemons: &Daemons,
        id: DaemonId,
        status: &str,
    ) {
        let (status, last_lines) = about(daemons, id, status);
        ending.warnings.push(match id {
            DaemonId::Instance(_) => Warning::daemon_died(&status, &last_lines),
            DaemonId::Service(_) => Warning::service_died(&status, &last_lines),
        });
        self.stop_within(DEATH_GRACE_NS).await;
    }

    pub(super) fn add_worker_second(
        &mut self,
        worker_second: WorkerSecond,
        view: &mut LiveOutputs,
    ) {
        let worker = worker_second.worker;
        let read = self.collector.add(worker_second);
        if let Drivers::Here(workers) = &self.drivers {
            workers.give_back(worker, read);
        }
        self.show_seconds(view);
    }

    fn show_seconds(&mut self, view: &mut LiveOutputs) {
        while let Some(run_second) = self.collector.next_second() {
            view.add(&run_second, &self.phases);
            self.collector.give_back(run_second);
        }
    }

    /// Handles an interruption. After the first, nothing more is started and open operations may take their time; the
    /// second ends the load.
    async fn interrupted(
        &mut self,
        ending: &mut LoadOutcome,
        view: &mut LiveOutputs,
        planned: Duration,
    ) {
        ending.interrupts += 1;
        let now = clock::now();
        let open = units::count(self.collector.open());
        match ending.interrupts {
            1 => {
                let after_s = now.saturating_sub(self.phases.begin) as f64 / 1e9;
                let warning = Warning::interrupted(after_s, planned.as_secs_f64());
                ending.warnings.push(warning);
                let grace_ns = self.grace_ns(now);
                self.stop_within(grace_ns).await;
                let most = units::duration(grace_ns);
                let latest = now.saturating_sub(self.phases.origin) + grace_ns;
                let text = format!(
                    "Interrupted: draining {open} open operations, up to {most}; press Ctrl-C again to end now."
                );
                view.progress.draining(&text, latest.div_ceil(SECOND_NS));
            }
            2 => {
                self.stop_within(0).await;
                ending.kill_at = Some(Instant::now() + LAST_REPORT);
                let text = format!("Ending now: {open} open operations are left unfinished.");
                view.progress.above(&text);
            }
            _ => {}
        }
    }

    /// Ends workers that have not ended by themselves. A thread can't be killed, so that it is left behind.
    fn kill(&mut self, view: &mut LiveOutputs) {
        if let Drivers::Here(Workers::Processes(processes)) = &mut self.drivers {
            processes.kill("its process did not end after the second interruption");
        } else {
            self.collector
                .give_up("its thread did not end after the second interruption");
            self.show_seconds(view);
        }
    }

    /// Returns the time that open operations may take after an interruption: the drain time, or the longest operation
    /// if that is more, but no longer than without the interruption.
    fn grace_ns(&self, now: u64) -> u64 {
        let drain = self.phases.drained - self.phases.end;
        let left = self.phases.drained.saturating_sub(now);
        drain.max(self.longest_ns).min(left)
    }

    pub(super) async fn stop_within(&mut self, grace_ns: u64) {
        self.cancellation.request(grace_ns);
        self.order(Order::Stop(grace_ns)).await;
        if let Drivers::Shards(load) = &self.drivers {
            load.abort();
        }
    }
}

impl Drivers {
    /// Watches the load that the shards drive.
    fn shards(divided: &DividedRun, start: &Start, phases: &Phases) -> Self {
        let rest = Duration::from_nanos(phases.drained.saturating_sub(clock::now()));
        Self::Shards(tokio::spawn(divided.clone().all_results(start.of, rest)))
    }

    /// Returns once the load of the shards has ended; never if this program drives load, or if it was seen before.
    async fn shards_ended(&mut self) {
        match self {
            // A panic of the watch ends the run as the last result does.
            Self::Shards(load) if !load.is_finished() => drop(load.await),
            _ => std::future::pending().await,
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

/// Returns the begin of the load once all connections are open; in a divided run, of all shards, if they agree on one.
async fn load_begin(
    opening: Arc<OpeningPhase>,
    part: Part,
    start: Start,
    host: String,
) -> Option<u64> {
    opening.all_open().await;
    part.load_begin(start, host).await
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Returns the warning about a daemon or a service that did not recover from a fault.
fn not_back(failed: &RestartFailed, daemons: &Daemons) -> Warning {
    let (problem, last_lines) = about(daemons, failed.id, &failed.problem);
    match failed.id {
        DaemonId::Instance(_) => Warning::daemon_not_back(&problem, &last_lines),
        DaemonId::Service(_) => Warning::service_not_back(&problem, &last_lines),
    }
}

/// Returns a text about a daemon, with its number if there are several, or a service, and the end of its log.
fn about(daemons: &Daemons, id: DaemonId, text: &str) -> (String, String) {
    let daemon = &daemons.get(id).daemon;
    let text = match (id, daemons.instances.len()) {
        (DaemonId::Service(_), _) => format!("{} {text}", daemon.name()),
        (DaemonId::Instance(_), 0 | 1) => text.to_owned(),
        (DaemonId::Instance(index), several) => {
            format!("instance {} of {several} {text}", index + 1)
        }
    };
    (text, daemon.last_lines(LAST_LINES))
}
