//! Performs one run: launch, check, load, drain, and one result with everything known about it.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use measure::audit;
use measure::machine::Machine;
use measure::result::{AuditInputs, DaemonInfo, Operations, RunResult, SCHEMA, SeriesResult};
use measure::shard::{Role, RunPart};
use measure::tally::owned;
use measure::threshold::Threshold;
use measure::throughput::{Offer, Throughput};
use measure::warning::{Verdict, Warning};

mod daemons;
mod external;
mod faults;
mod live_outputs;
mod resource_monitor;
mod running_load;
pub(crate) mod scrape;
mod seconds_spool;
mod shared_operations;
pub(crate) mod warnings;

pub use external::External;

use daemons::Daemons;
use external::ExternalProcesses;
use faults::Faults;
use live_outputs::LiveOutputs;
use resource_monitor::ResourceMonitor;
use running_load::RunningLoad;
use seconds_spool::SecondsSpool;
use warnings::{compared, counter_warnings, disturbances, measured_s, run_warnings, slowest_ns};

use crate::divided::{DividedRun, Program, PublishedDaemon};
use crate::exporter::Exporter;
use crate::live::LiveFile;
use crate::progress::Progress;
use crate::signals::Signals;
use crate::store::{self, Folder};
use load::driver::{Checked, Driver, Findings, Target, ValidPlan};
use load::plan::Invalid;
use load::schedule::Share;
use load::workers::WorkerRange;
use load::{clock, recorder};
use subject::daemon::Prepared;
use subject::{headroom, host, listeners};

/// The daemon's metrics by name.
type Gauges = BTreeMap<String, f64>;

/// Settings of a run that are not in its plan.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Number of driver processes; 1 means only this one.
    pub processes: u64,
    /// Worker threads of each process.
    pub threads: u64,
    /// Address of the driver's own `/metrics`.
    pub metrics_addr: Option<SocketAddr>,
    /// True hides the live line.
    pub quiet: bool,
    /// The address that launched daemons listen on; 127.0.0.1 if absent.
    pub listen: Option<IpAddr>,
    /// The part of this program in a divided run; absent if the run is not divided.
    pub divided: Option<DividedRun>,
}

impl Settings {
    /// Returns the task of this program.
    fn role(&self) -> Role {
        self.divided.as_ref().map_or(Role::Both, DividedRun::role)
    }

    /// Returns the workers of this process: none if it only launches the daemon, or starts processes that have them.
    fn workers_here(&self) -> WorkerRange {
        let total = self.processes * self.threads;
        WorkerRange {
            first: 0,
            count: match (self.role(), self.processes) {
                (Role::Daemon, _) | (_, 2..) => 0,
                _ => total,
            },
            total,
            shard: self.share(),
        }
    }

    /// Returns true if workers of other processes have a part in the run.
    fn is_spread(&self) -> bool {
        self.processes > 1 || self.share().of > 1
    }

    /// Returns the part of the load that this program drives.
    fn share(&self) -> Share {
        self.divided.as_ref().map_or(Share::ALL, DividedRun::share)
    }
}

/// The subject of a run: a daemon that is launched for it, or one that runs already.
#[derive(Debug)]
pub enum Subject {
    /// A daemon that is launched for the run.
    Launched(Box<Prepared>),
    /// A daemon that runs already.
    External(External),
}

impl Subject {
    /// Returns its name in reports.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Launched(prepared) => prepared.name(),
            Self::External(external) => &external.name,
        }
    }

    /// Returns the addresses of a daemon that runs already; the addresses of a launched one are not known before.
    #[must_use]
    pub(crate) fn target(&self) -> String {
        match self {
            Self::Launched(_) => String::new(),
            Self::External(external) => addresses(&external.target),
        }
    }

    /// Returns the name of its folder of results.
    #[must_use]
    pub fn folder_name(&self) -> String {
        match self {
            Self::Launched(prepared) => prepared.name().to_owned(),
            Self::External(external) => external.folder_name(),
        }
    }
}

