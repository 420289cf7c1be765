//! `drover check`: each driver checks the daemons that speak its protocol.

use harness::drivers::KnownDriver;
use harness::failure::Failure;
use harness::output;
use subject::daemon::Daemon;
use subject::manifest;

use crate::driver_program;
use crate::exit;
use crate::project::Project;

/// Calls `<driver> check` for every driver, with `--daemon a,b,…` if daemons are named; the output of the driver is
/// passed through. Returns the most severe of the exit codes. A missing tool is a failure for a named daemon; otherwise
/// the driver skips the daemon.
///
/// # Errors
/// A daemon is unknown, no driver speaks to it, or a driver can't be built.
pub(crate) fn check(names: &[String]) -> Result<u8, Failure> {
    let project = Project::find().map_err(Failure::Call)?;
    project.require_daemons(names).map_err(Failure::Call)?;
    let known = manifest::list(&project.root).map_err(|error| Failure::Call(error.into()))?;
    let served_by = |driver: &KnownDriver| -> Vec<&str> {
        let served = known.iter().filter(|(name, daemon)| {
            daemon.serves.contains(&driver.protocol) && (names.is_empty() || names.contains(name))
        });
        served.map(|(name, _)| name.as_str()).collect()
    };
    let served: Vec<(&KnownDriver, Vec<&str>)> = project
        .drivers
        .iter()
        .map(|driver| (driver, served_by(driver)))
        .filter(|(_, daemons)| !daemons.is_empty())
        .collect();
    let is_served = |name: &&String| served.iter().any(|(_, of)| of.contains(&name.as_str()));
    if let Some(name) = names.iter().find(|name| !is_served(name)) {
        let problem = anyhow::anyhow!("no driver speaks to `{name}`: leave it out");
        return Err(Failure::Call(problem));
    }
    if served.is_empty() {
        let problem = anyhow::anyhow!("no driver speaks to any daemon");
        return Err(Failure::Call(problem));
    }
    let mut codes = Vec::new();
    for name in names {
        if let Err(error) = Daemon::check_tools(&project.root, name) {
            output::note(&format!("error: {error}"));
            codes.push(exit::FAILED);
        }
    }
    for (driver, daemons) in served {
        let named = if names.is_empty() { &[] } else { &daemons[..] };
        codes.push(with(driver, named).map_err(Failure::Run)?);
    }
    Ok(exit::most_severe(codes))
}

fn with(driver: &KnownDriver, daemons: &[&str]) -> anyhow::Result<u8> {
    let mut arguments = vec!["check".to_owned()];
    if !daemons.is_empty() {
        arguments.extend(["--daemon".to_owned(), daemons.join(",")]);
    }
    driver_program::call(driver, &arguments, false)
}
