//! `fdpass-gen conformance`: black-box tests of the behaviour required of a streaming daemon.
//!
//! [`table`] lists the cases, `subject` gives them access to a daemon, and `track` runs them on one type of socket.

use harness::cli::{Failure, of_the_daemon};
use harness::conformance::{Finished, Report};
use harness::launcher::{self, remark};
use load::limits;
use load::plan::Invalid;

use anyhow::Context as _;

use crate::check::socket_type;
use crate::cli::ConformanceArgs;
use crate::handoff::SocketType;
use crate::spec::SPEC;

mod answer;
mod capacity;
mod case;
mod clients;
mod counts;
mod daemon_under_test;
mod descriptors;
mod drain;
mod headers;
mod payloads;
mod senders;
mod table;
mod track;

use case::Case;
use table::CASES;
use track::{CaseRunner, DaemonSource};

/// Runs the selected cases. Returns true if none failed.
///
/// # Errors
/// A wrong call, or a failure that has nothing to do with the daemon.
pub(crate) fn run(typed: &ConformanceArgs) -> Result<bool, Failure> {
    let options = &typed.options;
    let cases = options.select(CASES.iter().collect(), |case| case.name)?;
    limits::raise_nofile()
        .context("raising the limit of open files")
        .map_err(Failure::Run)?;
    let report = match (&typed.daemon, &typed.socket) {
        (Some(name), _) => on_launched(name, options.quiet, &cases)?,
        (None, Some(socket)) => {
            let source = DaemonSource::Running {
                socket,
                metrics: typed.metrics.as_deref(),
            };
            Report {
                subject: ("daemon", socket.display().to_string()),
                version: None,
                cases: CaseRunner::new(source, socket_type(socket)?)
                    .map_err(Failure::Run)?
                    .run(&cases),
            }
        }
        (None, None) => {
            let problem = "name a daemon to launch, or the socket of a running one (--socket)";
            return Err(Invalid::new("--daemon", problem).into());
        }
    };
    report.print(options.format);
    Ok(report.is_passed())
}

/// Runs both types of socket at once, each on a thread and with its own daemons.
fn on_launched(name: &str, quiet: bool, cases: &[&'static Case]) -> Result<Report, Failure> {
    let prepared = launcher::prepare(&launcher::root()?, name, &SPEC.protocol, quiet)
        .map_err(of_the_daemon)?;
    remark(
        quiet,
        &format!("{} cases on each type of socket of {name}", cases.len()),
    );
    let source = DaemonSource::Launched(&prepared);
    let track = |kind| CaseRunner::new(source, kind).map(|mut track| track.run(cases));
    let finished: anyhow::Result<Vec<Vec<Finished>>> = std::thread::scope(|scope| {
        let threads = SocketType::BOTH.map(|kind| scope.spawn(move || track(kind)));
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
        subject: ("daemon", name.to_owned()),
        version: prepared.version().map(str::to_owned),
        cases: finished.map_err(Failure::Run)?.concat(),
    })
}
