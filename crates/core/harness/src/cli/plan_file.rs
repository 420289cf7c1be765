//! A plan file on the command line of a driver: whether it is one for this driver.

use std::path::Path;

use load::plan::{self, Invalid, Plan};
use subject::manifest::{self, Manifest};

use super::driver_cli::DriverCli;
use crate::drivers;
use crate::failure::Failure;

/// The folder of a project that holds the plans, in a folder for each protocol.
const FOLDER: &str = "configs";

/// Reads a plan.
///
/// # Errors
/// The plan can't be read, or is one of another driver.
pub(super) fn read<D: DriverCli>(path: &Path) -> Result<Plan<D::Config>, Failure> {
    let own = &*D::SPEC.protocol;
    // A pipe can be read only once.
    let other = path.is_file().then(|| other_protocol(path, own)).flatten();
    match other.and_then(|other| for_another_driver(path, &other, &D::SPEC.driver)) {
        Some(problem) => Err(Invalid::new(format!("--plan {}", path.display()), problem).into()),
        None => Ok(plan::read(path)?),
    }
}

/// Says which driver a plan is for, and how to run it. Returns `None` if that is `own`.
fn for_another_driver(path: &Path, protocol: &str, own: &str) -> Option<String> {
    let path = path.display();
    let drivers = manifest::find_root().map(|roots| drivers::list(&roots));
    let mut drivers = drivers.unwrap_or_default().into_iter();
    Some(match drivers.find(|driver| driver.speaks(protocol)) {
        Some(driver) if driver.name == own => return None,
        Some(driver) => {
            let name = driver.name;
            format!("this plan is for {name}, and not for {own}: {name} --plan {path}")
        }
        None => format!(
            "this plan is for the protocol {protocol}, which no known driver speaks, and not for {own}: correct its `protocol` (`drover list` shows the drivers)"
        ),
    })
}

/// Returns the protocol of a plan, if it is known and not `own`: by its field, by its folder, or else by its daemons.
fn other_protocol(path: &Path, own: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let plan: toml::Table = text.parse().unwrap_or_default();
    let named = plan.get("protocol").and_then(toml::Value::as_str);
    let named = named.map(str::to_owned).or_else(|| folder(path));
    match named {
        Some(protocol) => (protocol != own).then_some(protocol),
        None => protocol_of_daemons(&plan, own),
    }
}

/// Returns the name of the folder below `configs` that a plan lies in.
fn folder(path: &Path) -> Option<String> {
    let path = std::path::absolute(path).ok()?;
    let folder = path.parent()?;
    let is_of_plans = folder.parent()?.file_name()? == FOLDER;
    let name = folder.file_name()?.to_str()?;
    is_of_plans.then(|| name.to_owned())
}

/// Returns a protocol that all daemons of a plan serve, if none of them serves `own`.
fn protocol_of_daemons(plan: &toml::Table, own: &str) -> Option<String> {
    let named = plan.get("suite").and_then(|suite| suite.get("daemons"));
    let named = named.and_then(toml::Value::as_array).into_iter().flatten();
    let roots = manifest::find_root().ok()?;
    let served: Vec<Vec<String>> = named
        .chain(plan.get("daemon"))
        .filter_map(|name| Some(Manifest::load(&roots, name.as_str()?).ok()?.serves))
        .collect();
    let is_own = |protocols: &Vec<String>| protocols.iter().any(|protocol| protocol == own);
    let mut shared = served.first()?.iter();
    let shared = shared.find(|protocol| served.iter().all(|of| of.contains(protocol)))?;
    (!served.iter().any(is_own)).then(|| shared.clone())
}

/// Returns the note on a plan that is a suite, of which a driver runs only the base.
pub(super) fn note_on_suite<C>(plan: &Plan<C>, path: &Path) -> Option<String> {
    let suite = plan.suite.as_ref()?;
    let path = path.display();
    Some(format!(
        "note: {path} is a suite of {}: this is one run of its base load, `drover run {path}` runs all of it",
        suite.daemons.join(", ")
    ))
}
