//! Performs one run: launch, check, load, drain, and one result with everything known about it.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::Context as _;
use measure::isolation::Isolation;
use measure::machine::Machine;
use measure::result::RunResult;
use measure::shard::Role;
use measure::threshold::Threshold;
use measure::warning::Warning;

pub(crate) mod conclude;
mod daemons;
mod early_end;
mod external;
mod faults;
mod flame_graphs;
mod live_outputs;
mod observe;
mod resource_monitor;
mod running_load;
pub(crate) mod running_share;
pub(crate) mod scrape;
mod seconds_spool;
mod shared_operations;
mod warnings;

pub use external::External;
pub use flame_graphs::Sampled;

use conclude::conclude;
use daemons::Daemons;
use external::ExternalProcesses;
use faults::Faults;
use flame_graphs::{CpuSamples, FlameGraphs};
use live_outputs::LiveOutputs;
use observe::observe;
use resource_monitor::ResourceMonitor;
use running_load::{LoadOutcome, RunningLoad};
use seconds_spool::SecondsSpool;
use warnings::measured_s;

use crate::divided::{ProgramId, PublishedDaemon};
use crate::exporter::Exporter;
use crate::live::LiveFile;
use crate::part::Part;
use crate::processes::Processes;
use crate::progress::Progress;
use crate::signals::Signals;
use crate::store::Folder;
use load::driver::{Checked, Driver, Target, ValidPlan};
use load::plan::{Invalid, Plan};
use load::schedule::Share;
use load::workers::WorkerRange;
use load::{clock, recorder};
use subject::cpus::Pinned;
use subject::daemon::Prepared as PreparedDaemon;
use subject::listeners::{self, Listeners, NotFound};
use subject::{disk, headroom, host};

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
    /// True prints the driver's own lines on stdout, where its summary follows.
    pub lines_on_stdout: bool,
    /// The address that launched daemons listen on; 127.0.0.1 if absent.
    pub listen: Option<IpAddr>,
    /// The CPUs and limits of driver and daemon.
    pub isolation: Isolation,
    /// The sides whose CPU samples are taken.
    pub flamegraph: Option<Sampled>,
    /// The part of this program in the run.
    pub part: Part,
}

impl Settings {
    /// Returns the number of workers of this program: none if it only launches the daemon.
    pub(crate) fn workers(&self) -> u64 {
        match self.part.role() {
            Role::Daemon => 0,
            Role::Load | Role::Both => self.processes * self.threads,
        }
    }

    /// Returns the workers of this process: none if it starts processes that have them.
    pub(crate) fn workers_here(&self) -> WorkerRange {
        if let Part::Process(pipe) = &self.part {
            return pipe.workers().clone();
        }
        WorkerRange {
            first: 0,
            count: if self.processes > 1 {
                0
            } else {
                self.workers()
            },
            total: self.processes * self.threads,
            shard: self.share(),
        }
    }

    /// Returns true if workers of other processes drive load beside the workers of this process, or instead of them.
    fn is_spread(&self) -> bool {
        self.workers() > 0 && !self.workers_here().is_all()
    }

    /// Returns the part of the load that this program drives.
    fn share(&self) -> Share {
        self.part.share()
    }
}

/// The subject of a run: a daemon that is launched for it, or one that runs already.
#[derive(Debug)]
pub enum Subject {
    /// A daemon that is launched for the run.
    Launched {
        /// The daemon.
        prepared: Box<PreparedDaemon>,
        /// Its name in the result: its own, or one that tells two versions of it apart.
        name: String,
    },
    /// A daemon that runs already.
    External(External),
}

