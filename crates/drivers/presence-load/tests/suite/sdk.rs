//! The mode `sdk`: the same audit of users that are clients of the library.

use std::time::Duration;

use harness_testing::program::Program;

use crate::server::{Script, Server, Wrong};
use crate::support::{audited, call};

fn sdk(server: &Server, arguments: &[&str]) -> Program {
    let arguments = [&["--mode", "sdk", "--heartbeats-per-sec", "10"], arguments].concat();
    call(server, &arguments)
}

#[test]
fn clients_of_the_library_are_counted_as_those_of_the_protocol() {
    for arguments in [
        &[][..],
        &["--loop", "closed"],
        &["--rooms", "3", "--threads", "2"],
        &["--arrival", "poisson", "--warmup", "300ms"],
        &["--padding", "2000"],
    ] {
        let run = sdk(&Server::start(Script::default()), arguments).run();
        audited(&run, &[]);
        let result = &run.result;
        result.adds_up();
        let users = result.count("users");
        let started = result.operations("started");
        let ok = result.operations("ok");
        assert_eq!(ok, started, "{arguments:?} {}", result["errors"]);
        assert_eq!(result.count("heartbeats"), started + result.count("warmup"));
        result.counts(&[("connected", users), ("joins", users), ("leaves", users)]);
        for series in ["connect", "join", "leave"] {
            assert_eq!(result.values(series), users, "{series}");
        }
        assert_eq!(result.values("propagation"), 2 * started, "{arguments:?}");
        let rooms = users / 3;
        let events = 3 * result.count("heartbeats") + rooms * (1 + 2 + 3) + rooms * (2 + 1);
        assert_eq!(result.count("events"), events, "{arguments:?}");
        assert!([0, 3].contains(&run.code), "{}", run.stdout);
    }
}

#[test]
fn the_summary_is_that_of_the_reference_s_script() {
    let run = sdk(&Server::start(Script::default()), &[]).run();
    for line in [
        "Starting SDK presence load: 6 clients across 2 rooms, 10 heartbeats/s per user\n",
        "SDK Load test summary\n",
        "Connect successes: 6\n",
        "Join successes: 6\n",
        "Heartbeats attempted: 60\n",
        "Errors: { connect: 0, join: 0, heartbeat: 0, leave: 0 }\n",
        "Connect latency (ms): count=6, min=",
    ] {
        assert!(run.stdout.contains(line), "{line} is not in {}", run.stdout);
    }
}

#[test]
fn an_event_that_the_library_misses_is_a_gap_and_the_user_joins_again() {
    let run = sdk(&Server::wrong(Wrong::Lose(40)), &[]).run();
    // The server of the test delivers events to a connection that joined twice twice, so further counts say nothing.
    run.result
        .counts(&[("sequence_gaps", 1), ("lost", 0), ("joins", 7)]);
    assert_eq!(run.result.operations("failed"), 0);
    assert_eq!(run.code, 3);
}

#[test]
fn the_last_update_of_all_is_missed_too() {
    let run = sdk(&Server::wrong(Wrong::Lose(179)), &[]).run();
    // If another user leaves before this one, the number of that event tells of the missing one as well.
    assert_eq!(run.result.count("lost"), 1);
}

#[test]
fn a_state_that_was_never_sent_is_found() {
    let run = sdk(&Server::wrong(Wrong::Falsify(40)), &[]).run();
    assert_eq!(run.result.count("wrong_state"), 1);
}

#[test]
fn updates_of_a_broken_connection_come_back_with_it() {
    let run = sdk(&Server::wrong(Wrong::Close(20)), &["--debug"]).run();
    audited(&run, &[]);
    let result = &run.result;
    result.counts(&[
        ("connections_lost", 1),
        ("reconnects", 1),
        ("joins", 7),
        ("not_back", 0),
    ]);
    assert_eq!(result.values("reconnect"), 1);
    assert_eq!(result.operations("failed"), 0, "{}", result["errors"]);
    let debug = ": the connection was lost: the server closed the connection";
    assert!(run.stderr.contains(debug), "{}", run.stderr);
}

