//! The workers at work, and everything that is shown and kept of their seconds.

use std::sync::Arc;
use std::time::Duration;

use measure::tally::Tally;
use measure::warning::Warning;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::MissedTickBehavior;

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
use crate::plan::Plan;
use crate::progress::{Progress, p99};
use crate::recorder::{self, Interval};
use crate::signals::Signals;

/// Between the order to begin and the first start, so that all workers are waiting by then.
const HEAD_START_NS: u64 = 50_000_000;
/// What is open may take this long after Ctrl-C; a second one takes it away.
const INTERRUPT_GRACE_NS: u64 = 5_000_000_000;
/// What is open may take this long once the daemon has ended: its sockets are closed already.
const DEATH_GRACE_NS: u64 = 1_000_000_000;
/// Lines of the daemon's log that are shown when it dies.
const LAST_LINES: usize = 20;

/// The workers at work.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) phases: Phases,
    pub(super) stop: Arc<Stop>,
    pub(super) intervals: UnboundedReceiver<Interval>,
    pub(super) collector: Collector,
    pub(super) threads: Option<Threads>,
    pub(super) processes: Option<Processes>,
    pub(super) workers: u64,
}

/// How the load ended.
#[derive(Debug, Default)]
pub(super) struct Ending {
    pub(super) warnings: Vec<Warning>,
    pub(super) interrupts: u64,
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
        let mut processes = match settings.processes {
            1 => None,
            several => Some(Processes::start::<D>(plan, target, several, settings.threads).await?),
        };
        let origin = clock::now() + HEAD_START_NS;
        let phases = Phases::of(plan.timeline, origin);
        let threads = match &mut processes {
            Some(processes) => {
                processes.go::<D>(origin, &send).await?;
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
                &stop,
                &send,
            )?),
        };
        Ok(Self {
            phases,
            stop,
            intervals,
            collector,
            threads,
            processes,
            workers,
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
                _ = every_second.tick() => watch.look(site),
                pages = watch.pages() => watch.note(&pages),
                back = faults.due() => {
                    if let Err(gone) = faults.act(back, site, watch) {
                        ending.warnings.push(not_back(&gone, site));
                        self.stop_within(DEATH_GRACE_NS).await;
                    }
                }
                () = signals.next() => self.interrupted(&mut ending, planned).await,
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
        while let Some(row) = self.collector.row() {
            view.row(&row);
            self.collector.give_back(row);
        }
    }

    pub(super) async fn interrupted(&mut self, ending: &mut Ending, planned: Duration) {
        ending.interrupts += 1;
        if ending.interrupts == 1 {
            let after_s = clock::now().saturating_sub(self.phases.origin) as f64 / 1e9;
            ending
                .warnings
                .push(Warning::interrupted(after_s, planned.as_secs_f64()));
            self.stop_within(INTERRUPT_GRACE_NS).await;
        } else {
            self.stop_within(0).await;
        }
    }

    pub(super) async fn stop_within(&mut self, grace_ns: u64) {
        self.stop.ask(grace_ns);
        if let Some(processes) = &mut self.processes {
            processes.stop(grace_ns).await;
        }
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
