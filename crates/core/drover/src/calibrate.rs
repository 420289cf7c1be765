//! `drover calibrate`: runs each driver against a peer that does almost nothing, and stores its own times and rate.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use harness::drivers::KnownDriver;
use harness::failure::Failure;
use harness::store::{self, RESULT};
use harness::{calibration, output};
use measure::similar::suggest;

use crate::folder::RESULTS;
use crate::project::Project;
use crate::record::Record;
use crate::run::{self, SuiteOptions};
use crate::runner::Ran;
use crate::{driver_program, exit};

mod evaluate;

use evaluate::{Evaluation, Held, Level};

/// Options of the command line.
#[derive(Debug, Args)]
pub(crate) struct CalibrateOptions {
    /// Calibrate only these drivers [default: all]
    #[arg(value_name = "DRIVER")]
    drivers: Vec<String>,
    /// Override a field of every plan, such as timeline.measure=20s
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Run beside a suite of this machine, instead of waiting for its end. Each disturbs the other's figures
    #[arg(long)]
    force: bool,
    /// Store results below this folder
    #[arg(long, value_name = "DIR", default_value = RESULTS)]
    out: PathBuf,
}

/// Calibrates drivers one after the other; returns the exit code.
///
/// # Errors
/// An unknown driver, or a problem that keeps a suite from beginning.
pub(crate) async fn run(options: &CalibrateOptions) -> Result<u8, Failure> {
    let plans = plans(&options.drivers).map_err(Failure::Call)?;
    let count = plans.len();
    let CalibrateOptions {
        set, force, out, ..
    } = options;
    let suites = SuiteOptions::of_plans(plans, out.clone(), set.clone(), *force);
    let ran = run::run_each(&suites, None).await?;
    let mut codes = Vec::new();
    for ran in &ran {
        codes.push(conclude(ran).map_err(Failure::Run)?);
    }
    if ran.len() < count {
        codes.push(exit::SUSPECT);
    }
    Ok(exit::most_severe(codes))
}

/// Returns the plans of the drivers that can be run, and names the others.
fn plans(names: &[String]) -> anyhow::Result<Vec<PathBuf>> {
    let project = Project::find()?;
    let known = || project.drivers.iter().map(|driver| driver.name.as_str());
    if let Some(name) = names
        .iter()
        .find(|name| known().all(|known| known != *name))
    {
        bail!("there is no driver `{name}`: {}", suggest(name, known()));
    }
    let is_chosen = |driver: &&KnownDriver| names.is_empty() || names.contains(&driver.name);
    let mut plans = Vec::new();
    for driver in project.drivers.iter().filter(is_chosen) {
        match plan(&project, driver) {
            Ok(plan) => plans.push(plan),
            Err(reason) => output::note(&format!("Skipped: {}: {reason:#}", driver.name)),
        }
    }
    if plans.is_empty() {
        bail!("no driver can be calibrated: see the lines above");
    }
    Ok(plans)
}

fn plan(project: &Project, driver: &KnownDriver) -> anyhow::Result<PathBuf> {
    let plan = Path::new("configs")
        .join(&driver.protocol)
        .join("calibrate.toml");
    let found = project.root.find(&plan);
    let found = found.with_context(|| format!("there is no {}", plan.display()))?;
    driver_program::require(driver)?;
    Ok(found)
}

/// Prints the outcome of a driver's runs, and stores its calibration. Returns the exit code.
fn conclude(ran: &Ran) -> anyhow::Result<u8> {
    let record = Record::read(&ran.folder)?;
    let mut levels = Vec::new();
    for run in &record.runs {
        let folder = run.id.folder(&ran.folder);
        levels.push(Level {
            name: run.id.level.clone(),
            result: store::read_result(&folder.join(RESULT))?,
            held: store::read(&folder.join("daemon.log"))
                .ok()
                .and_then(|log| Held::in_log(&log)),
        });
    }
    let Some(evaluation) = Evaluation::new(&levels) else {
        output::note(&format!("{}: nothing was measured", ran.folder.display()));
        return Ok(exit::most_severe([ran.code, exit::SUSPECT]));
    };
    output::print(&evaluation.to_string())?;
    let stored = match evaluation.usable() {
        Ok(floor) => {
            let path = calibration::store(evaluation.calibration.clone(), floor, &ran.program)?;
            format!("stored in {}", path.display())
        }
        Err(reason) => format!("not stored: {reason}"),
    };
    output::print(&format!("  {stored}\n  runs in {}\n", ran.folder.display()))?;
    let is_whole = record.unreached.is_empty() && record.runs.len() == record.suite.levels.len();
    let code = match ran.code {
        exit::FAILED => exit::FAILED,
        _ if evaluation.is_sound() && is_whole => exit::FINE,
        _ => exit::SUSPECT,
    };
    Ok(code)
}
