//! Connections that end, and servers that begin again.

use harness_testing::processes::wait_until;

use super::application::{Application, Script};
use super::{FAN_OUT, JOIN, MESSAGES, accounted, call, chat, plan, plan_of};

#[test]
fn users_that_leave_or_are_cut_come_back_and_nothing_is_counted_as_lost() {
    let run = chat(Script::default(), &["--churn", "40", "--duration", "1s"]);
    accounted(&run, &[]);
    let result = &run.result;
    let away = result.count("churn_left") + result.count("churn_cut");
    assert!(away > 20, "{}", result["counts"]);
    result.counts(&[("joins", 6 + away), ("not_back", 0)]);
    result.adds_up();
}

#[test]
fn all_users_come_back_after_a_restart_and_nothing_is_lost_in_their_new_memberships() {
    let application = Application::start(Script::default());
    let plan = plan(&[FAN_OUT, JOIN, MESSAGES]);
    let run = call(&application.url(), &plan, &["--duration", "3s"]).start();
    wait_until("the load has begun", || application.messages() > 30);
    application.restart();
    let run = run.end();
    accounted(&run, &[]);
    run.result.counts(&[
        ("connections_lost", 6),
        ("reconnects", 6),
        ("joins", 12),
        ("not_back", 0),
    ]);
    assert_eq!(run.code, 1);
}

#[test]
fn a_server_that_closes_in_the_handshake_is_named() {
    for (closes, word) in [
        ("accepted", "as a Socket.IO server"),
        ("upgraded", "as a Socket.IO server"),
        ("open", "as a Socket.IO server"),
        ("connected", "driver.conversation.start[0]"),
    ] {
        let application = Application::start(Script {
            closes: Some(closes),
            ..Script::default()
        });
        let plan = plan(&[FAN_OUT, JOIN, MESSAGES]);
        call(&application.url(), &plan, &[]).refused(2, &[word]);
    }
}

#[test]
fn a_push_of_a_megabyte_is_read() {
    let application = Application::start(Script {
        padding: 1_000_000,
        ..Script::default()
    });
    let groups = "groups = [{ name = \"messages\", rate = 8.0 }]";
    let plan = plan_of(groups, &[FAN_OUT, JOIN, MESSAGES]);
    let users = [
        "--rooms",
        "1",
        "--users-per-room",
        "2",
        "--ack-timeout",
        "5s",
    ];
    let run = call(&application.url(), &plan, &users).run();
    accounted(&run, &[]);
    let events = run.result.count("events");
    assert_eq!(events, 2 * run.result.count("messages"));
    assert!(run.result.count("bytes") > 1_000_000 * events && events > 0);
}
