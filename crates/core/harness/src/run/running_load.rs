//! Runs the workers, and shows and stores their seconds.

use std::sync::Arc;
use std::time::Duration;

use measure::units;
use measure::warning::{EndedBy, Kind, Warning};
use tokio::time::{Instant, MissedTickBehavior};

use super::Settings;
use super::daemons::{DaemonId, Daemons};
use super::early_end::EarlyEnd;
use super::faults::{Faults, RestartFailed};
use super::live_outputs::LiveOutputs;
use super::resource_monitor::ResourceMonitor;
use super::running_share::{Event, RunningShare};
use crate::processes::Processes;
use crate::signals::Signals;
use load::clock;
use load::collector::Collector;
use load::driver::{Driver, ValidPlan};
use load::recorder::{self, SECOND_NS, WorkerSecond};

/// Time after a second Ctrl-C in which a shard process must report its counts; then it is killed.
const LAST_REPORT: Duration = Duration::from_millis(1_500);
/// Time that open operations get once the daemon has ended: its sockets are closed already.
const DEATH_GRACE_NS: u64 = 1_000_000_000;
/// Number of lines of the daemon's log that are shown when it dies.
const LAST_LINES: usize = 20;

/// The running load of this program, and what is known of it.
#[derive(Debug)]
pub(super) struct RunningLoad {
    pub(super) share: RunningShare,
    pub(super) collector: Collector,
    /// Number of workers of this program.
    pub(super) worker_count: u64,
    /// The longest time that one operation may take, nanoseconds.
    longest_ns: u64,
    early_end: Option<EarlyEnd>,
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
        processes: Option<Processes>,
        host: &str,
    ) -> anyhow::Result<Self> {
        let share = RunningShare::start(driver, load, settings, processes, host).await?;
        let (count, first) = (
            settings.workers(),
            recorder::empty_tally(driver.as_ref(), load.spec),
        );
        Ok(Self {
            collector: Collector::new(count, first, share.shares_operations()),
            share,
            worker_count: count,
            early_end: EarlyEnd::new::<D>(load, settings)?,
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
        // A daemon that was started again may need longer than the load lasts; the loop waits to see whether it
        // recovers.
        while !self.is_over() || (ending.warnings.is_empty() && faults.is_returning()) {
            tokio::select! {
                event = self.share.next() => match event {
                    Event::WorkerSecond(worker_second) => {
                        self.add_worker_second(*worker_second, view);
                        self.end_early(&mut ending, view).await;
                    }
                    Event::Waiting(waiting) => {
                        view.progress.step(&waiting.step);
                        waiting.note.iter().for_each(|note| view.progress.above(note));
                    }
                    event => {
                        if let Some(begin) = self.share.act(event).await {
                            faults.begin_at(begin);
                        }
                    }
                },
                _ = every_second.tick() => monitor.snapshot(daemons),
                pages = monitor.pages() => {
                    monitor.note(&pages);
                    view.show_usage(monitor);
                }
                restarted = faults.due() => {
                    if let Err(failed) = faults.act(restarted, daemons, monitor) {
                        ending.warnings.push(not_back(&failed, daemons));
                        self.share.stop_within(DEATH_GRACE_NS).await;
                    }
                }
                () = signals.next() => self.interrupted(&mut ending, view, planned).await,
                () = sleep_until(ending.kill_at) => {
                    ending.kill_at = None;
                    self.kill(view);
                }
                (id, status) = daemons.next_exit() => self.died(&mut ending, daemons, id, &status).await,
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

    /// Returns true once all workers have ended, and the shards if this program only launches the daemon.
    fn is_over(&self) -> bool {
        self.collector.over() && !self.share.runs_elsewhere()
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
        self.share.stop_within(DEATH_GRACE_NS).await;
    }

    pub(super) fn add_worker_second(
        &mut self,
        worker_second: WorkerSecond,
        view: &mut LiveOutputs,
    ) {
        let worker = worker_second.worker;
        let read = self.collector.add(worker_second);
        self.share.give_back(worker, read);
        self.show_seconds(view);
    }

    fn show_seconds(&mut self, view: &mut LiveOutputs) {
        while let Some(run_second) = self.collector.next_second() {
            view.add(&run_second, &self.share.phases);
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
                let after_s = now.saturating_sub(self.share.phases.begin) as f64 / 1e9;
                let warning = Warning::interrupted(after_s, planned.as_secs_f64());
                ending.warnings.push(warning);
                self.drain("Interrupted", view).await;
            }
            2 => {
                self.share.stop_within(0).await;
                ending.kill_at = Some(Instant::now() + LAST_REPORT);
                let text = format!("Ending now: {open} open operations are left unfinished.");
                view.progress.above(&text);
            }
            _ => {}
        }
    }

    /// Ends the load like a first interruption, if a threshold is missed and the plan asks for that.
    async fn end_early(&mut self, ending: &mut LoadOutcome, view: &mut LiveOutputs) {
        let early_end = self.early_end.as_ref().filter(|_| ending.interrupts == 0);
        let missed = early_end.and_then(|early| early.judge(&view.total, &self.share.phases));
        if let Some(warning) = missed {
            ending.interrupts += 1;
            ending.warnings.push(warning);
            self.drain("A threshold was missed", view).await;
        }
    }

    /// Lets nothing start any more, and gives open operations their time.
    async fn drain(&mut self, why: &str, view: &mut LiveOutputs) {
        let now = clock::now();
        let open = units::count(self.collector.open());
        let grace_ns = self.grace_ns(now);
        self.share.stop_within(grace_ns).await;
        let most = units::duration(grace_ns);
        let latest = now.saturating_sub(self.share.phases.origin) + grace_ns;
        let text = format!(
            "{why}: draining {open} open operations, up to {most}; press Ctrl-C again to end now."
        );
        view.progress.draining(&text, latest.div_ceil(SECOND_NS));
    }

    /// Ends workers that have not ended by themselves. A thread can't be killed, so that it is left behind.
    fn kill(&mut self, view: &mut LiveOutputs) {
        let why = "its process did not end after the second interruption";
        if !self.share.kill(why) {
            self.collector
                .give_up("its thread did not end after the second interruption");
            self.show_seconds(view);
        }
    }

    /// Returns the time that open operations may take after an interruption: the drain time, or the longest operation
    /// if that is more, but no longer than without the interruption.
    fn grace_ns(&self, now: u64) -> u64 {
        let drain = self.share.phases.drained - self.share.phases.end;
        let left = self.share.phases.drained.saturating_sub(now);
        drain.max(self.longest_ns).min(left)
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
