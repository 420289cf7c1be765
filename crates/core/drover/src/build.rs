//! `drover build`: builds daemons before they are measured.

use harness::failure::Failure;
use harness::launcher::everything_is_required;
use harness::output;
use harness::progress::StepLine;
use subject::daemon::{Daemon, DaemonError};
use subject::manifest;

use crate::exit;
use crate::project::Project;

/// Builds the named daemons, or all. A daemon whose tools are missing is skipped, unless it is named or
/// `DROVER_REQUIRE_ALL=1` is set.
///
/// # Errors
/// A daemon is unknown, or a manifest cannot be used.
pub(crate) fn build(names: &[String]) -> Result<u8, Failure> {
    let project = Project::find().map_err(Failure::Call)?;
    project.require_daemons(names).map_err(Failure::Call)?;
    let all = manifest::list(&project.root).map_err(|error| Failure::Call(error.into()))?;
    let all = all.into_iter().map(|(name, _)| name);
    let chosen: Vec<String> = all
        .filter(|name| names.is_empty() || names.contains(name))
        .collect();
    let may_skip = names.is_empty() && !everything_is_required();
    let (mut code, mut skipped) = (exit::FINE, Vec::new());
    for name in &chosen {
        let mut line = StepLine::new(false);
        let built = Daemon::build(&project.root, name, &mut |step| line.show(step));
        drop(line);
        match built {
            Ok(()) => {}
            Err(DaemonError::ToolMissing { tool, .. }) if may_skip => {
                skipped.push(format!("{name} (needs {tool})"));
            }
            Err(error) => {
                output::note(&format!("error: {error}"));
                code = exit::FAILED;
            }
        }
    }
    if !skipped.is_empty() {
        output::note(&format!("skipped: {}", skipped.join(", ")));
    }
    Ok(code)
}
