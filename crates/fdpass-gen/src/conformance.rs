//! `fdpass-gen conformance`: black-box tests of the behaviour required of a streaming daemon.
//!
//! [`table`] lists the cases, `subject` gives them access to a daemon, and `track` runs them on one type of socket.

use anyhow::Context as _;
use harness::failure::Failure;
use harness::verify::conformance::{Finished, Source, Suite, in_parallel};
use load::limits;

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

/// Runs the selected cases: on a launched daemon both types of socket at once, each on a thread and with its own
/// daemons. Returns true if none failed.
///
/// # Errors
/// A wrong call, or a failure that has nothing to do with the daemon.
pub(crate) fn run(typed: &ConformanceArgs) -> Result<bool, Failure> {
    let suite = Suite {
        protocol: &SPEC.protocol,
        subject: "daemon",
        cases: CASES.iter().collect(),
        name: |case: &&'static Case| case.name,
    };
    let socket = typed.socket.as_deref();
    let running = socket.map(|socket| (socket.display().to_string(), socket));
    suite.run(&typed.options, running, |source, cases| {
        limits::raise_nofile()
            .context("raising the limit of open files")
            .map_err(Failure::Run)?;
        match source {
            Source::Launched(prepared) => {
                on_each(&SocketType::BOTH, DaemonSource::Launched(prepared), cases)
            }
            Source::Running(socket) => {
                let metrics = typed.metrics.as_deref();
                let source = DaemonSource::Running { socket, metrics };
                on_each(&[socket_type(socket)?], source, cases)
            }
        }
    })
}

fn on_each(
    kinds: &[SocketType],
    source: DaemonSource<'_>,
    cases: &[&'static Case],
) -> Result<Vec<Finished>, Failure> {
    let finished = in_parallel(kinds.len(), kinds, |kind| {
        CaseRunner::new(source, *kind).map(|mut runner| runner.run(cases))
    });
    let finished: anyhow::Result<Vec<Vec<Finished>>> = finished.into_iter().collect();
    Ok(finished.map_err(Failure::Run)?.concat())
}