impl Subject {
    /// Returns its name in reports.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Launched { name, .. } => name,
            Self::External(external) => &external.name,
        }
    }

    /// Returns the addresses of a daemon that runs already; the addresses of a launched one are not known before.
    #[must_use]
    pub(crate) fn target(&self) -> String {
        match self {
            Self::Launched { .. } => String::new(),
            Self::External(external) => addresses(&external.target),
        }
    }

    /// Returns the name of its folder of results.
    #[must_use]
    pub fn folder_name(&self) -> String {
        match self {
            Self::Launched { name, .. } => name.clone(),
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
    let mut prepared = prepare::<D>(load, subject, settings, folder, signals).await?;
    let mut started = start(&mut prepared, signals).await?;
    let ended = drive(&mut started, &mut prepared, signals).await;
    let hurried = ended.ending.is_hurried();
    let observed = observe(&mut prepared, started, ended).await?;
    let result = conclude::<D>(load, observed);
    prepared.daemons.close(folder, hurried, signals).await;
    Ok(result)
}

/// A run whose daemon is ready and has answered as the driver expects.
struct Prepared<'a, D: Driver> {
    load: &'a ValidPlan<D::Config>,
    subject: &'a Subject,
    settings: &'a Settings,
    folder: &'a Folder,
    driver: Arc<D>,
    daemons: Daemons,
    /// The processes behind each address of the target.
    listeners: Vec<Result<Listeners, NotFound>>,
    checked: Checked,
    machine: Machine,
    view: LiveOutputs,
    /// The plan as the result has it.
    plan: serde_json::Value,
    thresholds: Vec<Threshold>,
    /// The CPUs of this program, until the run has ended.
    _pinned: Option<Pinned>,
}

/// Launches the daemon, and checks its answers and the limits of both sides.
async fn prepare<'a, D: Driver>(
    load: &'a ValidPlan<D::Config>,
    subject: &'a Subject,
    settings: &'a Settings,
    folder: &'a Folder,
    signals: &mut Signals,
) -> anyhow::Result<Prepared<'a, D>> {
    let (plan, description) = (&load.plan, &load.description);
    let (stored, thresholds) = settings.part.plan::<D>(load)?;
    let machine = host::machine();
    let mut progress = Progress::new(plan, description, settings.quiet);
    let exporter = exporter(settings.metrics_addr, plan, subject, folder)?;
    let opening = Daemons::open(plan, subject, settings, &progress);
    let daemons = unless_interrupted(signals, opening).await??;
    let _pinned = pin(settings)?;
    // Before the check: the other parts connect to the daemon while this one checks the answers.
    settings.part.publish(|| PublishedDaemon {
        name: subject.name().to_owned(),
        target: daemons.target.clone(),
        by: ProgramId::this(&machine.hostname),
    })?;
    let driver = set_up::<D>(plan, subject, &daemons, settings)?;
    let mut checked = Checked::default();
    if settings.workers() > 0 {
        progress.step("checking the answers");
        let answers = check(&driver, signals).await?;
        checked = answers.map_err(|error| of_subject(error, subject))?;
    }
    let target = daemons.target.clone();
    let listeners = tokio::task::spawn_blocking(move || listeners::find(&target)).await?;
    let open_at_once = settings.share().count(description.open_at_once);
    headroom::require(&daemons.target, open_at_once, &listeners)?;
    // Not before: an error about the call, the daemon or the machine stands alone.
    if let Part::Whole = settings.part {
        progress.above(&description.sentence);
    }
    let held = description.audit_inputs.held;
    progress.count_opening(held.map(|held| settings.share().count(held)), load.spec);
    if let (Some(line), true) = (&description.announcement, settings.lines_on_stdout) {
        progress.above_second(line, true);
    }
    let view = LiveOutputs {
        progress,
        exporter,
        line: if settings.quiet {
            |_, _| None
        } else {
            D::live_line
        },
        lines_on_stdout: settings.lines_on_stdout,
        total: recorder::empty_tally(driver.as_ref(), load.spec),
        seconds: SecondsSpool::beside(folder)?,
        live: LiveFile::create(folder),
    };
    Ok(Prepared {
        load,
        subject,
        settings,
        folder,
        driver,
        daemons,
        listeners,
        checked,
        machine,
        view,
        plan: stored,
        thresholds,
        _pinned,
    })
}

