//! The mode `sdk`: the same audit of users that are clients of the library.

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
    let run = sdk(&Server::wrong(Wrong::Close(20)), &[]).run();
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
}

#[test]
fn a_refused_heartbeat_is_repeated_by_the_library_with_its_join() {
    for code in ["expired", "not_joined", "stale_epoch"] {
        let run = sdk(&Server::wrong(Wrong::Refuse(20, code)), &[]).run();
        audited(&run, &[]);
        run.result.counts(&[("expired", 1), ("joins", 7)]);
        assert_eq!(run.result.operations("failed"), 0);
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
fn what_the_library_does_not_do_is_refused() {
    let server = Server::start(Script::default());
    for (arguments, named) in [
        (&["--churn", "1"][..], "churn"),
        (&["--transport", "polling"], "transport"),
        (&["--slow-consumers", "1"], "slow"),
        (&["--pacing", "closed"], "closed loop"),
    ] {
        sdk(&server, arguments).refused(2, &["sdk", named]);
    }
}
