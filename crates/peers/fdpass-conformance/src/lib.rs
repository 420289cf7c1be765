//! `fdpass-gen conformance`: black-box tests of the behaviour required of a streaming daemon.
//!
//! Each file of cases lists them as `CASES`. `subject` gives them access to a daemon, and `runner` runs them on one type
//! of socket.

use std::path::PathBuf;

use ::subject::daemon::Endpoint;
use anyhow::Context as _;
use harness::failure::Failure;
use harness::verify::conformance::{Options, Suite, in_parallel};
use load::limits;
use load::plan::Invalid;

use clap::Args;
use fdpass_client::handoff::{HandoffEndpoint, REFERENCE_SOCKET, SocketType};

mod answer;
mod capacity;
mod case;
pub mod check;
mod clients;
mod counters;
mod counts;
mod descriptors;
mod drain;
mod payloads;
mod runner;
mod senders;
mod subject;

use case::Case;

/// The protocol's name in the manifests of daemons.
const PROTOCOL: &str = "fdpass";

/// All cases, in the order in which they run.
const CASES: [&[Case]; 7] = [
    payloads::CASES,
    descriptors::CASES,
    senders::CASES,
    clients::CASES,
    counts::CASES,
    capacity::CASES,
    drain::CASES,
];

/// Options of `conformance`.
#[derive(Debug, Args)]
pub struct ConformanceArgs {
    #[command(flatten)]
    options: Options,
    /// Test a running daemon at this socket
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = REFERENCE_SOCKET, conflicts_with = "daemon")]
    socket: Option<String>,
    /// Read the Prometheus page of the running daemon; without it, counters are not checked
    #[arg(long, value_name = "URL", conflicts_with = "daemon")]
    metrics: Option<String>,
}

/// Runs the selected cases: on a launched daemon both types of socket at once, each on a thread and with its own
/// daemons. Returns true if none failed.
///
/// # Errors
/// A wrong call, or a failure that has nothing to do with the daemon.
pub fn run(typed: &ConformanceArgs) -> Result<bool, Failure> {
    let suite = Suite {
        protocol: PROTOCOL,
        subject: "daemon",
        cases: CASES.into_iter().flatten().collect(),
        name: |case: &&'static Case| case.name,
    };
    let sockets = typed
        .options
        .addresses("--socket", typed.socket.as_slice())?;
    if sockets.len() > 1 {
        let problem = "is given more than once: give the socket of one daemon";
        return Err(Invalid::new("--socket", problem).into());
    }
    let socket = sockets.first().map(PathBuf::from);
    let running = socket.as_ref().map(|socket| {
        let endpoint = Endpoint {
            socket: Some(socket.clone()),
            metrics: typed.metrics.clone(),
            ..Endpoint::default()
        };
        (socket.display().to_string(), endpoint)
    });
    suite.run(&typed.options, running, |source, cases| {
        limits::raise_nofile()
            .context("raising the limit of open files")
            .map_err(Failure::Run)?;
        let kinds = match &socket {
            Some(socket) => vec![HandoffEndpoint::find(socket)?],
            None => SocketType::BOTH.to_vec(),
        };
        let finished = in_parallel(kinds.len(), &kinds, |kind| {
            runner::run(&source, *kind, cases)
        });
        let finished: anyhow::Result<Vec<_>> = finished.into_iter().collect();
        Ok(finished.map_err(Failure::Run)?.concat())
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_case_has_a_name_of_its_own_and_no_sign_that_tap_reads() {
        let names: Vec<&str> = CASES
            .iter()
            .copied()
            .flatten()
            .map(|case| case.name)
            .collect();
        assert_eq!(BTreeSet::from_iter(&names).len(), names.len());
        assert!(names.iter().all(|name| !name.contains(['#', '\\', '\n'])));
    }
}
