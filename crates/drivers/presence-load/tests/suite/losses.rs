//! Requests that fail, connections that end, and users that come back.

use harness_testing::processes::{limit_open_files, send, wait_until};
use nix::sys::signal::Signal;

use crate::server::{Script, Server, Wrong};
use crate::support::{audited, call, run};

#[test]
fn users_that_leave_or_are_cut_come_back_and_nothing_is_lost() {
    for (pacing, cut) in [
        ("open", "0"),
        ("open", "1"),
        ("open", "0.5"),
        ("closed", "0.5"),
    ] {
        let run = run(&["--churn", "30", "--churn-cut", cut, "--loop", pacing]);
        audited(&run, &[]);
        let result = &run.result;
        let [left, cut] = ["churn_left", "churn_cut"].map(|name| result.count(name));
        // Users of a closed loop do not leave before their first heartbeat.
        let least = if pacing == "closed" { 1 } else { 20 };
        assert!((least..=30).contains(&(left + cut)), "{left} + {cut}");
        result.counts(&[
            ("joins", 6 + left + cut),
            ("leaves", 6 + left),
            ("not_back", 0),
        ]);
        let mut kinds = result.error_kinds();
        // On a busy machine, a user may not be back when a heartbeat is due.
        kinds.retain(|kind| !["cut", "not_joined"].contains(kind));
        assert!(kinds.is_empty(), "{kinds:?}");
        result.adds_up();
    }
}

#[test]
fn a_connection_that_the_server_closes_is_lost_and_its_user_comes_back() {
    let run = call(&Server::wrong(Wrong::Close(20)), &[]).run();
    audited(&run, &[]);
    let result = &run.result;
    result.counts(&[
        ("connections_lost", 1),
        ("reconnects", 1),
        ("joins", 7),
        ("not_back", 0),
    ]);
    assert_eq!(result.values("reconnect"), 1);
    // The heartbeat that was not answered, and those that were due until its user was back.
    assert_eq!(result.error("connection_lost"), 1);
    assert_eq!(result.operations("failed"), 1 + result.error("not_joined"));
    assert_eq!(run.code, 1);
}

#[test]
fn a_heartbeat_that_is_not_answered_times_out() {
    let run = call(
        &Server::wrong(Wrong::IgnoreHeartbeat(20)),
        &["--ack-timeout", "300ms"],
    )
    .run();
    audited(&run, &[]);
    assert_eq!(run.result.error("heartbeat_timeout"), 1);
    assert_eq!(run.result.operations("failed"), 1);
    assert_eq!(run.code, 1);
}

#[test]
fn a_refused_heartbeat_is_counted_by_its_code_and_its_user_joins_again() {
    for (code, kind) in [
        ("expired", "heartbeat_rejected_expired"),
        ("not_joined", "heartbeat_rejected_not_joined"),
        ("stale_epoch", "heartbeat_rejected_stale_epoch"),
    ] {
        let run = call(&Server::wrong(Wrong::Refuse(20, code)), &[]).run();
        audited(&run, &[]);
        assert_eq!(run.result.error(kind), 1, "{}", run.result["errors"]);
        run.result.counts(&[("expired", 1), ("joins", 7)]);
        let warning = format!("{:?}", run.result.warning("CountsDisagree"));
        assert!(warning.contains("--keep-alive"), "{warning}");
        assert_eq!(run.code, 1);
    }
}

#[test]
fn a_refused_join_is_counted_by_its_code_and_tried_again() {
    let server = Server::wrong(Wrong::RefuseJoin(2, "room_full"));
    let run = call(&server, &["--duration", "3s"]).run();
    audited(&run, &[]);
    assert_eq!(run.result.error("join_rejected_room_full"), 1);
    run.result.counts(&[("joins", 6), ("not_back", 0)]);
    assert_eq!(run.code, 1);
    assert!(run.stdout.contains("joinRejected: 1"), "{}", run.stdout);
}

#[test]
fn a_packet_that_is_none_is_an_error_of_the_server() {
    let run = call(&Server::wrong(Wrong::Garble(20)), &[]).run();
    assert_eq!(
        run.result.error("protocol_socket_packet"),
        1,
        "{}",
        run.result["errors"]
    );
    assert_eq!(run.result.count("connections_lost"), 1);
    assert_eq!(run.code, 1);
}

#[test]
fn descriptors_that_run_out_are_no_failure_of_the_server() {
    let arguments = ["--churn", "30", "--duration", "600s"];
    let running = call(&Server::start(Script::default()), &arguments).start();
    running.wait_for("ok", 1);
    limit_open_files(running.child.id(), 3);
    // The heartbeats of all users in two seconds: nobody comes back.
    running.wait_for("failed", 120);
    limit_open_files(running.child.id(), 1_024);
    send(&running.child, Signal::SIGTERM);
    let run = running.end();
    audited(&run, &[]);
    let mut kinds = run.result.error_kinds();
    // A user that cannot come back, or is away when a heartbeat is due, fails with one of these.
    kinds.retain(|kind| !["cut", "not_joined"].contains(kind));
    assert!(kinds.is_empty(), "{kinds:?}");
    assert!(
        run.result.count("descriptors") > 0,
        "{}",
        run.result["counts"]
    );
    assert!(
        run.result.warned().contains(&"DriverExhausted"),
        "{}",
        run.stderr
    );
    // The heartbeats have failed.
    assert_eq!((run.code, &run.result["verdict"]), (1, &"INVALID".into()));
}

#[test]
fn slow_consumers_and_half_open_connections_disturb_nobody() {
    let run = run(&["--slow-consumers", "1", "--half-open", "1"]);
    audited(&run, &[]);
    let result = &run.result;
    assert_eq!(result.operations("started"), 40);
    assert_eq!(result.operations("ok"), 40);
    result.counts(&[("joins", 6), ("leaves", 4)]);
}

#[test]
fn a_worker_without_senders_joins_its_users() {
    // Users 2 and 5 of 6 are slow: with one user in each room, the third worker of three has no other.
    let arguments = ["--rooms", "6", "--users-per-room", "1", "--threads", "3"];
    for churn in [&[][..], &["--churn", "10"]] {
        let run = run(&[&arguments[..], &["--slow-consumers", "2"], churn].concat());
        audited(&run, &[]);
        let left = run.result.count("churn_left");
        let away = left + run.result.count("churn_cut");
        run.result
            .counts(&[("users", 6), ("joins", 6 + away), ("leaves", 4 + left)]);
        assert_eq!(run.result.operations("started"), 40);
        assert_eq!(away > 0, !churn.is_empty(), "{}", run.result["counts"]);
        assert!(
            run.result.warning("WorkersFailed").is_none(),
            "{}",
            run.stdout
        );
    }
}

#[test]
fn all_users_come_back_after_a_restart_and_nothing_is_lost_in_their_new_memberships() {
    let server = Server::start(Script::default());
    // The first attempt follows after 0.5 to 1.5 s.
    let run = call(&server, &["--duration", "5s"]).start();
    wait_until("the load has begun", || server.requests().1 > 30);
    server.restart();
    let run = run.end();
    audited(&run, &[]);
    let result = &run.result;
    result.counts(&[
        ("connections_lost", 6),
        ("reconnects", 6),
        ("joins", 12),
        ("leaves", 6),
        ("not_back", 0),
    ]);
    assert_eq!(result.values("reconnect"), 6);
    let failed = result.error("not_joined") + result.error("connection_lost");
    assert!(result.error("not_joined") > 0, "{}", result["errors"]);
    assert_eq!(result.operations("failed"), failed);
    result.adds_up();
    assert_eq!(run.code, 1);
}
