//! `drover cluster`: hands a run to an engine that places its shards on many machines. Placement, restarts and logs are
//! the engine's; the parts meet in a folder, and the driver merges their results.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::{Args, Subcommand};
use harness::drivers::KnownDriver;
use harness::failure::Failure;
use load::plan::{self, Plan};
use load::redact;
use subject::manifest::Manifest;

use crate::exit;
use crate::project::Project;

mod k8s;
mod slurm;
pub(crate) mod ssh;

/// Time for programs to be started and ready, and for results to be written, in the limit of a job.
const AROUND_THE_LOAD: Duration = Duration::from_secs(20 * 60);

/// The engines.
#[derive(Debug, Subcommand)]
pub(crate) enum Engine {
    /// Run suites on several hosts by ssh, and report at the end as `drover run` does
    ///
    /// Nothing needs to be installed on the hosts or shared by them, but what the daemon itself needs. The programs, the
    /// plan and the manifests of daemons are copied, all hosts are checked, every run is divided over them, and the results
    /// are collected and merged. Files that the plan names must be on each host. Nothing is left there at the end.
    Ssh(ssh::SshOptions),
    /// Run parts of a divided run on this host, for `drover cluster ssh`
    #[command(hide = true)]
    Host,
    /// Write objects for Kubernetes: a Job for the daemon, and an Indexed Job of the shards
    ///
    /// Prints one list, which `kubectl apply -f -` takes. Each shard is a pod, and so is the part that launches the
    /// daemon and merges the results; a daemon with a Unix socket is launched in the pod of each shard instead. Files
    /// that the plan names must be in the image.
    K8s(k8s::K8sOptions),
    /// Write a batch script for Slurm: a task for the daemon, and one for each shard
    Slurm(slurm::SlurmOptions),
}

/// Options that all engines share.
#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// Run this plan (TOML)
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// Share the load among this many shards
    #[arg(long, value_name = "N", value_parser = load::number::within(1..=100_000_u32))]
    shards: u32,
    /// Launch this daemon [default: the plan's, or the first of its suite]
    #[arg(long, value_name = "NAME")]
    daemon: Option<String>,
    /// Pass these options on to the driver of every part, such as -- --threads 8
    #[arg(last = true, value_name = "OPTION")]
    driver_options: Vec<String>,
}

/// A run to place.
#[derive(Debug)]
struct Job {
    /// Name of the plan.
    name: String,
    /// The file of the plan.
    plan: PathBuf,
    driver: KnownDriver,
    daemon: String,
    /// True if every shard launches a daemon of its own, because it can be reached on its own machine only.
    own_daemons: bool,
    /// Limit of the whole job.
    limit: Duration,
}

impl Job {
    /// Reads the plan, and finds its driver and daemon.
    ///
    /// # Errors
    /// An unknown plan, driver or daemon.
    fn read(project: &Project, options: &RunOptions) -> anyhow::Result<Self> {
        let file = project.find_plan(&options.plan)?;
        let plan: Plan<toml::Table> = plan::load(&file, &[])?;
        let of_suite = plan.suite.as_ref().and_then(|suite| suite.daemons.first());
        let daemon = options
            .daemon
            .as_ref()
            .or(plan.daemon.as_ref())
            .or(of_suite);
        let daemon = daemon.with_context(|| {
            format!(
                "{} names no daemon: name the one to launch (--daemon)",
                options.plan.display()
            )
        })?;
        let daemons = std::slice::from_ref(daemon);
        project.require_daemons(daemons)?;
        let driver = project.driver_of(&file, plan.protocol.as_deref(), daemons)?;
        project.require_protocol(daemons, driver)?;
        let manifest = Manifest::load(&project.root, daemon)?;
        Ok(Self {
            name: plan.name.clone(),
            plan: std::path::absolute(&file)?,
            driver: driver.clone(),
            daemon: daemon.clone(),
            own_daemons: has_own_daemons(&manifest),
            limit: plan.planned() + plan.timeline.drain + AROUND_THE_LOAD,
        })
    }
}

/// Returns true if every shard must launch a daemon of its own, because others cannot reach it over a network.
fn has_own_daemons(daemon: &Manifest) -> bool {
    daemon.url.is_none() && daemon.has_socket()
}

/// Refuses a text with a secret: everybody who may see the job could read it.
fn refuse_secrets(text: &str) -> anyhow::Result<()> {
    if redact::text(text) != text {
        bail!(
            "contains a password, a token or a header field that authenticates, and the job would show it: keep it in a file that every part can read, such as --header @FILE"
        );
    }
    Ok(())
}

/// Hands a text to a program of the engine, on its stdin.
///
/// # Errors
/// The program cannot be started, with the remedy, or refuses the text.
fn submit(program: &str, arguments: &[&str], text: &str, remedy: &str) -> anyhow::Result<()> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {program}: {remedy}"))?;
    let mut stdin = child.stdin.take().context("it has no stdin")?;
    let written = stdin.write_all(text.as_bytes());
    drop(stdin);
    let status = child.wait()?;
    ensure!(
        status.success(),
        "{program} refused the job ({status}): see its message above"
    );
    written.with_context(|| format!("writing to {program}"))
}

fn absolute(path: &Path) -> anyhow::Result<String> {
    let path = std::path::absolute(path)?;
    match path.into_os_string().into_string() {
        Ok(path) => Ok(path),
        Err(path) => bail!("{}: name a path in UTF-8", path.display()),
    }
}

/// Writes what the engine needs, or submits it.
///
/// # Errors
/// A wrong call, or an engine that refuses the job.
pub(crate) fn run(engine: Engine) -> Result<u8, Failure> {
    let project = || Project::find().map_err(Failure::Call);
    match engine {
        Engine::K8s(options) => k8s::run(&project()?, &options)?,
        Engine::Slurm(options) => slurm::run(&project()?, &options)?,
        Engine::Ssh(options) => return ssh::run(&options),
        Engine::Host => ssh::serve()?,
    }
    Ok(exit::FINE)
}
