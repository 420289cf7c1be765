//! `drover run`: its options, and the suites one after the other.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use harness::failure::Failure;
use harness::signals::Signals;

use crate::cluster::ssh::{Hosts, Placement};
use crate::driver_program;
use crate::fail_on::{FailOn, fail_on};
use crate::folder::RESULTS;
use crate::machine_lock;
use crate::progress::Progress;
use crate::project::Project;
use crate::resolve::{Overrides, Suite};
use crate::runner::{Ran, Runner};
use crate::{exit, steps};

/// Options of the command line.
#[derive(Debug, Args)]
pub(crate) struct SuiteOptions {
    /// Run these plans with a [suite], such as configs/fdpass/quick.toml
    #[arg(required = true, value_name = "PLAN")]
    plans: Vec<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
    /// Store results below this folder
    #[arg(long, value_name = "DIR", default_value = RESULTS)]
    pub(crate) out: PathBuf,
    /// Start over, even if an earlier suite can be continued
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Run beside another suite of this machine, instead of waiting for its end. Each disturbs the other's figures
    #[arg(long)]
    force: bool,
    /// End with exit code 2 if another suite is active on this machine, instead of waiting for its end
    #[arg(long, conflicts_with = "force")]
    no_wait: bool,
    /// End with exit code 6 if the daemon is worse than its other version by the primary metric, or by another one, such as
    /// worse:response.p99. The word is confirmed first: as many runs are made again, and all of them must show it
    #[arg(long, value_name = "worse[:METRIC]", requires = "against", value_parser = fail_on)]
    pub(crate) fail_on: Option<FailOn>,
    /// Print the whole report instead of one screen at the end
    #[arg(long)]
    pub(crate) full: bool,
    /// Let the driver of each run on this machine serve its metrics at this address, such as 127.0.0.1:9100, with the labels plan, daemon,
    /// level and run
    #[arg(long, value_name = "ADDR", value_parser = harness::cli::socket_address)]
    pub(crate) metrics_addr: Option<SocketAddr>,
    /// True if another command prints the end.
    #[arg(skip)]
    pub(crate) is_silent: bool,
}

impl SuiteOptions {
    /// Returns the options of another command, which runs whole plans from their beginning and prints the end.
    pub(crate) fn of_plans(
        plans: Vec<PathBuf>,
        out: PathBuf,
        set: Vec<String>,
        force: bool,
    ) -> Self {
        Self {
            plans,
            overrides: Overrides::with_settings(set),
            out,
            fresh: true,
            force,
            no_wait: false,
            fail_on: None,
            full: false,
            metrics_addr: None,
            is_silent: true,
        }
    }

    /// Returns the options that each driver gets in every run.
    pub(crate) fn of_driver(&self, suite: &Suite) -> Vec<String> {
        let address = self.metrics_addr.iter();
        let address = address.map(|address| format!("--metrics-addr={address}"));
        address.chain(suite.spec.driver_options()).collect()
    }
}

/// Runs suites one after the other; returns their combined exit code.
///
/// # Errors
/// A problem that keeps a suite from beginning.
pub(crate) async fn run(
    options: &SuiteOptions,
    placement: Option<&Placement>,
) -> Result<u8, Failure> {
    let ran = run_each(options, placement).await?;
    Ok(match ran.as_slice() {
        [] => exit::SUSPECT,
        ran => exit::most_severe(ran.iter().map(|ran| ran.code)),
    })
}

/// Runs suites one after the other, until a signal asks to end. Returns those that have begun.
///
/// # Errors
/// A problem that keeps a suite from beginning.
pub(crate) async fn run_each(
    options: &SuiteOptions,
    placement: Option<&Placement>,
) -> Result<Vec<Ran>, Failure> {
    let project = Project::find().map_err(Failure::Call)?;
    let read = |plan: &PathBuf| Suite::read(&project, plan, &options.overrides, placement);
    let suites: Vec<Suite> = options
        .plans
        .iter()
        .map(read)
        .collect::<anyhow::Result<_>>()
        .map_err(Failure::Call)?;
    let mut signals = Signals::listen()
        .context("listening for signals")
        .map_err(Failure::Run)?;
    let progress = Progress::new();
    let Some(_lock) = lock(options, &mut signals).await? else {
        return Ok(interrupted(&progress));
    };
    let Some(programs) = programs(&suites, &mut signals).await? else {
        return Ok(interrupted(&progress));
    };
    // All before the first run: a mistake in the last plan must not show after hours.
    for suite in &suites {
        let check = suite.check(&programs[&suite.driver.name]);
        check
            .with_context(|| suite.file.display().to_string())
            .map_err(Failure::Call)?;
    }
    for version in suites.iter().filter_map(|suite| suite.spec.against.clone()) {
        let built = steps::perform(&mut signals, move |_| version.build());
        match built.await.map_err(Failure::Run)? {
            Some(built) => built.map_err(Failure::Run)?,
            None => return Ok(interrupted(&progress)),
        }
    }
    let mut hosts = None;
    if let Some(placement) = placement {
        let opened = Hosts::open(
            placement,
            &project,
            &suites,
            programs.values(),
            &mut signals,
        );
        hosts = opened.await.map_err(Failure::Call)?;
        if hosts.is_none() {
            return Ok(interrupted(&progress));
        }
    }
    let mut ran = Vec::new();
    for suite in &suites {
        let program = programs[&suite.driver.name].clone();
        let hosts = hosts.as_mut();
        let mut runner = Runner::open(suite, program, options, hosts, &progress, &mut signals)?;
        ran.push(runner.run_all(&project).await?);
        if runner.interrupted {
            break;
        }
    }
    Ok(ran)
}

/// Takes the lock of this machine, which `--force` does without. The outer value is absent after a signal.
async fn lock(
    options: &SuiteOptions,
    signals: &mut Signals,
) -> Result<Option<Option<File>>, Failure> {
    if options.force {
        return Ok(Some(machine_lock::acquire().ok()));
    }
    if options.no_wait {
        let lock = machine_lock::acquire().map_err(Failure::Call)?;
        return Ok(Some(Some(lock)));
    }
    let lock = machine_lock::wait(signals).await.map_err(Failure::Run)?;
    Ok(lock.map(Some))
}

/// Reports an end before the first run.
fn interrupted(progress: &Progress) -> Vec<Ran> {
    progress.say("Interrupted before the first run: nothing was measured.");
    Vec::new()
}

/// Returns the program of each required driver, built once; `None` after a signal.
async fn programs(
    suites: &[Suite],
    signals: &mut Signals,
) -> Result<Option<BTreeMap<String, PathBuf>>, Failure> {
    let mut programs = BTreeMap::new();
    for suite in suites {
        let driver = suite.driver.clone();
        let name = driver.name.clone();
        if programs.contains_key(&name) {
            continue;
        }
        let found = steps::perform(signals, move |on_step| {
            driver_program::program(&driver, on_step)
        });
        let Some(program) = found.await.map_err(Failure::Run)? else {
            return Ok(None);
        };
        programs.insert(name, program.map_err(Failure::Run)?);
    }
    Ok(Some(programs))
}
