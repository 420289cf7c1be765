//! `fdpass-gen conformance`: what a streaming daemon must do, case by case, seen from outside.
//!
//! [`table`] lists the cases, `subject` is what they see of a daemon, `track` runs them on one type of socket, `report`
//! writes what came out.

use harness::cli::{Failure, of_the_daemon};
use harness::limits;
use harness::manifest;
use harness::plan::Invalid;

use anyhow::Context as _;

use crate::check::socket_type;
use crate::cli::ConformanceArgs;
use crate::launch::{BOTH_TYPES, prepare, print, remark};

mod answer;
mod capacity;
mod case;
mod clients;
mod counts;
mod descriptors;
mod drain;
mod headers;
mod payloads;
mod report;
mod senders;
mod subject;
mod table;
mod track;

pub(crate) use report::Format;

use case::Case;
use report::{Finished, Report};
use table::CASES;
use track::{Place, Track};

/// Runs the cases that were asked for; whether none failed.
///
/// # Errors
/// A call that is wrong, or something that has nothing to do with the daemon.
pub(crate) fn run(typed: &ConformanceArgs) -> Result<bool, Failure> {
    let cases = selected(typed.only.as_deref())?;
    limits::raise_nofile()
        .context("raising the limit of open files")
        .map_err(Failure::Run)?;
    let report = match (&typed.daemon, &typed.socket) {
        (Some(name), _) => on_launched(name, typed.quiet, &cases)?,
        (None, Some(socket)) => {
            let place = Place::Running {
                socket,
                metrics: typed.metrics.as_deref(),
            };
            Report {
                daemon: socket.display().to_string(),
                version: None,
                cases: Track::new(place, socket_type(socket)?)
                    .map_err(Failure::Run)?
                    .run(&cases),
            }
        }
        (None, None) => {
            let problem = "name a daemon to launch, or the socket of one that runs (--socket)";
            return Err(Invalid::new("--daemon", problem).into());
        }
    };
    print(&report.render(typed.format));
    Ok(report.is_passed())
}

fn selected(only: Option<&str>) -> Result<Vec<&'static Case>, Failure> {
    let wanted = |case: &&Case| only.is_none_or(|part| case.name.contains(part));
    let cases: Vec<&Case> = CASES.iter().filter(wanted).collect();
    if cases.is_empty() {
        let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        let problem = format!(
            "no case has this in its name; there are:\n  {}",
            names.join("\n  ")
        );
        let field = format!("--only {}", only.unwrap_or_default());
        return Err(Invalid::new(field, problem).into());
    }
    Ok(cases)
}

/// Both types of socket at once, each on a thread and with daemons of its own.
fn on_launched(name: &str, quiet: bool, cases: &[&'static Case]) -> Result<Report, Failure> {
    let root = manifest::find_root()
        .context("finding daemons/")
        .map_err(Failure::Call)?;
    let prepared = prepare(&root, name, quiet).map_err(of_the_daemon)?;
    remark(
        quiet,
        &format!("{} cases on each type of socket of {name}", cases.len()),
    );
    let place = Place::Launched(&prepared);
    let track = |kind| Track::new(place, kind).map(|mut track| track.run(cases));
    let finished: anyhow::Result<Vec<Vec<Finished>>> = std::thread::scope(|scope| {
        let threads = BOTH_TYPES.map(|kind| scope.spawn(move || track(kind)));
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err(anyhow::anyhow!("a case panicked")))
            })
            .collect()
    });
    Ok(Report {
        daemon: name.to_owned(),
        version: prepared.version().map(str::to_owned),
        cases: finished.map_err(Failure::Run)?.concat(),
    })
}
