//! Runs cases, each on a server with the settings that it needs.

use std::collections::BTreeMap;

use anyhow::anyhow;
use harness::failure::Failure;
use harness::launcher::Launcher;
use harness::verify::conformance::{Finished, Skip, Source, in_parallel, survived, url};
use subject::daemon::{Daemon, Prepared};

use crate::script::Case;
use crate::server::Server;
use crate::setup::{NO_OTHER_NODE, Setup};

/// The number of cases that run at a time. They spend most of their time waiting for a ping or an expiry.
const THREADS: usize = 8;

/// The server for the cases of a setup, or the reason why they are skipped or fail.
type Target = anyhow::Result<Server>;

/// Runs the cases, several at a time. Returns them in the order of the list.
pub(crate) fn run(source: &Source<'_, Server>, cases: &[Case]) -> Result<Vec<Finished>, Failure> {
    match source {
        Source::Launched(prepared) => on_launched(prepared, cases),
        Source::Running(server) => {
            let target = |setup: &'static Setup| (setup.name, setup.checked(server.clone(), false));
            let targets = setups(cases).map(target).collect();
            Ok(finish_all(&targets, cases))
        }
    }
}

/// Returns each setup of the cases once.
fn setups(cases: &[Case]) -> impl Iterator<Item = &'static Setup> {
    let setups = cases.iter().map(|case| (case.setup.name, case.setup));
    setups.collect::<BTreeMap<_, _>>().into_values()
}

/// Launches a server for each setup and runs the cases. A server that exits by itself is a failure.
fn on_launched(prepared: &Prepared, cases: &[Case]) -> Result<Vec<Finished>, Failure> {
    // Dropped after the daemons, which need its runtime.
    let launcher = Launcher::new().map_err(Failure::Run)?;
    let mut daemons = Vec::new();
    let mut targets = BTreeMap::new();
    for setup in setups(cases) {
        let node_count = setup.node_count();
        if node_count > 1 && prepared.manifest().services.is_empty() {
            targets.insert(setup.name, Err(NO_OTHER_NODE.into()));
            continue;
        }
        let outcome = match launcher.start_nodes(prepared, node_count, &setup.variables) {
            Ok(nodes) => {
                let server = server_of(&nodes)?;
                daemons.extend(nodes);
                setup.checked(server, true)
            }
            Err(error) if setup.variables.is_empty() => return Err(error.into()),
            Err(error) => Err(error.into()),
        };
        targets.insert(setup.name, outcome);
    }
    let finished = survived(&launcher, &daemons, finish_all(&targets, cases));
    for daemon in daemons {
        launcher.stop(daemon);
    }
    finished
}

/// Returns the server of one node, or of two.
fn server_of(nodes: &[Daemon]) -> Result<Server, Failure> {
    let servers = nodes.iter().map(|node| Server::parse(url(node)?));
    let servers: Vec<Server> = servers.collect::<Result<_, _>>()?;
    Ok(Server::with_nodes(servers).expect("a launched server has one node or two"))
}

fn finish_all(targets: &BTreeMap<&str, Target>, cases: &[Case]) -> Vec<Finished> {
    let attempt = |case: &Case| match &targets[case.setup.name] {
        Ok(server) => case.attempt(server),
        Err(error) => match error.downcast_ref() {
            Some(Skip(reason)) => Err(Skip(reason).into()),
            None => Err(anyhow!("{error:#}")),
        },
    };
    in_parallel(THREADS, cases, |case| {
        Finished::run(&case.name, [], || attempt(case))
    })
}
