//! Servers, nodes and Redis that are killed under load and started again.

use std::time::Duration;

use harness_testing::processes::{is_running, wait_until, wait_until_within};
use harness_testing::program::CompletedRun;

use crate::faults::launched::{Process, is_available};
use crate::faults::observer::{look, shows_all};
use crate::faults::plan::{Plan, Running, failed_only, is_in_order, is_right, lost_nothing};

/// Time after which a silent member has left, the default of all servers.
const TTL: Duration = Duration::from_secs(30);
/// Errors of users that are away.
const AWAY: [&str; 2] = ["connection_lost", "not_joined"];
/// Settings with which a node on a busy machine is not taken for dead, and does not take Redis for dead.
const PATIENT: &str =
    "[daemon_env]\nPRESENCE_NODE_LEASE_MS = '8000'\nPRESENCE_REDIS_TIMEOUT_MS = '10000'";
const SINGLE: Plan<'_> = Plan {
    rooms: 20,
    rate: 100,
    ramp_s: 1,
    daemon: "presence-daemon",
    instances: 1,
    // Tests end the load when they have seen enough.
    seconds: 60,
    lines: "",
    driver: "",
};

fn wait_for_death(pid: u32) {
    wait_until("the fault is injected", || !is_running(pid.cast_signed()));
}

/// Checks that a node shows all users, and nobody else, before a silent member would have left.
fn converges(port: u16, plan: &Plan<'_>) {
    wait_until_within(TTL, "every room has its users", || shows_all(port, plan));
}

#[test]
fn all_users_come_back_after_the_server_was_killed_and_no_heartbeat_vanishes() {
    if !is_available(SINGLE.daemon) {
        return;
    }
    let plan = Plan {
        lines: "[[faults]]\nat = '1s'\nsignal = 'KILL'\nback_after = '1s'",
        ..SINGLE
    };
    let mut load = plan.start();
    let server = load.instances("presence-daemon")[0];
    wait_for_death(server.pid);
    converges(server.port, &plan);
    let run = load.interrupt();
    lost_nothing(&run);
    let (result, users) = (&run.result, plan.users());
    result.counts(&[
        ("connections_lost", users),
        ("reconnects", users),
        ("joins", 2 * users),
        ("leaves", users),
    ]);
    assert_eq!(result.values("reconnect"), users);
    failed_only(result, &AWAY);
    let failed: u64 = AWAY.iter().map(|kind| result.error(kind)).sum();
    assert!(result.error("not_joined") > 0, "{}", result["errors"]);
    assert_eq!(result.operations("failed"), failed);
}

/// Rooms whose members are on both of two nodes.
fn two_nodes<'a>(daemon: &'a str, lines: &'a str) -> Plan<'a> {
    Plan {
        daemon,
        instances: 2,
        lines,
        // Less than every TTL here: while the last events are waited for, nobody expires.
        driver: "spread_rooms = true\nkeep_alive = '2s'",
        ..SINGLE
    }
}

/// Kills the second node, waits until both show all users, and ends the load. Returns its result.
fn second_node_is_killed(daemon: &str, program: &str, variables: &str) -> CompletedRun {
    let fault = "[[faults]]\nat = '1s'\nsignal = 'KILL'\ninstance = 2\nback_after = '1s'";
    let lines = format!("{variables}\n{fault}");
    let plan = two_nodes(daemon, &lines);
    let mut load = plan.start();
    let survivor = survivor(&mut load, program);
    converges(survivor.port, &plan);
    wait_until("the node is back", || load.processes(program).len() == 2);
    for node in load.processes(program) {
        converges(node.port, &plan);
    }
    let run = load.interrupt();
    is_right(&run);
    let result = &run.result;
    let half = plan.users() / 2;
    result.counts(&[("connections_lost", half), ("reconnects", half)]);
    failed_only(result, &AWAY);
    run
}

/// Waits until one of two nodes has been killed, and returns the other.
fn survivor(load: &mut Running, program: &str) -> Process {
    let nodes = load.instances(program);
    let mut survivor = None;
    wait_until("the fault is injected", || {
        let is_dead = |node: &&Process| !is_running(node.pid.cast_signed());
        let dead = nodes.iter().find(is_dead);
        survivor = dead.and_then(|dead| nodes.iter().find(|node| node.pid != dead.pid));
        survivor.is_some()
    });
    *survivor.unwrap()
}

#[test]
fn the_users_of_a_killed_node_come_back_on_the_other_and_nothing_is_lost_between_the_rest() {
    if is_available("presence-redis") {
        let run = second_node_is_killed("presence-redis", "presence-daemon", PATIENT);
        lost_nothing(&run);
    }
}

#[test]
fn the_users_of_a_killed_node_of_node_js_come_back_on_the_other() {
    // Socket.IO's adapter for Redis does not order the events of different nodes, nor snapshots and events: what comes
    // between a snapshot and the subscription of its member is lost.
    if is_available("node-presence-redis") {
        let variables = "[daemon_env]\nPRESENCE_TTL_MS = '10000'";
        second_node_is_killed("node-presence-redis", "src/main.js", variables);
    }
}

#[test]
fn nodes_go_on_degraded_without_redis_and_agree_again_when_it_is_back() {
    if !is_available("presence-redis") {
        return;
    }
    let fault = "[[faults]]\nat = '1s'\nsignal = 'KILL'\nservice = 'redis'\nback_after = '4s'";
    let lines = format!("{PATIENT}\n{fault}");
    let plan = two_nodes("presence-redis", &lines);
    let mut load = plan.start();
    let nodes = load.instances("presence-daemon");
    wait_for_death(load.service("redis-server"));
    wait_until("a node says that it is degraded", || {
        look(nodes[0].port, 1).is_some_and(|seen| seen.is_degraded)
    });
    for node in &nodes {
        converges(node.port, &plan);
    }
    let run = load.interrupt();
    is_in_order(&run);
    let result = &run.result;
    result.counts(&[("connections_lost", 0), ("joins", plan.users())]);
    failed_only(result, &[]);
    // Events that did not cross to the other node are counted.
    assert!(result.count("lost") > 0, "{}", result["counts"]);
}
