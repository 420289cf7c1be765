//! `drover check`: each driver checks the daemons that speak its protocol.

use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use harness::failure::Failure;
use harness::output;
use subject::daemon::Daemon;
use subject::manifest::{self, Manifest};

use crate::exit;
use crate::project::{Driver, Project, listed};

/// Calls `<driver> check` for every driver, with `--daemon a,b,…` if daemons are named; the output of the driver is
/// passed through. Returns the most severe of the exit codes. A missing tool is a failure for a named daemon; otherwise
/// the driver skips the daemon.
///
/// # Errors
/// A daemon is unknown, no driver speaks to it, or a driver can't be built.
pub(crate) fn check(names: &[String]) -> Result<u8, Failure> {
    let project = Project::find().map_err(Failure::Call)?;
    let known = manifest::list(&project.root).map_err(|error| Failure::Call(error.into()))?;
    let unknown = names
        .iter()
        .find(|name| !known.iter().any(|(known, _)| known == *name));
    if let Some(name) = unknown {
        let known = listed(known.iter().map(|(name, _)| name));
        let problem = anyhow::anyhow!("there is no daemon `{name}`: known daemons are {known}");
        return Err(Failure::Call(problem));
    }
    let served = |name: &String| {
        let mut found = known.iter().filter(|(known, _)| known == name);
        let speaks = |driver: &Driver, daemon: &Manifest| daemon.serves.contains(&driver.protocol);
        found.any(|(_, daemon)| project.drivers.iter().any(|driver| speaks(driver, daemon)))
    };
    if let Some(name) = names.iter().find(|name| !served(name)) {
        let problem = anyhow::anyhow!("no driver speaks to `{name}`: leave it out");
        return Err(Failure::Call(problem));
    }
    let mut codes = Vec::new();
    for name in names {
        if let Err(error) = Daemon::check_tools(&project.root, name) {
            output::note(&format!("error: {error}"));
            codes.push(exit::FAILED);
        }
    }
    for driver in &project.drivers {
        let daemons: Vec<&str> = known
            .iter()
            .filter(|(name, daemon)| {
                daemon.serves.contains(&driver.protocol)
                    && (names.is_empty() || names.contains(name))
            })
            .map(|(name, _)| name.as_str())
            .collect();
        if !daemons.is_empty() {
            let named = if names.is_empty() { &[] } else { &daemons[..] };
            codes.push(with(&project, driver, named).map_err(Failure::Run)?);
        }
    }
    if codes.is_empty() {
        let problem = anyhow::anyhow!("no driver speaks to any daemon");
        return Err(Failure::Call(problem));
    }
    Ok(exit::most_severe(codes))
}

fn with(project: &Project, driver: &Driver, daemons: &[&str]) -> anyhow::Result<u8> {
    let program = driver.program(project)?;
    let mut command = Command::new(&program);
    command.arg("check");
    if !daemons.is_empty() {
        command.args(["--daemon", &daemons.join(",")]);
    }
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("starting {}", program.display()))?;
    match status.code().and_then(|code| u8::try_from(code).ok()) {
        Some(code) => Ok(code),
        None => bail!("{} check: {status}", driver.name),
    }
}
