//! One run: launch, check, load, drain, and everything known about it in one result.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use measure::machine::Machine;
use measure::result::{
    DaemonInfo, Operations, RunResult, SCHEMA, Second, SeriesResult, Usage, owned,
};
use measure::tally::Tally;
use measure::usage::{Sample, UsageSummary};
use measure::warning::{Warning, verdict};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::collector::{Collector, Row};
use crate::daemon::{Daemon, Options as LaunchOptions, Prepared};
use crate::driver::{Driver, Phases, Stop, Target};
use crate::exporter::Exporter;
use crate::lanes::{Crew, Processes, Threads};
use crate::plan::{Invalid, Plan};
use crate::progress::{Progress, p99};
use crate::recorder::{Interval, MISSED, OK, STARTED, UNFINISHED, resident};
use crate::signals::Signals;
use crate::store::{self, Folder};
use crate::usage::{self, Sampler};
use crate::{clock, gauges, host};

/// Between the order to begin and the first start, so that all workers are waiting by then.
const HEAD_START_NS: u64 = 50_000_000;
/// What is open may take this long after Ctrl-C; a second one takes it away.
const INTERRUPT_GRACE_NS: u64 = 5_000_000_000;
/// What is open may take this long once the daemon has ended: its sockets are closed already.
const DEATH_GRACE_NS: u64 = 1_000_000_000;
/// Lines of the daemon's log that are shown when it dies.
const LAST_LINES: usize = 20;

/// The daemon's metrics by name.
type Gauges = BTreeMap<String, f64>;

/// How a run is made, beside its plan.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Processes of the driver, 1 for none but this one.
    pub processes: u64,
    /// Worker threads of each process.
    pub threads: u64,
    /// Address of the driver's own `/metrics`.
    pub metrics_addr: Option<SocketAddr>,
    /// No live line.
    pub quiet: bool,
}

/// What is driven: a daemon that is launched for the run, or one that runs already.
#[derive(Debug)]
pub enum Subject {
    /// Launched afresh.
    Launched(Box<Prepared>),
    /// Running already at a target.
    External(Target),
}

impl Subject {
    /// The name of its folder of results.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Launched(prepared) => prepared.name(),
            Self::External(_) => "external",
        }
    }
}

/// Runs a plan once and writes its result into `folder`.
///
/// # Errors
/// What keeps the load from beginning. Once it has begun there is a result, whatever happens.
pub async fn run<D: Driver>(
    plan: &Plan<D::Config>,
    subject: &Subject,
    settings: &Settings,
    folder: &Folder,
    signals: &mut Signals,
) -> anyhow::Result<(RunResult, PathBuf)> {
    let machine = host::machine();
    let progress = Progress::new(plan.planned(), settings.quiet);
    let exporter = settings.metrics_addr.map(exporter).transpose()?;
    let mut site = Site::open(plan, subject, &progress).await?;
    progress.step("checking the answers");
    let driver = Arc::new(D::setup(plan, &site.target)?);
    driver.check().context(
        "the check before the run failed: a measurement of a wrong answer is worth nothing",
    )?;
    let before = site.scrape().await;

    let mut load = Load::start(&driver, plan, &site.target, settings).await?;
    let mut watch = Watch::new::<D>(&site, driver.daemon_pid(), before.as_ref(), folder)?;
    let began_unix = clock::unix_ns();
    let steal = host::Steal::start();
    let mut view = View {
        progress,
        exporter,
        response: D::SERIES[D::RESPONSE.0],
        total: resident(D::SERIES),
        seconds: Vec::new(),
    };
    let ending = load
        .follow(&mut view, &mut site, &mut watch, signals, plan.planned())
        .await;
    let wall_s = clock::now().saturating_sub(load.phases.origin) as f64 / 1e9;
    let steal_pct = steal.pct();
    watch.sample(&mut site).await;
    let after = site.scrape().await;
    view.progress.finish();

    let mut warnings = ending.warnings;
    let operations = operations(&view);
    warnings.extend(doubts::<D>(
        &view,
        &operations,
        &load,
        &machine,
        steal_pct,
        wall_s,
    ));
    warnings.extend(audit::<D>(before.as_ref(), after.as_ref(), &view.total));
    warnings.sort_by_key(|warning| std::cmp::Reverse(warning.severity));
    let result = RunResult {
        schema: SCHEMA,
        run_id: format!("{began_unix:x}-{:x}", std::process::id()),
        driver: D::NAME.to_owned(),
        started_at: store::timestamp_of(began_unix),
        wall_s,
        plan: serde_json::to_value(plan)?,
        plan_sentence: D::sentence(plan),
        daemon: site.info(subject),
        machine: Machine {
            steal_pct,
            ..machine
        },
        processes: settings.processes,
        threads: settings.processes * settings.threads,
        verdict: verdict(&warnings),
        warnings,
        operations,
        counts: owned(&view.total.counts),
        errors: owned(&view.total.errors),
        series: view
            .total
            .series()
            .filter_map(|(name, values)| SeriesResult::of(name, values))
            .collect(),
        lag: SeriesResult::of("lag", &view.total.lag),
        seconds: view.seconds,
        usage: watch.summary(),
    };
    site.close(folder).await;
    let path = folder.write_result(&result)?;
    Ok((result, path))
}

