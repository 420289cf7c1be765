//! Calls of the program, and the start of scripted servers.

use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

use harness_testing::peer;
use harness_testing::program::{CompletedRun, Program};

use crate::server::{Script, Server};

/// Three users in each of two rooms; each sends ten heartbeats per second for a second.
const SMALL: [[&str; 2]; 5] = [
    ["--rooms", "2"],
    ["--users-per-room", "3"],
    ["--duration", "1s"],
    ["--ramp-up", "0s"],
    ["--threads", "1"],
];

/// Starts a server that calls `serve` with each connection, in a thread of its own, and with the state that all share.
pub(crate) fn start_server<S: Send + 'static>(
    state: S,
    serve: fn(TcpStream, &Mutex<S>) -> Option<()>,
) -> (SocketAddr, Arc<Mutex<S>>) {
    let state = Arc::new(Mutex::new(state));
    let shared = Arc::clone(&state);
    let address = peer::serve(move |stream| serve(stream, &shared));
    (address, state)
}

/// Returns a call of the program on a server: a small load, unless the arguments say otherwise.
pub(crate) fn call(server: &Server, arguments: &[&str]) -> Program {
    let small = SMALL
        .iter()
        .filter(|option| !arguments.contains(&option[0]));
    Program::new(env!("CARGO_BIN_EXE_presence-load"))
        .args(small.flatten())
        .args(arguments)
        .args([server.url()])
}

/// Runs a small load on a server that works.
pub(crate) fn run(arguments: &[&str]) -> CompletedRun {
    call(&Server::start(Script::default()), arguments).run()
}

/// The counters of the audit.
pub(crate) const AUDITED: [&str; 17] = [
    "lost",
    "lost_with_sender",
    "lost_joins",
    "lost_leaves",
    "duplicated",
    "reordered",
    "wrong_room",
    "wrong_state",
    "wrong_epoch",
    "wrong_time",
    "wrong_type",
    "false_leaves",
    "duplicate_acks",
    "unknown_acks",
    "snapshot_errors",
    "lingering",
    "sequence_gaps",
];

/// Checks the counters of the audit: those not named must be 0.
#[track_caller]
pub(crate) fn audited(run: &CompletedRun, expected: &[(&str, u64)]) {
    for name in AUDITED {
        let number = expected.iter().find(|counter| counter.0 == name);
        let number = number.map_or(0, |counter| counter.1);
        assert_eq!(
            run.result.count(name),
            number,
            "{name}: {}",
            run.result["counts"]
        );
    }
}