fn set_up<D: Driver>(
    plan: &Plan<D::Config>,
    subject: &Subject,
    daemons: &Daemons,
    settings: &Settings,
) -> anyhow::Result<Arc<D>> {
    let driver = D::setup(plan, &daemons.target, &settings.workers_here()).map(Arc::new);
    // Nothing was asked yet: the manifest is wrong, or the call or the plan.
    match subject {
        Subject::Launched { name, .. } => {
            driver.context(format!("driving daemons/{name}/daemon.toml"))
        }
        Subject::External(_) => driver,
    }
}

/// Moves this program to its CPUs, if it has any. A daemon without CPUs of its own inherits what this program has, so it is
/// launched before. Workers and processes start later.
fn pin(settings: &Settings) -> anyhow::Result<Option<Pinned>> {
    let own = settings.isolation.driver_cpus.as_ref();
    let pinned = own.map(Pinned::to).transpose();
    pinned.context("moving to the CPUs of --driver-cpus")
}

/// Performs every operation once, in a thread of its own, so that a daemon that does not answer does not block the
/// handling of an interruption.
async fn check<D: Driver>(
    driver: &Arc<D>,
    signals: &mut Signals,
) -> anyhow::Result<anyhow::Result<Checked>> {
    let driver = Arc::clone(driver);
    let checking = tokio::task::spawn_blocking(move || driver.check());
    Ok(unless_interrupted(signals, checking).await??)
}

/// A run whose load has begun.
struct Started {
    running: RunningLoad,
    monitor: ResourceMonitor,
    flame_graphs: FlameGraphs,
    faults: Faults,
    steal: host::StealTime,
    /// True if the load had begun when the daemons' counters were read first.
    counts_began_late: bool,
    /// The processes of a daemon that ran already, as the result names them.
    process: Option<String>,
    /// Present if they are not known, or are not the processes that listen.
    processes_warning: Option<Warning>,
}

/// Begins the load, together with the other parts if the run is divided.
async fn start<D: Driver>(
    prepared: &mut Prepared<'_, D>,
    signals: &mut Signals,
) -> anyhow::Result<Started> {
    let (load, settings, folder) = (prepared.load, prepared.settings, prepared.folder);
    let (processes, processes_warning) = match prepared.subject {
        Subject::Launched { .. } => {
            let apart = prepared.daemons.listeners_apart(&prepared.listeners);
            (None, apart)
        }
        Subject::External(external) => ExternalProcesses::open(external, &prepared.listeners),
    };
    let process = processes.as_ref().map(ExternalProcesses::describe);
    let (daemons, host) = (&prepared.daemons, &prepared.machine.hostname);
    // The parts of a divided run start together, and do not wait for the disk.
    let is_local = prepared.listeners.iter().all(Result::is_ok);
    let is_watched = load.description.writes_durably && is_local;
    let disk = if is_watched && matches!(settings.part, Part::Whole) {
        prepared.view.progress.step("watching the disk");
        let watching = tokio::task::spawn_blocking(disk::Watch::open);
        Some(unless_interrupted(signals, watching).await??)
    } else {
        None
    };
    let of_daemon = processes.as_ref().map(ExternalProcesses::pids);
    let of_daemon = of_daemon.unwrap_or_else(|| daemons.pids());
    let (learned, target) = (&prepared.checked.learned, &daemons.target);
    // Before the common start of a divided run, which would not wait until they have built their drivers.
    let starting = Processes::start::<D>(load, settings, target, learned);
    let started = unless_interrupted(signals, starting).await??;
    let mut own = vec![std::process::id()];
    own.extend(started.iter().flat_map(Processes::pids));
    let sampling = FlameGraphs::start(settings, &of_daemon, &own, folder);
    let flame_graphs = unless_interrupted(signals, sampling).await??;
    let samplers = flame_graphs.pids();
    let monitoring = |siblings: Vec<u32>| {
        ResourceMonitor::open(
            daemons, load.spec, processes, siblings, &samplers, disk, folder,
        )
    };
    let starting = RunningLoad::start(&prepared.driver, load, settings, started, host);
    let (running, monitor) = match &settings.part {
        Part::Whole | Part::Process(_) => {
            let monitor = monitoring(Vec::new()).await?;
            (starting.await?, monitor)
        }
        // The parts check the daemon at different times, so its counters are read after the last check.
        Part::Divided(divided) => {
            let progress = &mut prepared.view.progress;
            progress.step("waiting for the other parts of the run");
            let running = unless_interrupted(signals, starting).await??;
            let monitor = monitoring(divided.siblings(host)).await?;
            (running, monitor)
        }
    };
    let is_divided = matches!(settings.part, Part::Divided(_));
    Ok(Started {
        counts_began_late: is_divided && clock::now() > running.share.start.origin,
        faults: Faults::new(&load.plan.faults, &running.share.phases),
        running,
        monitor,
        flame_graphs,
        steal: host::StealTime::start(),
        process,
        processes_warning,
    })
}