/// Runs a plan once. Files besides the result are written to `folder` during the run.
///
/// # Errors
/// A problem that keeps the load from beginning. Once it has begun there is a result, whatever happens.
pub async fn run<D: Driver>(
    load: &ValidPlan<D::Config>,
    subject: &Subject,
    settings: &Settings,
    folder: &Folder,
    signals: &mut Signals,
) -> anyhow::Result<RunResult> {
    let ValidPlan { plan, description } = load;
    let divided = settings.divided.as_ref();
    let stored = match divided {
        Some(divided) => divided.plan.clone(),
        None => plan.clone().untyped()?.to_json()?,
    };
    // Thresholds are for the whole load.
    let thresholds = match divided {
        Some(_) => Vec::new(),
        None => plan.thresholds(D::SPEC)?,
    };
    let drives_load = settings.role() != Role::Daemon;
    let machine = host::machine();
    let mut progress = Progress::new(plan, description, settings.quiet);
    // The folder of a run has its number.
    let number = folder.path().file_name().unwrap_or_default();
    let labels = [
        ("plan", plan.name.clone()),
        ("daemon", subject.name().to_owned()),
        ("level", plan.level()),
        ("run", number.to_string_lossy().into_owned()),
    ];
    let exporter = settings.metrics_addr;
    let exporter = exporter
        .map(|address| exporter_at(address, &labels))
        .transpose()?;
    let mut daemons = unless_interrupted(
        signals,
        Daemons::open(plan, subject, settings.listen, &progress),
    )
    .await??;
    if let (Some(divided), Role::Daemon) = (divided, settings.role()) {
        divided.publish(&PublishedDaemon {
            name: subject.name().to_owned(),
            target: daemons.target.clone(),
            by: Program::this(&machine.hostname),
        })?;
    }
    let of_subject = |error| of_subject(error, subject);
    let workers = settings.workers_here();
    let driver = Arc::new(D::setup(plan, &daemons.target, &workers).map_err(of_subject)?);
    let mut checked = Checked::default();
    if drives_load {
        progress.step("checking the answers");
        // A thread of its own, so that a daemon that does not answer does not block the handling of an interruption.
        let checking = {
            let driver = Arc::clone(&driver);
            tokio::task::spawn_blocking(move || driver.check())
        };
        let done = unless_interrupted(signals, checking).await?;
        checked = done?.map_err(of_subject)?;
    }
    let found = {
        let target = daemons.target.clone();
        tokio::task::spawn_blocking(move || listeners::find(&target)).await?
    };
    let open_at_once = settings.share().count(description.open_at_once);
    headroom::require(&daemons.target, open_at_once, &found)?;
    let (processes, unknown) = match subject {
        Subject::Launched(_) => (None, None),
        Subject::External(external) => ExternalProcesses::open(external, &found),
    };
    let described = processes.as_ref().map(ExternalProcesses::describe);

    let held = description.audit_inputs.held;
    progress.count_opening(held.map(|held| settings.share().count(held)), D::SPEC);
    let monitoring =
        |siblings: Vec<u32>| ResourceMonitor::open(&daemons, D::SPEC, processes, siblings, folder);
    let (target, learned) = (&daemons.target, &checked.learned);
    let host = &machine.hostname;
    let starting = RunningLoad::start(&driver, load, settings, target, learned, host);
    let (mut running, mut monitor) = match divided {
        None => {
            let monitor = monitoring(Vec::new()).await?;
            (starting.await?, monitor)
        }
        // The parts check the daemon at different times, so its counters are read after the last check.
        Some(divided) => {
            progress.step("waiting for the other parts of the run");
            let running = unless_interrupted(signals, starting).await??;
            (running, monitoring(divided.siblings(host)).await?)
        }
    };
    let start = running.common_start;
    let began_unix = start.map_or_else(clock::unix_ns, |start| start.unix_ns);
    let steal = host::StealTime::start();
    let mut view = LiveOutputs {
        progress,
        exporter,
        line: if settings.quiet {
            |_, _| None
        } else {
            D::live_line
        },
        total: recorder::empty_tally(driver.as_ref()),
        seconds: SecondsSpool::beside(folder)?,
        live: LiveFile::create(folder),
    };
    let mut faults = Faults::new(&plan.faults, &running.phases);
    let ending = running
        .drive(
            &mut view,
            &mut daemons,
            &mut monitor,
            &mut faults,
            signals,
            plan.planned(),
        )
        .await;
    let over = clock::now();
    let wall_s = over.saturating_sub(running.phases.origin) as f64 / 1e9;
    let measured_s = measured_s(&running.phases, running.cancellation.requested_at(), over);
    let steal_pct = steal.pct();
    monitor.finish(&daemons, ending.is_hurried()).await;
    view.progress.finish();

    let (ended_by, hurried) = (ending.reason(), ending.is_hurried());
    let mut warnings = ending.warnings;
    let (mut seconds, lost) = view.seconds.read_back();
    let mut cleaned = None;
    // The last part to leave cleans up: the others are done with the daemon then.
    let is_last = || divided.is_none_or(|divided| divided.leave().unwrap_or(false));
    if drives_load && settings.is_spread() && is_last() {
        let driver = Arc::clone(&driver);
        let cleaning = tokio::task::spawn_blocking(move || driver.clean_up());
        // What it did not do, and why, is on stderr.
        cleaned = cleaning.await.ok().and_then(Result::ok).flatten();
    }
    let shared = running.ledgers(driver.as_ref()).await?;
    let shares_operations = shared.is_some();
    let mut ledgers = 0;
    if let Some(mut lines) = shared {
        ledgers = lines.len() as u64;
        lines.extend(cleaned);
        if divided.is_none() {
            let is_complete = ledgers == settings.processes;
            let mut lines = lines.into_iter().map(Ok);
            let settled = D::settle(plan, &mut lines, is_complete, &view.total)
                .and_then(|settled| Ok(settled.apply(&mut view.total, &mut seconds)?));
            warnings.extend(
                settled
                    .err()
                    .map(|error| Warning::ledger_lost(&format!("{error:#}"))),
            );
        } else if let Err(error) = folder.write_ledgers(&lines) {
            ledgers = 0;
            warnings.push(Warning::ledger_lost(&error.to_string()));
        }
    }
    warnings.extend(lost.map(|why| Warning::seconds_lost(&why)));
    let operations = Operations::from_tally(&view.total, &seconds);
    warnings.extend(Warning::unfinished(operations.unfinished, ended_by));
    warnings.extend(unknown);
    warnings.extend(monitor.changed_processes(running.phases.origin));
    warnings.extend(faults.not_injected());
    let part = divided.zip(start).map(|(divided, start)| RunPart {
        late_ns: running.late_ns,
        measured: view.total.measured.clone(),
        shares_operations,
        ledgers,
        ..divided.part(&start)
    });
    if let Some(part) = &part {
        warnings.extend(Warning::shard_late(part.late_ns));
    }
    let findings = match drives_load {
        true => D::findings(plan, &view.total),
        false => Findings::default(),
    };
    if drives_load {
        warnings.extend(run_warnings::<D>(&view.total, &operations, load));
    }
    let compared = compared(
        D::SPEC,
        |metric, _| monitor.daemon_counters.counted(metric),
        &findings.bounds,
        &view.total,
        running.collector.failures().next().is_some(),
    );
    // The daemon has served all shards, or none of this program.
    if divided.is_none() {
        warnings.extend(counter_warnings(&compared));
    }
    warnings.extend(daemons.without_counters(D::SPEC, &compared));
    warnings.extend(findings.warnings);
    // Unix sockets have their own queues, which the watch reads.
    if daemons.target.sockets().is_empty()
        && let Some(system) = monitor.system()
    {
        warnings.extend(system.warnings(slowest_ns(&view.total)));
    }
    warnings.extend(
        monitor
            .lost_rows
            .as_ref()
            .map(|error| Warning::rows_lost(&error.to_string())),
    );
    // The seconds of opening and warm-up are in no figure.
    let warmup_s = (running.phases.measure - running.phases.origin) as f64 / 1e9;
    if shares_operations && divided.is_some() {
        // The others are about outcomes, which only the sum of all parts has.
        warnings.retain(|warning| warning.kind.is_local());
    }
    let (usage, services, resources) = monitor.summary(running.phases.origin, warmup_s, &seconds);
    let audit_inputs = AuditInputs {
        worker_cpu_pct: Some(running.collector.busiest_pct((wall_s * 1e9) as u64)),
        compared,
        opening: running.opening_time(description.opening),
        ..description.audit_inputs.clone()
    };
    let machine = Machine {
        steal_pct,
        ..machine
    };
    warnings.extend(disturbances(
        &machine,
        &usage,
        &services,
        description.busy_waits,
        &audit_inputs,
        running.workers,
    ));
    let offer = Offer::new(description.is_open_loop, &operations, description.longest);
    let throughput = Throughput::new(&view.total.measured, measured_s, &offer, D::SPEC);
    // Of shared operations, another part may have offered those that ended in this one.
    let is_whole = !shares_operations || divided.is_none();
    warnings.extend(throughput.backlog_note(&operations).filter(|_| is_whole));
    let mut result = RunResult {
        schema: SCHEMA,
        run_id: match (divided, start) {
            (Some(divided), Some(start)) => divided.run_id(&start),
            _ => format!("{began_unix:x}-{:x}", std::process::id()),
        },
        driver: D::SPEC.driver.clone().into_owned(),
        spec: D::SPEC.clone(),
        started_at: store::timestamp_of(began_unix),
        wall_s,
        plan: stored,
        phases: Some(plan.phases()),
        plan_sentence: description.sentence.clone(),
        level: plan.level(),
        daemon: DaemonInfo {
            process: described,
            ..daemons.info(subject)
        },
        machine,
        processes: settings.processes,
        threads: settings.processes * settings.threads,
        verdict: Verdict::Valid,
        warnings,
        operations,
        throughput: Some(throughput),
        counts: owned(&view.total.counts),
        errors: owned(&view.total.errors),
        series: view
            .total
            .series()
            .filter_map(|(name, values)| SeriesResult::from_distribution(name, values))
            .collect(),
        lag: SeriesResult::from_distribution("lag", &view.total.lag),
        seconds,
        usage,
        services,
        resources,
        thresholds: Vec::new(),
        faults: faults.done,
        answer: checked.answer,
        imported: None,
        audit_inputs,
        part,
        shards: Vec::new(),
    };
    audit::judge(&mut result);
    Threshold::judge_all(&thresholds, &mut result);
    result.redact();
    daemons.close(folder, hurried, signals).await;
    Ok(result)
}

