//! Calls: what is refused before a run, and what a run prints.

use std::net::TcpListener;
use std::process::Command;

use harness_testing::peer;
use harness_testing::program::Program;

use crate::server::{Script, Server};
use crate::support::{call, run};

fn program(arguments: &[&str]) -> Program {
    Program::new(env!("CARGO_BIN_EXE_presence-load")).args(arguments)
}

#[test]
fn a_server_that_is_none_is_named_before_the_run() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = port.local_addr().unwrap();
    drop(port);
    let url = format!("http://{nobody}");
    program(&[&url]).refused(2, &[&url, "refused", "start the server"]);
    let port = peer::serve_page(|_, _| ("404 Not Found", String::new()));
    let url = format!("http://127.0.0.1:{port}");
    program(&[&url]).refused(2, &[&url, "Socket.IO", "with its path"]);
    program(&["localhost:3000"]).refused(
        2,
        &["localhost:3000", "did you mean http://localhost:3000?"],
    );
    program(&["http://127.0.0.1:9", "--rooms", "0"]).refused(2, &["driver.rooms (--rooms)"]);
}

#[test]
fn more_users_than_ports_or_descriptors_are_refused() {
    let users = [
        "http://127.0.0.1:9",
        "--rooms",
        "400000",
        "--users-per-room",
        "2",
    ];
    program(&users).refused(2, &["source ports", "auto"]);
    let auto = [
        &users[..],
        &["--source-addresses", "auto", "--processes", "1"],
    ]
    .concat();
    program(&auto).refused(5, &["open", "files"]);
}

#[test]
fn a_run_prints_the_lines_and_the_summary_of_the_reference() {
    let server = Server::start(Script::default());
    let run = call(&server, &["--report-interval", "500ms"]).run();
    let start = "Starting presence load: 6 clients across 2 rooms, 10 heartbeats/s per user";
    assert_eq!(run.stdout.lines().next(), Some(start));
    let in_order = ["Starting", "[", "Load test summary\n", "Duration: "];
    let places = in_order.map(|text| run.stdout.find(text).unwrap());
    assert!(places.is_sorted(), "{}", run.stdout);
    let lines: Vec<&str> = run
        .stdout
        .lines()
        .filter(|line| line.starts_with('['))
        .collect();
    assert!(
        lines[0].contains("s] joined=6/6 heartbeat_ok="),
        "{lines:?}"
    );
    assert!(
        lines[0].contains(" events=") && lines[0].ends_with(" errors=0"),
        "{lines:?}"
    );
    for line in [
        "Clients: 6 (rooms=2, users/room=3)\n",
        "Join successes: 6\n",
        "Heartbeats attempted: 60\n",
        "Heartbeat successes: 60\n",
        "Join snapshot total size: 12\n",
        "Errors: { connect: 0, joinTimeout: 0, joinRejected: 0, heartbeatTimeout: 0, heartbeatRejected: 0, leave: 0 }\n",
        "Join latency (ms): count=6, min=",
        "Heartbeat latency (ms): count=60, min=",
    ] {
        assert!(run.stdout.contains(line), "{line} is not in {}", run.stdout);
    }
    // Nothing is called excellent, or bad, that was not measured soundly.
    let is_judged = run.stdout.contains("Heartbeat p50 ");
    assert_eq!(
        is_judged,
        run.result["verdict"] == "VALID",
        "{}",
        run.stdout
    );
}

#[test]
fn a_report_for_programs_is_alone_on_stdout() {
    let server = Server::start(Script::default());
    let lines = ["--report-interval", "500ms", "--format", "json"];
    let run = call(&server, &lines).run();
    serde_json::from_str::<serde_json::Value>(&run.stdout).unwrap();
    assert!(run.stderr.contains("s] joined=6/6 "), "{}", run.stderr);
}

#[test]
fn the_time_of_the_ramp_comes_before_the_duration() {
    let server = Server::start(Script::default());
    let run = call(&server, &["--ramp-up", "500ms"]).run();
    let announced = "joined within the first 500ms; then heartbeats: ";
    let is_said = run.stderr.contains(announced) && run.stderr.contains(" for 1s; 1s 500ms in all");
    assert!(is_said, "{}", run.stderr);
}

#[test]
fn a_wrong_variable_of_the_reference_is_named_with_its_option() {
    for (value, option) in [("abc", "--rooms <N>"), ("0", "driver.rooms (--rooms)")] {
        let mut call = program(&["http://127.0.0.1:1"]);
        call.command().env("ROOM_COUNT", value);
        call.refused(2, &["ROOM_COUNT (--rooms)", option]);
    }
}

