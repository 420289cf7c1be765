//! `drover check`: each driver checks the daemons that speak its protocol.

use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use harness::cli::Failure;
use harness::manifest;

use crate::exit;
use crate::project::{Driver, Project, listed};

/// Calls `<driver> check --daemon a,b,…` for every driver; what it prints goes where ours goes. Returns the gravest of their
/// exit codes.
///
/// # Errors
/// A daemon that nobody knows, or a driver that can't be built.
pub(crate) fn check(names: &[String]) -> Result<u8, Failure> {
    let project = Project::find().map_err(Failure::Call)?;
    let known = manifest::list(&project.root).map_err(|error| Failure::Call(error.into()))?;
    let unknown = names
        .iter()
        .find(|name| !known.iter().any(|(known, _)| known == *name));
    if let Some(name) = unknown {
        let known = listed(known.iter().map(|(name, _)| name));
        let problem = anyhow::anyhow!("there is no daemon `{name}`: known are {known}");
        return Err(Failure::Call(problem));
    }
    let mut codes = Vec::new();
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
            codes.push(with(&project, driver, &daemons).map_err(Failure::Run)?);
        }
    }
    if codes.is_empty() {
        let problem = anyhow::anyhow!("no driver speaks to {}", listed(names));
        return Err(Failure::Call(problem));
    }
    Ok(exit::gravest(codes))
}

fn with(project: &Project, driver: &Driver, daemons: &[&str]) -> anyhow::Result<u8> {
    let program = driver.program(project)?;
    let status = Command::new(&program)
        .args(["check", "--daemon", &daemons.join(",")])
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("starting {}", program.display()))?;
    match status.code().and_then(|code| u8::try_from(code).ok()) {
        Some(code) => Ok(code),
        None => bail!("{} check: {status}", driver.name),
    }
}
