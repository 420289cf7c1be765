//! The workers at work, and everything that is shown and kept of their seconds.

use std::sync::Arc;
use std::time::Duration;

use measure::audit::OpeningTime;
use measure::tally::Tally;
use measure::units;
use measure::warning::{EndedBy, Kind, Warning};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, MissedTickBehavior};

use super::Settings;
use super::faults::{Faults, Gone};
use super::rows::Rows;
use super::site::Site;
use super::watch::Watch;
use crate::clock;
use crate::collector::{Collector, Row};
use crate::driver::{Driver, Phases, Stop, Target};
use crate::exporter::Exporter;
use crate::lanes::{Crew, Processes, Threads};
use crate::opening::Opening;
use crate::plan::Plan;
use crate::progress::{Progress, p99};
use crate::recorder::{self, Interval};
use crate::signals::Signals;

/// Between the order to begin and what begins, so that all workers are waiting by then.
const HEAD_START_NS: u64 = 50_000_000;
/// After a second Ctrl-C a shard process has this long to report what it counted; then it is killed.
const LAST_REPORT: Duration = Duration::from_millis(1_500);
/// What is open may take this long once the daemon has ended: its sockets are closed already.
const DEATH_GRACE_NS: u64 = 1_000_000_000;
/// Lines of the daemon's log that are shown when it dies.
const LAST_LINES: usize = 20;

/// The workers at work.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) phases: Phases,
    /// The opening of all workers, as long as the load has not been brought forward.
    opening: Option<Arc<Opening>>,
    /// Whether all connections were open before the load began.
    all_open: bool,
    pub(super) stop: Arc<Stop>,
    pub(super) intervals: UnboundedReceiver<Interval>,
    pub(super) collector: Collector,
    pub(super) threads: Option<Threads>,
    pub(super) processes: Option<Processes>,
    pub(super) workers: u64,
    /// The longest time that one operation may take, nanoseconds.
    longest_ns: u64,
}

/// How the load ended.
#[derive(Debug, Default)]
pub(super) struct Ending {
    pub(super) warnings: Vec<Warning>,
    pub(super) interrupts: u64,
    /// When shard processes that have not ended are killed.
    kill_at: Option<Instant>,
}

impl Ending {
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

    /// Returns true where the user does not want to wait any more.
    pub(super) fn is_hurried(&self) -> bool {
        self.interrupts > 1
    }
}

impl Load {
    pub(super) async fn start<D: Driver>(
        driver: &Arc<D>,
        plan: &Plan<D::Config>,
        target: &Target,
        settings: &Settings,
    ) -> anyhow::Result<Self> {
        let (send, intervals) = tokio::sync::mpsc::unbounded_channel();
        let stop = Arc::new(Stop::new()?);
        let workers = settings.processes * settings.threads;
        let collector = Collector::new(workers, recorder::clean(driver.as_ref()));
        let limit = D::opening(plan);
        let opening = limit.map(|_| Arc::new(Opening::new(workers)));
        let mut processes = match settings.processes {
            1 => None,
            several => Some(
                Processes::start(driver.as_ref(), plan, target, several, settings.threads).await?,
            ),
        };
        let origin = clock::now() + HEAD_START_NS;
        let phases = Phases::after_opening(plan.timeline, origin, limit.unwrap_or_default());
        let threads = match &mut processes {
            Some(processes) => {
                processes.go::<D>(origin, opening.as_ref(), &send).await?;
                None
            }
            None => Some(Threads::start(
                driver,
                plan,
                Crew {
                    first: 0,
                    here: workers,
                    of: workers,
                },
                phases,
                opening.as_ref(),
                &stop,
                &send,
            )?),
        };
        Ok(Self {
            phases,
            opening,
            all_open: false,
            stop,
            intervals,
            collector,
            threads,
            processes,
            workers,
            longest_ns: u64::try_from(D::longest(plan).as_nanos()).unwrap_or(u64::MAX),
        })
    }

