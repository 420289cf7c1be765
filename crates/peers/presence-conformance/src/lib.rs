//! Functional cases for Socket.IO presence servers, run from outside, over the wire.
//!
//! The reference is Engine.IO 4, Socket.IO 5, RFC 6455 and, for the presence protocol,
//! `crates/subjects/presence-daemon/PROTOCOL.md`. The cases are lines of text in `cases/*.txt`, which `script` reads;
//! those with loops over what they have received call a function in `cases`. Nothing here is shared with a driver or a
//! daemon, so that an error of theirs is not repeated here.

use clap::Args;
use harness::failure::Failure;
use harness::verify::conformance::{Finished, Options, Source, Suite};
use load::plan::Invalid;

mod cases;
mod expect;
mod handshake;
mod http;
mod member;
mod pattern;
mod polling;
mod runner;
mod script;
mod server;
mod setup;
mod transport;
mod websocket;

use member::Member;
use script::Case;
use server::Server;

/// The protocol's name in the manifests of daemons.
const PROTOCOL: &str = "presence";

/// Options of the command.
#[derive(Debug, Args)]
pub struct ConformanceArgs {
    #[command(flatten)]
    options: Options,
    /// Test a server that is already running: http://host:port; give it twice for two nodes that share their rooms;
    /// cases that need other settings are skipped
    #[arg(long, value_name = "URL", conflicts_with = "daemon")]
    url: Vec<String>,
}

fn suite() -> Suite<Case> {
    Suite {
        protocol: PROTOCOL,
        subject: "server",
        cases: cases::all(),
        name: |case| &case.name,
    }
}

/// Runs the selected cases, and returns true if none of them failed. A launched server is started once for each
/// combination of settings that the cases need.
///
/// # Errors
/// The options are invalid, or the cases cannot run.
pub fn run(typed: &ConformanceArgs) -> Result<bool, Failure> {
    let urls = typed.options.addresses("--url", &typed.url)?;
    let nodes: Vec<Server> = urls
        .iter()
        .map(|url| Server::parse(url))
        .collect::<Result<_, _>>()?;
    if nodes.len() > 2 {
        let problem = "is given more than twice: give one server, or two nodes of one";
        return Err(Invalid::new("--url", problem).into());
    }
    let running = Server::with_nodes(nodes).map(|server| (server.address(), server));
    suite().run(&typed.options, running, |source, cases| {
        runner::run(&source, cases)
    })
}

/// Runs the cases whose names contain this text on a server, and returns them with their outcomes. An empty text
/// selects all cases. A running server is given by its URL.
///
/// # Errors
/// The URL is invalid, or a launched server does not start, or exits although every case passes.
pub fn finish(source: &Source<'_, String>, words: &str) -> Result<Vec<Finished>, Failure> {
    let mut cases = cases::all();
    cases.retain(|case| case.name.contains(words));
    match source {
        Source::Launched(prepared) => runner::run(&Source::Launched(prepared), &cases),
        Source::Running(url) => runner::run(&Source::Running(Server::parse(url)?), &cases),
    }
}

/// Runs the cases about the operations that every client needs, one after the other. Returns the number of cases as
/// text.
///
/// # Errors
/// The failed cases, each with its reason.
pub fn smoke(url: &str) -> anyhow::Result<String> {
    let server = Server::parse(url)?;
    // A server that does not answer fails once, instead of in every case.
    Member::is_served(&server)?;
    suite().smoke(&cases::SMOKE, |case| case.attempt(&server))
}
