//! Clients that are cut off, arrive all at once, or stop half way.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use harness_testing::processes::{send, wait_until, wait_until_within};
use harness_testing::program::Program;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::Signal;

use crate::faults::launched::{descriptors, is_available, metric, with_daemon};
use crate::faults::plan::{Plan, failed_only, lost_nothing};

/// Time for the server to give up on clients that stop half way: 10 s, and a busy machine.
const GIVE_UP: Duration = Duration::from_secs(90);
const PLAN: Plan<'_> = Plan {
    rooms: 40,
    rate: 200,
    ramp_s: 1,
    daemon: "presence-daemon",
    instances: 1,
    seconds: 10,
    lines: "",
    driver: "",
};

#[test]
fn while_one_user_in_a_hundred_is_cut_each_second_the_others_lose_nothing() {
    if !is_available(PLAN.daemon) {
        return;
    }
    let run = Plan {
        driver: "churn = 2.0\nchurn_cut = 1.0",
        ..PLAN
    }
    .run();
    lost_nothing(&run);
    let result = &run.result;
    let cut = result.count("churn_cut");
    assert!((15..=20).contains(&cut), "{cut}");
    result.counts(&[
        ("connections_lost", 0),
        ("churn_left", 0),
        ("joins", PLAN.users() + cut),
        ("leaves", PLAN.users()),
    ]);
    failed_only(result, &["cut"]);
}

#[test]
fn a_ramp_of_500_users_per_second_disconnects_nobody() {
    if !is_available(PLAN.daemon) {
        return;
    }
    let plan = Plan {
        rooms: 400,
        ramp_s: 4,
        seconds: 1,
        ..PLAN
    };
    let run = plan.run();
    lost_nothing(&run);
    let users = plan.users();
    run.result.counts(&[
        ("connections_lost", 0),
        ("retries", 0),
        ("connected", users),
        ("joins", users),
        ("leaves", users),
    ]);
    failed_only(&run.result, &[]);
}

/// The requests of a handshake, up to the upgrade.
const HEAD: &str = "GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
/// Clients that stop half way, if this process may open enough files.
const MOST_STOPPED: usize = 10_000;
/// Descriptors for everything else.
const OTHERS: usize = 500;

/// Returns the number of clients that this process can open.
fn stopped_clients() -> usize {
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let possible = usize::try_from(soft)
        .unwrap_or(usize::MAX)
        .saturating_sub(OTHERS);
    MOST_STOPPED.min(possible)
}

/// Opens connections: half stop within the head of their request, and half before they connect to the
/// namespace.
fn stop_half_way(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    let mut streams = Vec::with_capacity(count);
    for number in 0..count {
        let mut stream = TcpStream::connect(address).unwrap();
        let is_upgraded = number % 2 == 0;
        let sent = if is_upgraded { HEAD } else { &HEAD[..60] };
        stream.write_all(sent.as_bytes()).unwrap();
        if is_upgraded {
            let mut start = [0; 12];
            stream.read_exact(&mut start).unwrap();
            assert_eq!(&start, b"HTTP/1.1 101", "it is upgraded");
        }
        streams.push(stream);
    }
    streams
}

#[test]
fn ten_thousand_handshakes_that_stop_half_way_disturb_nobody_and_are_given_up() {
    let variables = [("PRESENCE_CONNECT_TIMEOUT_MS", "10000")];
    with_daemon(&variables, |daemon| {
        const USERS: u64 = 50;
        let url = daemon.endpoint().url.clone().unwrap();
        let address = url.trim_start_matches("http://").parse().unwrap();
        let program = Program::new(env!("CARGO_BIN_EXE_presence-load"));
        let load = program
            .call("--rooms 10 --users-per-room 5 --ramp-up 0s --quiet")
            .call("--heartbeats-per-sec 4 --duration 2m --threads 1")
            .args(["--ack-timeout", "20s", "--connect-timeout", "30s", &url])
            .start();
        wait_until("all users have joined", || {
            metric(daemon, "presence_members") == USERS
        });
        let (before, count) = (descriptors(daemon.pid()), stopped_clients());
        let refused = metric(daemon, "presence_connections_accepted_total");
        let streams = stop_half_way(address, count);
        wait_until("all are accepted", || {
            metric(daemon, "presence_connections_accepted_total") >= refused + count as u64
        });
        // The clients hold on: it is the server that gives up.
        wait_until_within(GIVE_UP, "the descriptors are closed", || {
            descriptors(daemon.pid()) <= before + 5
        });
        drop(streams);
        send(&load.child, Signal::SIGINT);
        let run = load.end();
        lost_nothing(&run);
        failed_only(&run.result, &[]);
        run.result
            .counts(&[("connections_lost", 0), ("joins", USERS), ("leaves", USERS)]);
        assert!(run.result.operations("ok") > 0);
    });
}