    /// Watches until all workers have ended, once a second in every view.
    pub(super) async fn follow(
        &mut self,
        view: &mut View,
        site: &mut Site,
        watch: &mut Watch,
        faults: &mut Faults,
        signals: &mut Signals,
        planned: Duration,
    ) -> Ending {
        let mut ending = Ending::default();
        let mut every_second = tokio::time::interval(Duration::from_secs(1));
        every_second.set_missed_tick_behavior(MissedTickBehavior::Skip);
        // A daemon that was started again may need longer than the load lasts; whether it came back is still asked.
        while !self.collector.over() || (ending.warnings.is_empty() && faults.is_returning()) {
            tokio::select! {
                Some(interval) = self.intervals.recv() => self.take(interval, view),
                () = all_open(self.opening.as_ref()) => self.bring_forward(faults).await,
                _ = every_second.tick() => watch.look(site),
                pages = watch.pages() => watch.note(&pages),
                back = faults.due() => {
                    if let Err(gone) = faults.act(back, site, watch) {
                        ending.warnings.push(not_back(&gone, site));
                        self.stop_within(DEATH_GRACE_NS).await;
                    }
                }
                () = signals.next() => self.interrupted(&mut ending, view, planned).await,
                () = sleep_until(ending.kill_at) => {
                    ending.kill_at = None;
                    self.kill(view);
                }
                (place, status) = site.death() => self.died(&mut ending, site, place, &status).await,
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

    /// Has the load begin now that all connections are open, unless it is about to begin by itself.
    async fn bring_forward(&mut self, faults: &mut Faults) {
        let begin = clock::now() + HEAD_START_NS;
        let Some(opening) = self.opening.take() else {
            return;
        };
        self.all_open = true;
        if begin >= self.phases.begin {
            return;
        }
        self.phases = self.phases.with_begin(begin);
        opening.begin_at(begin);
        self.stop.wake();
        if let Some(processes) = &mut self.processes {
            processes.begin_at(begin).await;
        }
        faults.begin_at(begin);
    }

    /// Returns how long the opening of a plan took, where it has one.
    pub(super) fn opening<D: Driver>(&self, plan: &Plan<D::Config>) -> Option<OpeningTime> {
        let limit = D::opening(plan)?;
        let took_ns = self.phases.begin - self.phases.origin;
        Some(OpeningTime {
            took_s: took_ns as f64 / 1e9,
            limit_s: limit.as_secs_f64(),
            complete: self.all_open,
        })
    }

    /// A daemon has ended by itself, and with it the run.
    async fn died(&mut self, ending: &mut Ending, site: &Site, place: usize, status: &str) {
        let (status, last_lines) = about(site, place, status);
        ending
            .warnings
            .push(Warning::daemon_died(&status, &last_lines));
        self.stop_within(DEATH_GRACE_NS).await;
    }

    pub(super) fn take(&mut self, interval: Interval, view: &mut View) {
        let lane = interval.lane;
        let read = self.collector.add(interval);
        if let Some(threads) = &self.threads {
            threads.give_back(lane, read);
        }
        self.show_rows(view);
    }

    fn show_rows(&mut self, view: &mut View) {
        while let Some(row) = self.collector.row() {
            view.row(&row);
            self.collector.give_back(row);
        }
    }

    /// Asked once, nothing is started any more and what is open has the time that it may take; asked again, the load ends.
    async fn interrupted(&mut self, ending: &mut Ending, view: &mut View, planned: Duration) {
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
                view.progress.draining(&format!(
                    "Interrupted: draining {open} open operations, up to {most}; press Ctrl-C again to end now."
                ));
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
    fn kill(&mut self, view: &mut View) {
        match &mut self.processes {
            Some(processes) => {
                processes.kill("its process did not end after the second interruption");
            }
            None => {
                self.collector
                    .give_up("its thread did not end after the second interruption");
                self.show_rows(view);
            }
        }
    }

    /// Returns how long what is open may take after an interruption: the time to drain, or the longest operation, and no
    /// longer than without the interruption.
    fn grace_ns(&self, now: u64) -> u64 {
        let drain = self.phases.drained - self.phases.end;
        let left = self.phases.drained.saturating_sub(now);
        drain.max(self.longest_ns).min(left)
    }

    pub(super) async fn stop_within(&mut self, grace_ns: u64) {
        self.stop.ask(grace_ns);
        if let Some(processes) = &mut self.processes {
            processes.stop(grace_ns).await;
        }
    }
}

/// Returns once all connections of an opening are open; never where there is none.
async fn all_open(opening: Option<&Arc<Opening>>) {
    match opening {
        Some(opening) => opening.all_open().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// A daemon that a fault has taken away for good.
fn not_back(gone: &Gone, site: &Site) -> Warning {
    let (problem, last_lines) = about(site, gone.place, &gone.problem);
    Warning::daemon_not_back(&problem, &last_lines)
}

/// What is said of a daemon, with its number where there are several, and the end of its log.
fn about(site: &Site, place: usize, text: &str) -> (String, String) {
    let instance = site.instances.get(place);
    let last_lines = instance.map(|instance| instance.daemon.last_lines(LAST_LINES));
    let text = match site.instances.len() {
        0 | 1 => text.to_owned(),
        several => format!("number {} of {several} {text}", place + 1),
    };
    (text, last_lines.unwrap_or_default())
}

/// Everything that is shown and kept of the seconds.
#[derive(Debug)]
pub(super) struct View {
    pub(super) progress: Progress,
    pub(super) exporter: Option<Exporter>,
    pub(super) response: &'static str,
    pub(super) line: fn(&Tally, &Tally) -> Option<String>,
    pub(super) total: Tally,
    pub(super) rows: Rows,
}

impl View {
    pub(super) fn row(&mut self, row: &Row) {
        self.progress.row(row, p99(&row.tally, self.response));
        if let Some(exporter) = &self.exporter {
            exporter.row(row);
        }
        self.total.merge(&row.tally);
        if let Some(line) = (self.line)(&row.tally, &self.total) {
            self.progress.above(&line);
        }
        self.rows.push(row.result());
    }
}
