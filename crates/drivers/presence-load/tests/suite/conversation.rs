//! Users that follow the conversation of a plan, against a scripted application.

use std::io::Write as _;

use harness::launcher::Launcher;
use harness_testing::daemons::prepared;
use harness_testing::program::{CompletedRun, Program};
use subject::daemon::Daemon;
use tempfile::NamedTempFile;

use application::{Application, Script};

mod application;
mod connections;
mod constructs;
mod descriptions;
mod plain;
mod refused;
mod scenarios;
mod unfit;

/// The join of the scripted application, and its messages.
const JOIN: &str = r#"start = [{ emit = "join", data = ["{{room}}", "{{user}}"], ack = true, expect = { pointer = "/0/ok", is = true } }]"#;
const MESSAGES: &str = r#"steps = [{ emit = "chat message", data = [{ user = "{{user}}", n = "{id}" }], ack = true }]"#;
const FAN_OUT: &str =
    r#"fan_out = { event = "chat message", sender = "/0/user", number = "/0/n", to = "room" }"#;

/// Returns a plan of 2 rooms with 3 users, and 60 messages in half a second, with these fields of the conversation.
fn plan(conversation: &[&str]) -> NamedTempFile {
    plan_of(
        "groups = [{ name = \"messages\", rate = 120.0 }]",
        conversation,
    )
}

/// Returns such a plan with the fields of a row: `{join} ; {messages}`.
fn plan_of_row(row: &str) -> NamedTempFile {
    let row = row.replace("{join}", JOIN).replace("{messages}", MESSAGES);
    plan(&[&row.replace("{fan_out}", FAN_OUT).replace(" ; ", "\n")])
}

fn plan_of(groups: &str, conversation: &[&str]) -> NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    let fields = conversation.join("\n");
    write!(
        file,
        "name = \"test\"\n{groups}\ntimeline = {{ warmup = \"0s\", measure = \"500ms\", drain = \"4s\" }}\n\
         [driver]\nrooms = 2\nusers_per_room = 3\nramp_up = \"0s\"\nack_timeout = \"1s\"\n\
         [driver.conversation]\n{fields}\n"
    )
    .unwrap();
    file
}

fn call(url: &str, plan: &NamedTempFile, arguments: &[&str]) -> Program {
    Program::new(env!("CARGO_BIN_EXE_presence-load"))
        .args(["--plan", plan.path().to_str().unwrap(), "--threads", "1"])
        .args(arguments)
        .args([url])
}

fn chat(script: Script, arguments: &[&str]) -> CompletedRun {
    let application = Application::start(script);
    let plan = plan(&[FAN_OUT, JOIN, MESSAGES]);
    call(&application.url(), &plan, arguments).run()
}

/// Checks the counters of pushes: those not named must be 0.
#[track_caller]
fn accounted(run: &CompletedRun, expected: &[(&str, u64)]) {
    let names = [
        "lost",
        "duplicated",
        "reordered",
        "wrong_room",
        "wrong_state",
        "foreign",
    ];
    let counts = names.map(|name| {
        let expected = expected.iter().find(|counter| counter.0 == name);
        (name, expected.map_or(0, |counter| counter.1))
    });
    run.result.counts(&counts);
}

#[test]
fn every_push_is_accounted_for_and_timed() {
    let run = chat(Script::default(), &[]);
    accounted(&run, &[]);
    let result = &run.result;
    result.counts(&[
        ("events", 180),
        ("messages", 60),
        ("joins", 6),
        ("heartbeats", 0),
    ]);
    assert_eq!(result.operations("ok"), 60);
    assert_eq!(result.values("message"), 60);
    assert_eq!(result.values("propagation"), 180);
    assert_eq!(result.values("start"), 6);
    result.adds_up();
}

#[test]
fn pushes_that_go_wrong_are_named() {
    let faults = &[
        ("lose", 20),
        ("duplicate", 40),
        ("reorder", 60),
        ("misdirect", 80),
        ("forge", 100),
        ("rename", 120),
        // The last one of all.
        ("lose", 179),
    ];
    let run = chat(
        Script {
            faults,
            ..Script::default()
        },
        &[],
    );
    // What was forged and renamed has not reached its receiver either.
    let expected = [
        ("lost", 4),
        ("duplicated", 1),
        ("reordered", 1),
        ("wrong_room", 1),
        ("wrong_state", 1),
        ("foreign", 1),
    ];
    accounted(&run, &expected);
    assert_eq!(run.result.operations("ok"), 60);
    let warning = format!("{:?}", run.result.warning("CountsDisagree"));
    assert!(warning.contains("pushes"), "{warning}");
}