#[test]
fn a_server_of_another_protocol_is_told_which_one_is_meant() {
    let server = Server::start(Script {
        has_no_rooms: true,
        ..Script::default()
    });
    let url = server.url();
    let output = Command::new(env!("CARGO_BIN_EXE_presence-load"))
        .arg(&url)
        .output();
    assert_eq!(output.unwrap().stdout, b"", "nothing has started");
    program(&[&url]).refused(
        2,
        &[
            "the answer to presence:join",
            "presence protocol",
            "PROTOCOL.md",
            &url,
        ],
    );
}

#[test]
fn the_reference_s_variables_describe_the_run() {
    let server = Server::start(Script::default());
    let mut call = program(&["--quiet"]);
    for (name, value) in [
        ("TARGET_URL", server.url().as_str()),
        ("ROOM_COUNT", "1"),
        ("USERS_PER_ROOM", "2"),
        ("HEARTBEATS_PER_SEC", "20"),
        ("TEST_DURATION_MS", "500"),
        ("RAMP_UP_MS", "0"),
        ("ACK_TIMEOUT_MS", "5000"),
    ] {
        call.command().env(name, value);
    }
    let run = call.run();
    assert_eq!(run.result.operations("started"), 20);
    assert_eq!(run.result["plan"]["driver"]["ack_timeout"], "5s");
}

#[test]
fn older_names_of_options_and_variables_are_taken_with_a_note() {
    let printed = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut call = Command::new(env!("CARGO_BIN_EXE_presence-load"));
        call.args(arguments).arg("--print-plan");
        let output = call.envs(variables.iter().copied()).output().unwrap();
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap())
    };
    let [plan, notes] = printed(&["--keep-open", "--loop", "closed"], &[]);
    assert_eq!(notes, "");
    let [older, notes] = printed(&["--hold"], &[("PRESENCE_LOAD_PACING", "closed")]);
    assert_eq!(older, plan);
    for note in [
        "note: --hold is called --keep-open now",
        "note: PRESENCE_LOAD_PACING is called PRESENCE_LOAD_LOOP now",
    ] {
        assert!(notes.contains(note), "{notes}");
    }
}

#[test]
fn runs_with_the_same_seed_are_the_same() {
    let key_of = |seed: &str| {
        let server = Server::start(Script::default());
        let one = ["--rooms", "1", "--users-per-room", "1"];
        let seeded = ["--duration", "100ms", "--seed", seed];
        call(&server, &[one, seeded].concat()).run();
        // The check before the run has two connections.
        server.keys().split_off(2)
    };
    let key = key_of("7");
    assert_eq!(key.len(), 1);
    assert_eq!(key_of("7"), key);
    assert_ne!(key_of("8"), key);
}

#[test]
fn limits_of_the_reference_are_judged() {
    let run = run(&["--reference-limits"]);
    let thresholds = run.result["thresholds"].as_array().unwrap();
    assert_eq!(thresholds.len(), 4);
}

/// Checks a server. Returns true if it was right, and what was printed.
fn check(server: &Server, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_presence-load"))
        .args(["check", &server.url()])
        .args(arguments)
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    (output.status.success(), stdout.into_owned())
}

#[test]
fn check_joins_two_users_and_verifies_all() {
    let server = Server::start(Script::default());
    let (is_right, stdout) = check(&server, &[]);
    assert!(is_right, "{stdout}");
    assert!(
        stdout.contains("join, heartbeat, update and leave"),
        "{stdout}"
    );
    assert_eq!(server.requests(), (2, 1));
}

#[test]
fn check_uses_the_transport_that_was_chosen() {
    // The server speaks WebSocket only.
    let server = Server::start(Script::default());
    for transport in ["polling", "upgrade"] {
        let (is_right, stdout) = check(&server, &["--transport", transport]);
        assert!(!is_right, "{stdout}");
        assert!(
            stdout.contains("does not answer as a Socket.IO server"),
            "{stdout}"
        );
        assert_eq!(server.requests(), (0, 0));
    }
}

#[test]
fn check_reaches_a_server_that_asks_for_auth() {
    let server = Server::start(Script {
        auth: Some(r#"{"token":"app-token"}"#),
        ..Script::default()
    });
    let (is_right, stdout) = check(&server, &[]);
    assert!(!is_right && stdout.contains("--auth"), "{stdout}");
    let (is_right, stdout) = check(&server, &["--auth", r#"{ "token": "app-token" }"#]);
    assert!(is_right, "{stdout}");
}