/// The end of a load.
struct Ended {
    ending: LoadOutcome,
    wall_s: f64,
    measured_s: f64,
    steal_pct: Option<f64>,
    cpu_samples: CpuSamples,
}

/// Watches the load until it ends.
async fn drive<D: Driver>(
    started: &mut Started,
    prepared: &mut Prepared<'_, D>,
    signals: &mut Signals,
) -> Ended {
    let Started {
        running,
        monitor,
        flame_graphs,
        faults,
        ..
    } = started;
    let (view, daemons) = (&mut prepared.view, &mut prepared.daemons);
    let planned = prepared.load.plan.planned();
    let ending = running
        .drive(view, daemons, monitor, faults, signals, planned)
        .await;
    let over = clock::now();
    let inputs = &prepared.load.description.audit_inputs;
    // A run that ends after a number of operations has no time after them.
    let idle_tail_s = inputs.load_s.map_or(0.0, |_| inputs.idle_tail_s);
    let requested_at = running.share.cancellation.requested_at();
    let mut ended = Ended {
        wall_s: over.saturating_sub(running.share.phases.origin) as f64 / 1e9,
        measured_s: measured_s(&running.share.phases, requested_at, over, idle_tail_s),
        steal_pct: started.steal.pct(),
        cpu_samples: CpuSamples::default(),
        ending,
    };
    let hurried = ended.ending.is_hurried();
    monitor.finish(daemons, hurried).await;
    let measured = running.share.phases.measure..running.share.phases.end.min(requested_at);
    let (pids, folder) = (running.share.pids(), prepared.folder);
    let drawing = std::mem::take(flame_graphs).finish(measured, &pids, folder, hurried, signals);
    ended.cpu_samples = drawing.await;
    view.progress.finish();
    ended
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
        Subject::Launched { prepared, .. } if !error.is::<headroom::CannotHold>() => {
            let name = prepared.name();
            anyhow::anyhow!("{error:#}\n  daemons/{name}/daemon.toml sets the address")
        }
        _ => error,
    }
}

/// Lists the addresses of a target as a result has them.
fn addresses(target: &Target) -> String {
    let addresses = target.addresses.iter().map(ToString::to_string);
    addresses.collect::<Vec<_>>().join(", ")
}

/// Starts the exporter of the driver's metrics, if it has an address.
fn exporter<C>(
    address: Option<SocketAddr>,
    plan: &Plan<C>,
    subject: &Subject,
    folder: &Folder,
) -> Result<Option<Exporter>, Invalid> {
    let Some(address) = address else {
        return Ok(None);
    };
    // The folder of a run has its number.
    let number = folder.path().file_name().unwrap_or_default();
    let labels = [
        ("plan", plan.name.clone()),
        ("daemon", subject.name().to_owned()),
        ("level", plan.level()),
        ("run", number.to_string_lossy().into_owned()),
    ];
    let exporter = Exporter::listen(address, &labels).map_err(|error| {
        let problem = format!("{error:#}: if the port is taken, choose another");
        Invalid::new(format!("--metrics-addr {address}"), problem)
    })?;
    Ok(Some(exporter))
}
