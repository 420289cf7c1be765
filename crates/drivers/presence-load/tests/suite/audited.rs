//! The audit finds one wrong event among many, and nothing if all is right.

use std::thread;

use crate::server::{Script, Server, Wrong};
use crate::support::{audited, call, run};

#[test]
fn all_that_is_right_is_counted_and_nothing_is_found() {
    for arguments in [
        &[][..],
        &["--loop", "closed"],
        &["--threads", "2"],
        &["--rooms", "3", "--threads", "2"],
        &["--arrival", "poisson", "--warmup", "300ms"],
        &["--padding", "2000"],
    ] {
        let run = run(arguments);
        audited(&run, &[]);
        let result = &run.result;
        result.adds_up();
        let users = result.count("users");
        let started = result.operations("started");
        assert_eq!(
            result.operations("ok"),
            started,
            "{arguments:?} {}",
            result["errors"]
        );
        assert_eq!(result.count("heartbeats"), started + result.count("warmup"));
        result.counts(&[("joins", users), ("leaves", users)]);
        assert_eq!(result.values("join"), users);
        assert_eq!(result.values("leave"), users);
        // Each heartbeat reaches the two other members, each join the members before, each leave those that stay.
        assert_eq!(result.values("propagation"), 2 * started, "{arguments:?}");
        let rooms = users / 3;
        let events = 3 * result.count("heartbeats") + rooms * (1 + 2 + 3) + rooms * (2 + 1);
        assert_eq!(result.count("events"), events, "{arguments:?}");
        assert!([0, 3].contains(&run.code), "{}", run.stdout);
    }
}

#[test]
fn a_rate_gives_each_user_its_heartbeats() {
    let run = run(&["--rooms", "5", "--threads", "3"]);
    // 15 users × 10 per second × 1 s, shared by workers with two rooms and one: each has its own schedule.
    assert_eq!(run.result.operations("started"), 150);
    audited(&run, &[]);
}

/// Runs a small load on a server that makes one error, and checks what is found.
#[track_caller]
fn finds(wrong: Wrong, expected: &[(&str, u64)], kind: &str) {
    let script = Script {
        wrong: Some(wrong),
        ..Script::default()
    };
    finds_in(script, &[], expected, kind);
}

/// Runs a small load whose users leave and come back on a server that makes one error, with or without numbers, and
/// checks what is found.
#[track_caller]
fn finds_in_churn(wrong: Wrong, is_unnumbered: bool, expected: &[(&str, u64)], kind: &str) {
    let script = Script {
        wrong: Some(wrong),
        is_unnumbered,
        ..Script::default()
    };
    let churn = ["--churn", "2", "--churn-cut", "0"];
    finds_in(script, &churn, expected, kind);
}

#[track_caller]
fn finds_in(script: Script, arguments: &[&str], expected: &[(&str, u64)], kind: &str) {
    let wrong = script.wrong;
    let run = call(&Server::start(script), arguments).run();
    audited(&run, expected);
    let result = &run.result;
    assert_eq!(result.operations("ok"), result.operations("started"));
    let warning = result
        .warning(kind)
        .unwrap_or_else(|| panic!("{}", run.stdout));
    assert_eq!(warning["severity"], "suspect", "{wrong:?}: {warning}");
    assert_eq!(run.code, 3, "{wrong:?}");
}

#[test]
fn an_update_that_is_not_delivered_is_lost() {
    finds(
        Wrong::Lose(40),
        &[("lost", 1), ("sequence_gaps", 1)],
        "CountsDisagree",
    );
}

#[test]
fn the_last_update_of_all_is_missed_too() {
    // 60 heartbeats reach 3 members each. No event follows the last, so that only the acknowledgement tells of it.
    finds(Wrong::Lose(179), &[("lost", 1)], "CountsDisagree");
}

#[test]
fn an_update_that_is_delivered_twice_is_duplicated() {
    finds(Wrong::Duplicate(40), &[("duplicated", 1)], "Duplicated");
}

#[test]
fn an_update_that_overtakes_another_is_reordered() {
    // Events of several senders overtake each other unnoticed by the numbers of one sender; delivery 40 and the next
    // delivery to that member are of different senders, so the sequence of the room tells.
    finds(Wrong::Reorder(40), &[("reordered", 1)], "OutOfOrder");
}

#[test]
fn an_update_under_another_room_s_name_is_found() {
    let expected = [("wrong_room", 1), ("lost", 1), ("sequence_gaps", 1)];
    finds(Wrong::Misroute(40), &expected, "CountsDisagree");
}

#[test]
fn a_state_that_was_never_sent_is_found() {
    finds(
        Wrong::Falsify(40),
        &[("wrong_state", 1), ("lost", 1)],
        "CountsDisagree",
    );
}

#[test]
fn another_s_connection_is_found() {
    finds(
        Wrong::Impersonate(40),
        &[("wrong_state", 1), ("lost", 1)],
        "CountsDisagree",
    );
}