/// Waits for a step before the load.
///
/// # Errors
/// A signal asks the run to end during the step.
pub(crate) async fn unless_interrupted<T>(
    signals: &mut Signals,
    step: impl Future<Output = T>,
) -> anyhow::Result<T> {
    tokio::select! {
        done = step => Ok(done),
        () = signals.next() => anyhow::bail!("interrupted before the load began: nothing was measured"),
    }
}

/// Turns errors of a daemon that was launched for the run into run failures, even if the driver reported them as
/// `Invalid`.
fn of_subject(error: anyhow::Error, subject: &Subject) -> anyhow::Error {
    match subject {
        Subject::Launched(_) if !error.is::<headroom::CannotHold>() => {
            anyhow::Error::msg(format!("{error:#}"))
        }
        _ => error,
    }
}

/// Lists the addresses of a target as a result has them.
fn addresses(target: &Target) -> String {
    let addresses = target.addresses.iter().map(ToString::to_string);
    addresses.collect::<Vec<_>>().join(", ")
}

fn exporter_at(address: SocketAddr, labels: &[(&str, String)]) -> Result<Exporter, Invalid> {
    Exporter::listen(address, labels).map_err(|error| {
        let problem = format!("{error:#}: if the port is taken, choose another");
        Invalid::new(format!("--metrics-addr {address}"), problem)
    })
}
