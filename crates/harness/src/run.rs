//! One run: launch, check, load, drain, and everything known about it in one result.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use measure::audit;
use measure::machine::Machine;
use measure::result::{Facts, RunResult, SCHEMA, SeriesResult, owned};
use measure::warning::{Verdict, Warning};

mod faults;
mod judge;
mod load;
mod pages;
mod rows;
mod site;
mod watch;

use faults::Faults;
use judge::{compared, disagreements, doubts, measured_s, operations, slowest_ns};
use load::{Load, View};
use rows::Rows;
use site::Site;
use watch::Watch;

use crate::daemon::Prepared;
use crate::driver::{Driver, Target};
use crate::exporter::Exporter;
use crate::plan::{Invalid, Plan};
use crate::progress::Progress;
use crate::signals::Signals;
use crate::store::{self, Folder};
use crate::{clock, host, recorder};

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

/// Runs a plan once; what lies beside its result goes into `folder` while it runs.
///
/// # Errors
/// What keeps the load from beginning. Once it has begun there is a result, whatever happens.
pub async fn run<D: Driver>(
    plan: &Plan<D::Config>,
    subject: &Subject,
    settings: &Settings,
    folder: &Folder,
    signals: &mut Signals,
) -> anyhow::Result<RunResult> {
    let stored = serde_json::to_value(plan)?;
    let thresholds = plan.thresholds(D::SERIES, D::ERRORS)?;
    let machine = host::machine();
    let progress = Progress::new(plan.planned(), settings.quiet);
    let exporter = settings.metrics_addr.map(exporter).transpose()?;
    let mut site = Site::open(plan, subject, &progress).await?;
    progress.step("checking the answers");
    let of_subject = |error| of_subject(error, subject);
    let driver = Arc::new(D::setup(plan, &site.target).map_err(of_subject)?);
    driver.check().map_err(of_subject).context(
        "the check before the run failed: a measurement of a wrong answer is worth nothing",
    )?;

    let mut watch = Watch::open::<D>(&site, driver.daemon_pid(), folder).await?;
    let mut load = Load::start(&driver, plan, &site.target, settings).await?;
    let began_unix = clock::unix_ns();
    let steal = host::Steal::start();
    let mut view = View {
        progress,
        exporter,
        response: D::SERIES[D::response(plan).0],
        line: if settings.quiet { |_, _| None } else { D::line },
        total: recorder::clean(driver.as_ref()),
        rows: Rows::beside(folder)?,
    };
    let mut faults = Faults::new(&plan.faults, load.phases.origin);
    let ending = load
        .follow(
            &mut view,
            &mut site,
            &mut watch,
            &mut faults,
            signals,
            plan.planned(),
        )
        .await;
    let wall_s = clock::now().saturating_sub(load.phases.origin) as f64 / 1e9;
    let steal_pct = steal.pct();
    watch.finish(&site).await;
    view.progress.finish();

    let mut warnings = ending.warnings;
    let (seconds, lost) = view.rows.read_back();
    warnings.extend(lost.map(|why| Warning::seconds_lost(&why)));
    let operations = operations(&view.total, &seconds);
    warnings.extend(doubts::<D>(
        &view.total,
        &operations,
        plan,
        &load,
        &machine,
        steal_pct,
        wall_s,
    ));
    let compared = compared::<D>(&watch.ledger, &view.total);
    warnings.extend(disagreements(&compared));
    warnings.extend(D::doubts(plan, &view.total));
    // Unix sockets have queues of their own, which the watch asks for.
    if site.target.sockets().is_empty()
        && let Some(system) = watch.system()
    {
        warnings.extend(system.doubts(slowest_ns(&view.total)));
    }
    warnings.extend(
        watch
            .lost_rows
            .as_ref()
            .map(|error| Warning::rows_lost(&error.to_string())),
    );
    let (usage, resources) = watch.summary(load.phases.origin);
    let mut result = RunResult {
        schema: SCHEMA,
        run_id: format!("{began_unix:x}-{:x}", std::process::id()),
        driver: D::NAME.to_owned(),
        started_at: store::timestamp_of(began_unix),
        wall_s,
        plan: stored,
        plan_sentence: D::sentence(plan),
        level: plan.level(),
        daemon: site.info(subject),
        machine: Machine {
            steal_pct,
            ..machine
        },
        processes: settings.processes,
        threads: settings.processes * settings.threads,
        verdict: Verdict::Valid,
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
        seconds,
        usage,
        resources,
        thresholds: Vec::new(),
        faults: faults.done,
        answer: driver.answer(),
        imported: None,
        facts: Facts {
            worker_cpu_pct: Some(load.collector.busiest_pct((wall_s * 1e9) as u64)),
            compared,
            ..D::facts(plan)
        },
    };
    audit::judge(&mut result);
    let measured_s = measured_s(plan.timeline, wall_s);
    result.thresholds = thresholds
        .iter()
        .map(|threshold| threshold.judge(&result, measured_s))
        .collect();
    site.close(folder).await;
    Ok(result)
}

/// What a daemon does wrong that was launched for the run is no mistake of the call, whatever field the driver names.
fn of_subject(error: anyhow::Error, subject: &Subject) -> anyhow::Error {
    match subject {
        Subject::Launched(_) => anyhow::Error::msg(format!("{error:#}")),
        Subject::External(_) => error,
    }
}

fn exporter(address: SocketAddr) -> Result<Exporter, Invalid> {
    Exporter::listen(address).map_err(|error| {
        let problem = format!("{error:#}: is the port taken? Name another");
        Invalid::new(format!("--metrics-addr {address}"), problem)
    })
}