#[test]
fn a_snapshot_without_a_member_is_found() {
    // The seventh join is the first of those that come back: the others were joined long before it was sent.
    let expected = [("snapshot_errors", 1)];
    finds_in_churn(Wrong::SnapshotLacks(6), false, &expected, "CountsDisagree");
}

#[test]
fn a_snapshot_with_a_change_that_was_not_sent_is_found() {
    finds(
        Wrong::SnapshotIsAhead(5),
        &[("snapshot_errors", 3)],
        "CountsDisagree",
    );
}

#[test]
fn a_stale_snapshot_is_found_when_a_user_comes_back() {
    // The seventh join is the first of those that come back, after half a second of heartbeats.
    let (wrong, expected) = (Wrong::SnapshotIsStale(6), [("snapshot_errors", 2)]);
    finds_in_churn(wrong, false, &expected, "CountsDisagree");
}

#[test]
fn a_member_that_left_before_the_join_and_is_in_its_snapshot_is_found() {
    // The user that left last is the one whose join is the seventh.
    let (wrong, expected) = (Wrong::SnapshotLingers(6), [("lingering", 1)]);
    finds_in_churn(wrong, false, &expected, "CountsDisagree");
}

/// The first delivery to another member of the join of a user that comes back: until then, each of the two rooms has
/// delivered 1 + 2 + 3 joins.
const JOIN: u64 = 12;

#[test]
fn a_join_or_leave_that_is_not_delivered_is_lost_with_and_without_numbers() {
    for (wrong, counter) in [
        (Wrong::LoseJoin(JOIN), "lost_joins"),
        (Wrong::LoseLeave(0), "lost_leaves"),
    ] {
        let expected = [(counter, 1), ("sequence_gaps", 1)];
        // Each run waits for the event until the end of its drain.
        thread::scope(|scope| {
            scope.spawn(|| finds_in_churn(wrong, false, &expected, "CountsDisagree"));
            scope.spawn(|| finds_in_churn(wrong, true, &expected[..1], "CountsDisagree"));
        });
    }
}

#[test]
fn a_join_or_leave_that_is_delivered_twice_is_duplicated_with_and_without_numbers() {
    for wrong in [Wrong::DuplicateJoin(JOIN), Wrong::DuplicateLeave(0)] {
        for is_unnumbered in [false, true] {
            finds_in_churn(wrong, is_unnumbered, &[("duplicated", 1)], "Duplicated");
        }
    }
}

#[test]
fn without_numbers_of_the_server_all_is_audited_while_users_leave_and_are_cut() {
    for (wrong, churn, expected) in [
        (None, "30", vec![]),
        (Some(Wrong::Lose(40)), "5", vec![("lost", 1)]),
        (Some(Wrong::Duplicate(40)), "5", vec![("duplicated", 1)]),
    ] {
        let server = Server::start(Script {
            wrong,
            is_unnumbered: true,
            ..Script::default()
        });
        let run = call(&server, &["--churn", churn, "--churn-cut", "0.3"]).run();
        audited(&run, &expected);
    }
}

#[test]
fn every_part_of_an_update_is_compared_with_what_was_sent() {
    for (wrong, expected) in [
        (Wrong::Epoch(40), &[("wrong_epoch", 1)][..]),
        (Wrong::Time(40), &[("wrong_time", 1)]),
        (Wrong::Stamp(40), &[("wrong_state", 1), ("lost", 1)]),
        (Wrong::Field(40), &[("wrong_state", 1), ("lost", 1)]),
        (Wrong::CallJoin(40), &[("wrong_type", 1)]),
    ] {
        finds(wrong, expected, "CountsDisagree");
    }
}

#[test]
fn a_leave_of_a_member_that_stays_is_false_and_its_true_leave_is_no_duplicate() {
    let script = Script {
        wrong: Some(Wrong::FalseLeave(40)),
        is_unnumbered: true,
        ..Script::default()
    };
    finds_in(script, &[], &[("false_leaves", 1)], "CountsDisagree");
}

#[test]
fn acknowledgements_that_no_request_waits_for_have_a_counter_each() {
    for (wrong, counter) in [
        (Wrong::AnswerTwice(20), "duplicate_acks"),
        (Wrong::AnswerUnknown(20), "unknown_acks"),
        (Wrong::AnswerEpoch(20), "wrong_epoch"),
    ] {
        finds(wrong, &[(counter, 1)], "CountsDisagree");
    }
}

#[test]
fn a_server_that_asks_for_auth_is_reached_with_it() {
    let start = || {
        Server::start(Script {
            auth: Some(r#"{"token":"app-token"}"#),
            ..Script::default()
        })
    };
    call(&start(), &[]).refused(2, &["unauthorized", "--auth"]);
    for mode in ["protocol", "sdk"] {
        let auth = ["--mode", mode, "--auth", r#"{ "token": "app-token" }"#];
        let run = call(&start(), &auth).run();
        audited(&run, &[]);
        assert!(run.result.operations("ok") > 0, "{}", run.stdout);
        let result = run.result.to_string();
        assert!(
            !result.contains("app-token"),
            "the secret is stored: {result}"
        );
    }
}
