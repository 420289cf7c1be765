//! The modes `protocol` and `sdk` decide alike: which user acts when, and where it goes after a failure.

use harness_testing::processes::{send, wait_until};
use nix::sys::signal::Signal;

use crate::server::{Script, Server, Wrong};
use crate::support::{audited, call, run};

const MODES: [&str; 2] = ["protocol", "sdk"];
/// Eight users leave or are cut within the time of the load.
const CHURN: [&str; 8] = [
    "--churn",
    "3",
    "--churn-cut",
    "0.4",
    "--duration",
    "3s",
    "--heartbeats-per-sec",
    "10",
];

#[test]
fn the_same_seed_makes_the_same_load_in_both_modes() {
    for seed in ["1", "2"] {
        let counts = MODES.map(|mode| {
            let arguments = [&["--mode", mode, "--seed", seed][..], &CHURN].concat();
            let run = call(&Server::start(Script::default()), &arguments).run();
            audited(&run, &[]);
            let names = ["churn_left", "churn_cut", "connected", "joins", "leaves"];
            let mut counts = names.map(|name| run.result.count(name)).to_vec();
            // On a busy machine all users may be away when a heartbeat is due, and the last ones start no more.
            let unsent = run.result.error("not_joined") + run.result.operations("missed");
            counts.push(run.result.count("heartbeats") + unsent);
            counts
        });
        assert_eq!(counts[0], counts[1], "{seed}");
        assert_eq!(counts[0][0] + counts[0][1], 8, "{counts:?}");
    }
}

#[test]
fn heartbeats_of_a_tick_start_together_and_their_wait_is_lag_in_both_modes() {
    for mode in MODES {
        let run = run(&["--mode", mode, "--tick", "10ms"]);
        let mean_ms = |series: &serde_json::Value| series["mean_ns"].as_f64().unwrap() / 1e6;
        let series = |name| mean_ms(run.result.series(name).unwrap());
        let (lag, service) = (mean_ms(&run.result["lag"]), series("service"));
        // One is due every 16.7 ms, so a tick is 3.3 to 6.7 ms after its due time on average.
        assert!(lag > 2.0, "{mode}: {lag}");
        let response = series("heartbeat");
        assert!(
            (response - lag - service).abs() < 10.0,
            "{mode}: {response}, {lag}, {service}"
        );
        assert!(run.result.warning("GeneratorLate").is_some(), "{mode}");
    }
}

#[test]
fn the_retries_of_one_user_leave_the_churn_of_the_others_as_it_is() {
    for mode in MODES {
        let counts = [None, Some(Wrong::RefuseJoin(2, "room_full"))].map(|wrong| {
            let server = Server::start(Script {
                wrong,
                ..Script::default()
            });
            let run = call(&server, &[&["--mode", mode][..], &CHURN].concat()).run();
            ["churn_left", "churn_cut"].map(|name| run.result.count(name))
        });
        assert_eq!(counts[0], counts[1], "{mode}");
    }
}

#[test]
fn a_leave_that_is_not_delivered_is_found_in_both_modes() {
    for mode in MODES {
        let server = Server::start(Script {
            wrong: Some(Wrong::LoseLeave(0)),
            is_unnumbered: true,
            ..Script::default()
        });
        let churn = ["--churn", "2", "--churn-cut", "0", "--mode", mode];
        audited(&call(&server, &churn).run(), &[("lost_leaves", 1)]);
    }
}

/// Returns the first delay of each user whose join was refused, sorted by the names of the users.
fn first_delays(mode: &str) -> Vec<String> {
    let server = Server::wrong(Wrong::RefuseJoinsFrom(0, "room_full"));
    let run = call(&server, &["--mode", mode, "--debug", "--seed", "5"]).run();
    let lines = run.stderr.lines();
    let mut delays: Vec<String> = Vec::new();
    for line in lines.filter(|line| line.contains(": tries again in ")) {
        let (user, _) = line.split_once(": tries").unwrap();
        if !delays.iter().any(|delay| delay.starts_with(user)) {
            delays.push(line.to_owned());
        }
    }
    delays.sort();
    delays
}

#[test]
fn users_wait_equally_long_before_a_retry_in_both_modes() {
    let delays = MODES.map(first_delays);
    assert_eq!(delays[0], delays[1]);
    assert_eq!(delays[0].len(), 6, "{delays:?}");
}

#[test]
fn a_user_in_a_spread_room_goes_to_the_next_node_after_a_failure() {
    for mode in MODES {
        let ready = Server::start(Script::default());
        // Three users join each node. The other one then loses them, and takes them back no more.
        let other = Server::wrong(Wrong::RefuseJoinsFrom(3, "room_full"));
        let other_url = other.url();
        let arguments = ["--spread-rooms", "--duration", "1h", "--mode", mode];
        let load = call(&ready, &[&arguments[..], &[&other_url]].concat()).start();
        wait_until("the load has begun", || {
            let (joins, heartbeats) = other.requests();
            joins == 3 && heartbeats > 0
        });
        other.restart();
        wait_until("all users have joined the same node", || {
            ready.requests().0 == 6
        });
        send(&load.child, Signal::SIGINT);
        let result = load.end().result;
        result.counts(&[("users", 6), ("not_back", 0), ("reconnects", 3)]);
    }
}