#[test]
fn a_refused_heartbeat_is_repeated_by_the_library_with_its_join() {
    for code in ["expired", "not_joined", "stale_epoch"] {
        // A user has one heartbeat under way, which its join carries.
        let closed = ["--loop", "closed"];
        let run = sdk(&Server::wrong(Wrong::Refuse(3, code)), &closed).run();
        audited(&run, &[]);
        let result = &run.result;
        result.counts(&[("expired", 1), ("joins", 7)]);
        assert_eq!(result.operations("failed"), 0, "{}", result["errors"]);
    }
}

#[test]
fn a_heartbeat_that_is_not_answered_times_out() {
    let server = Server::wrong(Wrong::IgnoreHeartbeat(20));
    let run = sdk(&server, &["--ack-timeout", "300ms"]).run();
    assert_eq!(run.result.error("heartbeat_timeout"), 1);
    assert_eq!(run.result.operations("failed"), 1);
    assert_eq!(run.code, 1);
}

#[test]
fn a_closed_loop_waits_for_each_acknowledgement() {
    // With 80 ms until the acknowledgement and 20 ms after it, each user sends at most 20 heartbeats in 2 s, not 100.
    let script = Script {
        delay: Duration::from_millis(80),
        ..Script::default()
    };
    let closed = ["--loop", "closed", "--heartbeats-per-sec", "50"];
    let arguments = [&closed[..], &["--mode", "sdk", "--duration", "2s"]].concat();
    let run = call(&Server::start(script), &arguments).run();
    audited(&run, &[]);
    let result = &run.result;
    result.adds_up();
    let started = result.operations("started");
    assert!((12..=120).contains(&started), "{started}");
    assert_eq!(result.operations("ok"), started, "{}", result["errors"]);
}

#[test]
fn users_that_leave_or_are_cut_come_back_and_nothing_is_lost() {
    for (pacing, cut) in [
        ("open", "0"),
        ("open", "1"),
        ("open", "0.5"),
        ("closed", "0.5"),
    ] {
        let server = Server::start(Script::default());
        let arguments = ["--churn", "30", "--churn-cut", cut, "--loop", pacing];
        let run = sdk(&server, &arguments).run();
        audited(&run, &[]);
        let result = &run.result;
        let [left, cut] = ["churn_left", "churn_cut"].map(|name| result.count(name));
        // As many as are there: on a busy machine users are away for long.
        assert!((1..=30).contains(&(left + cut)), "{left} + {cut}");
        result.counts(&[
            ("connected", 6 + left + cut),
            ("joins", 6 + left + cut),
            ("leaves", 6 + left),
            ("connections_lost", 0),
            ("reconnects", 0),
            ("not_back", 0),
        ]);
        // The library joins again by itself after a cut.
        for series in ["connect", "join"] {
            assert_eq!(result.values(series), 6 + left, "{series}");
        }
        assert_eq!(result.values("leave"), 6 + left);
        // On a busy machine all may be away when a heartbeat is due.
        let failed = result.operations("failed");
        let errors = &result["errors"];
        assert_eq!(failed, result.error("not_joined"), "{pacing} {errors}");
        result.adds_up();
    }
}

#[test]
fn a_cut_reaches_the_server_as_the_end_of_a_connection_without_a_leave() {
    let server = Server::start(Script::default());
    let run = sdk(&server, &["--churn", "30", "--churn-cut", "1"]).run();
    let result = &run.result;
    // The leaves at the end.
    assert_eq!(server.leave_requests(), 6);
    assert!(result.count("churn_cut") > 0, "{}", result["counts"]);
}

#[test]
fn users_whose_leave_is_not_answered_come_back_and_are_counted() {
    let server = Server::wrong(Wrong::IgnoreLeave(3));
    let more = "--churn 20 --churn-cut 0 --ack-timeout 500ms --duration 2s";
    let run = sdk(&server, &more.split(' ').collect::<Vec<_>>()).run();
    let result = &run.result;
    assert_eq!(result.error("leave_timeout"), 1, "{}", result["errors"]);
    result.counts(&[("connections_lost", 1), ("reconnects", 1), ("not_back", 0)]);
    assert_eq!(result.values("reconnect"), 1);
    assert!(run.stdout.contains("leave: 1 }"), "{}", run.stdout);
    assert_eq!(run.code, 1);
}