fn exporter(address: SocketAddr) -> Result<Exporter, Invalid> {
    Exporter::listen(address).map_err(|error| {
        let problem = format!("{error:#}: is the port taken? Name another");
        Invalid::new(format!("--metrics-addr {address}"), problem)
    })
}

/// The daemon of a run.
#[derive(Debug)]
struct Site {
    daemon: Option<Daemon>,
    target: Target,
    died: bool,
}

impl Site {
    async fn open<C>(
        plan: &Plan<C>,
        subject: &Subject,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        let prepared = match subject {
            Subject::External(target) => {
                return Ok(Self {
                    daemon: None,
                    target: target.clone(),
                    died: false,
                });
            }
            Subject::Launched(prepared) => prepared,
        };
        progress.step(&format!("starting {}", prepared.name()));
        let env: Vec<(String, String)> = plan
            .daemon_env
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let daemon = prepared.start(&env, &LaunchOptions::default()).await?;
        let socket = daemon.endpoint().socket.clone().with_context(|| {
            format!(
                "daemons/{}/daemon.toml: has no {{socket}} to drive",
                prepared.name()
            )
        })?;
        Ok(Self {
            daemon: Some(daemon),
            target: Target { socket },
            died: false,
        })
    }

    /// The daemon's gauges and counters, where it publishes them.
    async fn scrape(&self) -> Option<Gauges> {
        let daemon = self.daemon.as_ref().filter(|_| !self.died)?;
        gauges::scrape(daemon.endpoint().metrics.as_deref()?)
            .await
            .ok()
    }

    /// Completes when the daemon dies by itself, once.
    async fn death(&self) -> String {
        match &self.daemon {
            Some(daemon) if !self.died => daemon.exited().await,
            _ => std::future::pending().await,
        }
    }

    fn info(&self, subject: &Subject) -> DaemonInfo {
        let about = match subject {
            Subject::Launched(prepared) => Some(prepared.manifest().about.clone()),
            Subject::External(_) => None,
        };
        DaemonInfo {
            name: subject.name().to_owned(),
            about,
            version: self
                .daemon
                .as_ref()
                .and_then(|daemon| daemon.version().map(str::to_owned)),
            target: self.target.socket.display().to_string(),
        }
    }

    /// Stops the daemon and keeps its log beside the result.
    async fn close(&mut self, folder: &Folder) {
        if let Some(daemon) = &mut self.daemon {
            daemon.stop().await;
            // The log helps; a result is complete without it.
            let _ = std::fs::copy(daemon.log_path(), folder.path().join("daemon.log"));
        }
    }
}

/// The workers at work.
#[derive(Debug)]
struct Load {
    phases: Phases,
    stop: Arc<Stop>,
    intervals: UnboundedReceiver<Interval>,
    collector: Collector,
    threads: Option<Threads>,
    processes: Option<Processes>,
    workers: u64,
}