#[test]
fn messages_that_are_not_answered_well_fail_and_their_pushes_are_not_lost() {
    let application = Application::start(Script {
        faults: &[("deaf", 20), ("refuse", 40)],
        ..Script::default()
    });
    let steps = MESSAGES.replace(
        "ack = true",
        r#"ack = true, expect = { pointer = "/0/ok", is = true }"#,
    );
    let plan = plan(&[FAN_OUT, JOIN, &steps]);
    let run = call(&application.url(), &plan, &[]).run();
    accounted(&run, &[]);
    assert_eq!(run.result.error("answer_timeout"), 1);
    assert_eq!(run.result.error("answer_wrong"), 1);
    assert_eq!(run.result.operations("ok"), 58);
    assert_eq!(run.code, 1);
}

#[test]
fn unexpected_messages_have_a_counter_each_and_a_ping_is_answered() {
    let faults = &[
        ("twice", 10),
        ("stray", 20),
        ("news", 30),
        ("ping", 40),
        ("binary", 50),
    ];
    let application = Application::start(Script {
        faults,
        ..Script::default()
    });
    let plan = plan(&[FAN_OUT, JOIN, MESSAGES]);
    let run = call(&application.url(), &plan, &[]).run();
    accounted(&run, &[]);
    run.result.counts(&[
        ("duplicate_acks", 1),
        ("unknown_acks", 1),
        // The event, and the binary message.
        ("ignored", 2),
        ("connections_lost", 0),
    ]);
    // An answer in a binary frame is none.
    assert_eq!(run.result.error_kinds(), ["answer_timeout"]);
    assert_eq!(run.result.operations("ok"), 59);
    let received = application.received();
    assert_eq!(received.iter().filter(|it| *it == "pong").count(), 1);
}

#[test]
fn the_plan_of_the_chat_accounts_for_every_push_of_the_tutorial_s_server() {
    let Some(prepared) = prepared("node-chat", "socket.io") else {
        return;
    };
    let plan = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../configs/presence/chat.toml"
    );
    let small = ["--duration", "500ms", "--ramp-up", "200ms"];
    let of_plan = |daemon: &Daemon, arguments: &[&str]| {
        Program::new(env!("CARGO_BIN_EXE_presence-load"))
            .args(["--plan", plan])
            .args(small)
            .args(arguments)
            .args([daemon.endpoint().url.clone().unwrap()])
    };
    let launcher = Launcher::new().unwrap();
    let secret = [("CHAT_TOKEN", "abc")];
    let served = launcher.with(&prepared, &secret, |daemon| {
        of_plan(daemon, &[]).refused(2, &["unauthorized", "driver.auth"]);
        let auth = ["--auth", "{\"token\":\"abc\"}"];
        let unknown = [&auth[..], &["--namespace", "/none"]].concat();
        of_plan(daemon, &unknown).refused(2, &["Invalid namespace", "driver.namespace"]);
        let run = of_plan(daemon, &[&auth[..], &["--rooms", "4"]].concat()).run();
        accounted(&run, &[]);
        let messages = run.result.count("messages");
        assert!(messages > 20, "{}", run.stderr);
        run.result.counts(&[("events", 50 * messages)]);
        for transport in ["polling", "upgrade"] {
            let few = "--rooms 2 --users-per-room 3 --warmup 0s --churn 10";
            let call = of_plan(daemon, &[&auth[..], &["--transport", transport]].concat());
            let run = call.call(few).run();
            accounted(&run, &[]);
            let result = &run.result;
            let away = result.count("churn_left") + result.count("churn_cut");
            result.counts(&[("joins", 6 + away), ("not_back", 0)]);
            assert!(result.operations("ok") > 0 && away > 0, "{}", run.stderr);
        }
    });
    served.unwrap();
}
