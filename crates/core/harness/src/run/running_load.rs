//! Runs the workers, and shows and stores their seconds.

use std::sync::Arc;
use std::time::Duration;

use measure::result::OpeningTime;
use measure::shard::Role;
use measure::units;
use measure::warning::{EndedBy, Kind, Warning};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

use super::Settings;
use super::daemons::{Daemons, Part};
use super::faults::{Faults, RestartFailed};
use super::live_outputs::LiveOutputs;
use super::resource_monitor::ResourceMonitor;
use super::shared_operations::SharedOperations;
use crate::divided::{DividedRun, Start};
use crate::signals::Signals;
use load::clock;
use load::collector::Collector;
use load::driver::{Cancellation, Driver, Phases, Target, ValidPlan};
use load::opening_phase::OpeningPhase;
use load::recorder::{self, SECOND_NS, WorkerSecond};
use load::workers::{Processes, Threads, WorkerRange};

/// Time between the order to begin and the begin, so that all workers are waiting by then.
const HEAD_START_NS: u64 = 50_000_000;
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
    /// The opening of all workers; absent once all their connections are open.
    opening: Option<Arc<OpeningPhase>>,
    /// The opening of all workers, from then until the load is brought forward.
    brought_forward: Option<Arc<OpeningPhase>>,
    /// True if all connections were open before the load began.
    all_open: bool,
    pub(super) cancellation: Arc<Cancellation>,
    pub(super) worker_seconds: UnboundedReceiver<WorkerSecond>,
    pub(super) collector: Collector,
    pub(super) threads: Option<Threads>,
    pub(super) processes: Option<Processes>,
    pub(super) workers: u64,
    /// The longest time that one operation may take, nanoseconds.
    longest_ns: u64,
    /// The start that all parts of a divided run have in common.
    pub(super) common_start: Option<Start>,
    /// Time from the common start until all workers were running, nanoseconds.
    pub(super) late_ns: u64,
    /// The part of this program in a divided run, and the name of its machine.
    divided: Option<(DividedRun, String)>,
    /// Ends with the instant at which the load of all shards begins, while they open their connections.
    load_begin: Option<JoinHandle<Option<u64>>>,
    /// Ends with the load of the shards, if this program only launches the daemon.
    shards: Option<JoinHandle<()>>,
    /// Operations that workers of several processes share, if they do.
    shared: Option<SharedOperations>,
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
        let workers = match settings.role() {
            Role::Daemon => 0,
            _ => settings.processes * settings.threads,
        };
        let is_spread = settings.is_spread() && workers > 0;
        let shared = (is_spread && load.description.shares_operations)
            .then(|| SharedOperations::new(driver, settings.divided.as_ref()));
        let clean = recorder::empty_tally(driver.as_ref());
        let collector = Collector::new(workers, clean, shared.is_some());
        let limit = load.description.opening;
        let opening = limit.map(|_| Arc::new(OpeningPhase::new(workers)));
        let mut processes = match settings.processes {
            _ if workers == 0 => None,
            1 => None,
            several => {
                let share = settings.share();
                let threads = settings.threads;
                Some(Processes::start::<D>(load, learned, target, several, threads, share).await?)
            }
        };
        let common_start = match &settings.divided {
            Some(divided) => Some(divided.start(host).await?),
            None => None,
        };
        let origin =
            common_start.map_or_else(|| clock::now() + HEAD_START_NS, |start| start.origin);
        let unix_ns =
            common_start.map_or_else(|| origin + clock::wall_offset(), |start| start.unix_ns);
        let phases = Phases::after_opening(load.plan.timeline, origin, limit.unwrap_or_default());
        let threads = match &mut processes {
            Some(processes) => {
                processes
                    .go::<D>(origin, unix_ns, opening.as_ref(), &send)
                    .await?;
                None
            }
            None if workers == 0 => None,
            None => Some(Threads::start(
                driver,
                load,
                WorkerRange {
                    first: 0,
                    count: workers,
                    total: workers,
                    shard: settings.share(),
                },
                (phases, unix_ns),
                opening.as_ref(),
                &cancellation,
                &send,
            )?),
        };
        let late_ns = clock::now().saturating_sub(origin);
        // The load of others, as far as the plan tells its length.
        let shards = match (&settings.divided, common_start) {
            (Some(divided), Some(start)) if workers == 0 => {
                let longest = phases.drained - phases.origin;
                let rest = Duration::from_nanos((origin + longest).saturating_sub(clock::now()));
                Some(tokio::spawn(divided.clone().all_results(start.of, rest)))
            }
            _ => None,
        };
        let divided = settings.divided.clone();
        let divided = divided.map(|divided| (divided, host.to_owned()));
        let load_begin = divided
            .as_ref()
            .filter(|_| workers == 0 && limit.is_some())
            .map(|(divided, host)| tokio::spawn(divided.clone().load_begin(host.clone())));
        Ok(Self {
            phases,
            opening: opening.filter(|_| workers > 0),
            brought_forward: None,
            all_open: false,
            cancellation,
            worker_seconds,
            collector,
            threads,
            processes,
            workers,
            divided,
            load_begin,
            common_start,
            late_ns: common_start.map_or(0, |_| late_ns),
            shards,
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
        let counting = self.shared.as_ref().map(SharedOperations::interval);
        let mut counting = tokio::time::interval(counting.unwrap_or(Duration::MAX));
        counting.set_missed_tick_behavior(MissedTickBehavior::Skip);
        // A daemon that was started again may need longer than the load lasts; the loop waits to see whether it
        // recovers.
        while !self.is_over() || (ending.warnings.is_empty() && faults.is_returning()) {
            tokio::select! {
                Some(worker_second) = self.worker_seconds.recv() => self.add_worker_second(worker_second, view),
                () = shards_ended(&mut self.shards) => self.shards = None,
                () = all_open(self.opening.as_ref()) => self.connections_are_open(faults).await,
                begin = common_begin(&mut self.load_begin) => {
                    self.load_begin = None;
                    if let (Some(begin), Some(start)) = (begin, self.common_start) {
                        self.bring_forward(start.monotonic(begin), faults).await;
                    }
                }
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
                (part, status) = daemons.next_exit() => self.died(&mut ending, daemons, part, &status).await,
                else => break,
            }
        }
        let failures: Vec<&str> = self.collector.failures().collect();
        if let Some(first) = failures.first() {
            ending.warnings.push(Warning::workers_failed(
                failures.len() as u64,
                self.workers,
                first,
            ));
        }
        ending
    }

    /// Tells the workers the progress of operations that they share with others.
    async fn look_for_progress(&mut self) {
        let Some(shared) = &mut self.shared else {
            return;
        };
        let open = shared.open(self.processes.as_ref());
        if let Some(news) = open.and_then(|open| shared.news(open)) {
            if let Some(processes) = &mut self.processes {
                processes.progress(news).await;
            }
            self.cancellation.wake();
        }
    }

    /// Returns the ledgers of all processes of this program, once their workers have ended. `None` if no operation
    /// begins in one process and ends in another.
    ///
    /// # Errors
    /// A ledger that cannot be written as JSON.
    pub(super) async fn ledgers<D: Driver>(
        &mut self,
        driver: &D,
    ) -> anyhow::Result<Option<Vec<String>>> {
        let Some(shared) = &mut self.shared else {
            return Ok(None);
        };
        let ledgers = match &mut self.processes {
            Some(processes) => processes.ledgers().await,
            None => vec![driver.ledger()?],
        };
        // Other parts may wait for what this one has begun.
        let open = shared.open(self.processes.as_ref());
        open.into_iter().for_each(|open| shared.report(open));
        Ok(Some(ledgers))
    }

    /// Returns true once all workers have ended, and those of other programs if this one only launches the daemon.
    fn is_over(&self) -> bool {
        self.collector.over() && self.shards.is_none()
    }

    /// Begins the load now that all connections are open; in a divided run, once those of all shards are.
    async fn connections_are_open(&mut self, faults: &mut Faults) {
        self.brought_forward = self.opening.take();
        self.all_open = true;
        match &self.divided {
            None => {
                self.bring_forward(clock::now() + HEAD_START_NS, faults)
                    .await
            }
            Some((divided, host)) => {
                let waiting = divided.clone().load_begin(host.clone());
                self.load_begin = Some(tokio::spawn(waiting));
            }
        }
    }

    /// Begins the load earlier than planned, unless it is about to begin by itself.
    async fn bring_forward(&mut self, begin: u64, faults: &mut Faults) {
        if begin >= self.phases.begin {
            return;
        }
        self.phases = self.phases.with_begin(begin);
        if let Some(opening) = self.brought_forward.take() {
            opening.begin_at(begin);
        }
        self.cancellation.wake();
        if let Some(processes) = &mut self.processes {
            processes.begin_at(begin).await;
        }
        faults.begin_at(begin);
    }

    /// Returns the duration of the opening, if the plan has one.
    pub(super) fn opening_time(&self, limit: Option<Duration>) -> Option<OpeningTime> {
        let limit = limit?;
        let took_ns = self.phases.begin - self.phases.origin;
        Some(OpeningTime {
            took_s: took_ns as f64 / 1e9,
            limit_s: limit.as_secs_f64(),
            complete: self.all_open,
        })
    }

    /// Ends the run because a daemon or a service has ended by itself.
    async fn died(
        &mut self,
        ending: &mut LoadOutcome,
        daemons: &Daemons,
        part: Part,
        status: &str,
    ) {
        let (status, last_lines) = about(daemons, part, status);
        ending.warnings.push(match part {
            Part::Instance(_) => Warning::daemon_died(&status, &last_lines),
            Part::Service(_) => Warning::service_died(&status, &last_lines),
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
        if let Some(threads) = &self.threads {
            threads.give_back(worker, read);
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
        match &mut self.processes {
            Some(processes) => {
                processes.kill("its process did not end after the second interruption");
            }
            None => {
                self.collector
                    .give_up("its thread did not end after the second interruption");
                self.show_seconds(view);
            }
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
        self.shards = None;
        if let Some(processes) = &mut self.processes {
            processes.stop(grace_ns).await;
        }
    }
}

/// Returns once all connections of an opening are open; never if there is no opening.
async fn all_open(opening: Option<&Arc<OpeningPhase>>) {
    match opening {
        Some(opening) => opening.all_open().await,
        None => std::future::pending().await,
    }
}

/// Returns the instant at which the load of all shards begins, if they agree on one; never if nobody waits for it.
async fn common_begin(waiting: &mut Option<JoinHandle<Option<u64>>>) -> Option<u64> {
    match waiting {
        Some(waiting) => waiting.await.ok().flatten(),
        None => std::future::pending().await,
    }
}

/// Returns once the load of the shards has ended; never if this program drives the load.
async fn shards_ended(shards: &mut Option<JoinHandle<()>>) {
    match shards {
        // A panic of the watch ends the run as the last result does.
        Some(shards) => drop(shards.await),
        None => std::future::pending().await,
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Returns the warning about a daemon or a service that did not recover from a fault.
fn not_back(failed: &RestartFailed, daemons: &Daemons) -> Warning {
    let (problem, last_lines) = about(daemons, failed.part, &failed.problem);
    match failed.part {
        Part::Instance(_) => Warning::daemon_not_back(&problem, &last_lines),
        Part::Service(_) => Warning::service_not_back(&problem, &last_lines),
    }
}

/// Returns a text about a daemon, with its number if there are several, or a service, and the end of its log.
fn about(daemons: &Daemons, part: Part, text: &str) -> (String, String) {
    let daemon = &daemons.part(part).daemon;
    let text = match (part, daemons.instances.len()) {
        (Part::Service(_), _) => format!("{} {text}", daemon.name()),
        (Part::Instance(_), 0 | 1) => text.to_owned(),
        (Part::Instance(index), several) => format!("instance {} of {several} {text}", index + 1),
    };
    (text, daemon.last_lines(LAST_LINES))
}