/// How the load ended.
#[derive(Debug, Default)]
struct Ending {
    warnings: Vec<Warning>,
    interrupts: u64,
}

impl Load {
    async fn start<D: Driver>(
        driver: &Arc<D>,
        plan: &Plan<D::Config>,
        target: &Target,
        settings: &Settings,
    ) -> anyhow::Result<Self> {
        let (send, intervals) = tokio::sync::mpsc::unbounded_channel();
        let stop = Arc::new(Stop::new()?);
        let workers = settings.processes * settings.threads;
        let collector = Collector::new(workers, D::SERIES);
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
    async fn follow(
        &mut self,
        view: &mut View,
        site: &mut Site,
        watch: &mut Watch,
        signals: &mut Signals,
        planned: Duration,
    ) -> Ending {
        let mut ending = Ending::default();
        let mut every_second = tokio::time::interval(Duration::from_secs(1));
        while !self.collector.over() {
            tokio::select! {
                Some(interval) = self.intervals.recv() => self.take(interval, view),
                _ = every_second.tick() => watch.sample(site).await,
                () = signals.next() => self.interrupted(&mut ending, planned).await,
                status = site.death() => {
                    site.died = true;
                    let last_lines = site.daemon.as_ref().map(|daemon| daemon.last_lines(LAST_LINES)).unwrap_or_default();
                    ending.warnings.push(Warning::daemon_died(&status, &last_lines));
                    self.stop_within(DEATH_GRACE_NS).await;
                }
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

    fn take(&mut self, interval: Interval, view: &mut View) {
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

    async fn interrupted(&mut self, ending: &mut Ending, planned: Duration) {
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

    async fn stop_within(&mut self, grace_ns: u64) {
        self.stop.ask(grace_ns);
        if let Some(processes) = &mut self.processes {
            processes.stop(grace_ns).await;
        }
    }
}

/// Everything that is shown and kept of the seconds.
#[derive(Debug)]
struct View {
    progress: Progress,
    exporter: Option<Exporter>,
    response: &'static str,
    total: Tally,
    seconds: Vec<Second>,
}

impl View {
    fn row(&mut self, row: &Row) {
        self.progress.row(row, p99(&row.tally, self.response));
        if let Some(exporter) = &self.exporter {
            exporter.row(row);
        }
        self.total.merge(&row.tally);
        self.seconds.push(row.result());
    }
}

/// Samples what daemon and driver cost, into `resources.csv` and for the result.
#[derive(Debug)]
struct Watch {
    daemon: Option<Sampler>,
    driver: Sampler,
    daemon_samples: Vec<Sample>,
    driver_samples: Vec<Sample>,
    /// Largest value of each metric of the daemon.
    gauges: Gauges,
    /// The metric in the last of the reference's columns.
    active: &'static str,
    /// The metrics that have a column of their own: those that the page had before the load.
    columns: Vec<String>,
    csv: File,
}

impl Watch {
    fn new<D: Driver>(
        site: &Site,
        external: Option<u32>,
        before: Option<&Gauges>,
        folder: &Folder,
    ) -> anyhow::Result<Self> {
        let columns: Vec<String> = before
            .into_iter()
            .flat_map(BTreeMap::keys)
            .cloned()
            .collect();
        let header: Vec<&str> = std::iter::once(usage::csv_header())
            .chain(columns.iter().map(String::as_str))
            .collect();
        let mut csv = folder.create("resources.csv")?;
        writeln!(csv, "{}", header.join(","))?;
        let own = site
            .daemon
            .as_ref()
            .map(Daemon::own_pids)
            .unwrap_or_default();
        Ok(Self {
            daemon: site
                .daemon
                .as_ref()
                .map(Daemon::pid)
                .or(external)
                .map(|pid| Sampler::new(pid, &[])),
            driver: Sampler::new(std::process::id(), &own),
            daemon_samples: Vec::new(),
            driver_samples: Vec::new(),
            gauges: Gauges::new(),
            active: D::ACTIVE_METRIC,
            columns,
            csv,
        })
    }

    async fn sample(&mut self, site: &mut Site) {
        let now = clock::now();
        let driver = self.driver.sample(now);
        // A daemon that has died leaves no sample of zeros behind.
        let daemon = self
            .daemon
            .as_mut()
            .filter(|_| !site.died)
            .map(|sampler| sampler.sample(now));
        let gauges = site.scrape().await.unwrap_or_default();
        // Rows are for looking at: a full disk must not end the run.
        let _ = writeln!(self.csv, "{}", self.row(daemon.as_ref(), &driver, &gauges));
        for (name, value) in gauges {
            let peak = self.gauges.entry(name).or_insert(value);
            *peak = peak.max(value);
        }
        self.driver_samples.push(driver);
        self.daemon_samples.extend(daemon);
    }

    fn row(&self, daemon: Option<&Sample>, driver: &Sample, gauges: &Gauges) -> String {
        let unknown = Sample {
            unix_ns: driver.unix_ns,
            ..Sample::default()
        };
        let active = gauges.get(self.active).copied();
        let mut row = usage::csv_row(daemon.unwrap_or(&unknown), active, Some(driver));
        for name in &self.columns {
            row.push(',');
            row.extend(gauges.get(name).map(f64::to_string));
        }
        row
    }

    fn summary(self) -> Usage {
        let sum = |samples: &[Sample]| {
            (!samples.is_empty()).then(|| UsageSummary::of(samples, usage::ticks_per_s()))
        };
        let daemon = sum(&self.daemon_samples).map(|summary| UsageSummary {
            gauges_peak: self.gauges,
            ..summary
        });
        Usage {
            daemon,
            driver: sum(&self.driver_samples),
        }
    }
}

fn operations(view: &View) -> Operations {
    let counted = |name| view.total.counted(name);
    Operations {
        started: counted(STARTED),
        ok: counted(OK),
        failed: view.total.errors.values().sum(),
        unfinished: counted(UNFINISHED),
        missed: counted(MISSED),
        peak_active: view
            .seconds
            .iter()
            .map(|second| second.active_peak)
            .max()
            .unwrap_or(0),
    }
}

/// What speaks against the figures.
fn doubts<D: Driver>(
    view: &View,
    operations: &Operations,
    load: &Load,
    machine: &Machine,
    steal_pct: Option<f64>,
    wall_s: f64,
) -> Vec<Warning> {
    let lag_p99 = view.total.lag.quantile(0.99).unwrap_or(0);
    let response = view.total.of(D::RESPONSE);
    let mut found = vec![
        Warning::generator_late(lag_p99, response.quantile(0.99)),
        Warning::generator_cpu_bound(load.collector.busiest_pct((wall_s * 1e9) as u64)),
        Warning::unfinished(operations.unfinished),
        Warning::missed(operations.missed),
        Warning::few_samples(D::SERIES[D::RESPONSE.0], response.len()),
        Warning::noisy_host(machine.load1, machine.cpus, steal_pct),
        cfg!(debug_assertions).then(Warning::debug_build),
    ];
    if !operations.add_up() {
        let accounted = operations.ok + operations.failed + operations.unfinished;
        found.push(Some(Warning::counts_disagree(
            "operations begun and operations accounted for",
            operations.started,
            accounted,
        )));
    }
    found.into_iter().flatten().collect()
}

/// Holds our counts against the daemon's own.
fn audit<D: Driver>(
    before: Option<&Gauges>,
    after: Option<&Gauges>,
    total: &Tally,
) -> Vec<Warning> {
    let (Some(before), Some(after)) = (before, after) else {
        return Vec::new();
    };
    let differs = |(metric, name): &(&str, &str)| {
        let daemon = (after.get(*metric)? - before.get(*metric).unwrap_or(&0.0)) as u64;
        let driver = total.counted(name);
        (driver != daemon).then(|| Warning::counts_disagree(name, driver, daemon))
    };
    D::AUDIT.iter().filter_map(differs).collect()
}