#[test]
fn users_that_cannot_come_back_are_counted() {
    for cut in ["0", "1"] {
        let server = Server::wrong(Wrong::RefuseJoinsFrom(6, "room_full"));
        let arguments = ["--churn", "5", "--churn-cut", cut];
        let run = sdk(&server, &arguments).run();
        let result = &run.result;
        let away = result.count("churn_left") + result.count("churn_cut");
        assert!((1..=5).contains(&away), "{away}");
        result.counts(&[("joins", 6), ("not_back", away)]);
        assert!(result.count("retries") >= away, "{}", result["counts"]);
        // A heartbeat that waits for a join is refused with it.
        let failed = result.operations("failed");
        assert_eq!(
            failed,
            result.error("heartbeat_rejected"),
            "{}",
            result["errors"]
        );
        assert_eq!(run.code, if failed > 0 { 1 } else { 3 }, "{}", run.stdout);
    }
}

#[test]
fn slow_consumers_disturb_nobody_and_the_library_drops_what_they_do_not_read() {
    let server = Server::start(Script::default());
    let slow = ["--mode", "sdk", "--slow-consumers", "1"];
    let rate = ["--heartbeats-per-sec", "50", "--duration", "4s"];
    let run = call(&server, &[slow, rate].concat()).run();
    audited(&run, &[]);
    let result = &run.result;
    // A busy driver starts the last ones no more.
    let missed = result.operations("missed");
    assert_eq!(result.operations("started") + missed, 1_000);
    let ok = result.operations("ok");
    assert_eq!(ok + missed, 1_000, "{}", result["errors"]);
    result.counts(&[("joins", 6), ("leaves", 6), ("connections_lost", 0)]);
    // Its room has two senders with 400 heartbeats, and three joins at most; 256 events wait for it.
    let unread = result.count("unread");
    let least = 100_u64.saturating_sub(missed);
    assert!((least..=147).contains(&unread), "{unread}");
}

#[test]
fn a_worker_without_senders_joins_its_users() {
    // Users 2 and 5 of 6 are slow: with one user in each room, the third worker of three has no other.
    let server = Server::start(Script::default());
    let arguments = ["--rooms", "6", "--users-per-room", "1", "--threads", "3"];
    for further in [&[][..], &["--loop", "closed"], &["--churn", "10"]] {
        let arguments = [&arguments[..], &["--slow-consumers", "2"], further].concat();
        let run = sdk(&server, &arguments).run();
        audited(&run, &[]);
        let away = run.result.count("churn_left") + run.result.count("churn_cut");
        run.result.counts(&[("users", 6), ("joins", 6 + away)]);
        assert!(
            run.result.warning("WorkersFailed").is_none(),
            "{}",
            run.stdout
        );
        assert!(run.result.operations("ok") > 0, "{further:?}");
        // On a busy machine both senders of a worker may be away when a heartbeat is due.
        let failed = run.result.operations("failed");
        assert_eq!(failed, run.result.error("not_joined"), "{further:?}");
    }
}

#[test]
fn the_progress_line_has_the_connected_users_too() {
    let server = Server::start(Script::default());
    let run = sdk(&server, &["--report-interval", "500ms", "--duration", "2s"]).run();
    let lines: Vec<&str> = run
        .stdout
        .lines()
        .filter(|line| line.starts_with('['))
        .collect();
    let full = "s] connected=6/6 joined=6/6 heartbeat_ok=";
    assert!(lines.iter().any(|line| line.contains(full)), "{lines:?}");
    for line in lines {
        assert!(line.contains("s] connected="), "{line}");
        assert!(line.ends_with(" errors=0"), "{line}");
    }
}

#[test]
fn options_that_the_library_does_not_support_are_refused_with_the_reason() {
    let server = Server::start(Script::default());
    for (arguments, reason) in [
        (&["--transport", "polling"][..], "no other transport"),
        (&["--transport", "upgrade"], "no other transport"),
        (&["--half-open", "1"], "answers pings"),
        (&["--source-addresses", "auto"], "the kernel"),
        (&["--keep-open"], "--heartbeats-per-sec 0.1"),
    ] {
        sdk(&server, arguments).refused(2, &["sdk", reason, "use --mode protocol"]);
    }
}
