//! The program against a scripted broker: every message is accounted for, whatever happens.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use amqp_perftest::settings::Settings;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use null_broker::{Mode, NullBroker, Script};
use serde_json::Value;

/// Returns the engine: `runs_lapin.rs` includes these tests with the other one.
fn engine() -> &'static str {
    match env!("CARGO_CRATE_NAME") {
        "runs_lapin" => "lapin",
        _ => "wire",
    }
}

/// Returns the program, with its single result in `out`.
fn program(out: &Path, uri: &str) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("amqp-perftest"));
    command
        .args(["--engine", engine(), "--uri", uri, "--quiet", "--into"])
        .arg(out.join("run"));
    command
}

fn result(out: &Path) -> Value {
    let text = std::fs::read_to_string(out.join("run/result.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Runs the program on a broker with this script. Returns the exit code and the result, after checking that every
/// operation is accounted for.
fn run(script: Script, arguments: &[&str]) -> (i32, Value) {
    let out = tempfile::tempdir().unwrap();
    let broker = NullBroker::start(script).unwrap();
    let output = program(out.path(), &broker.uri())
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let Some(code) = output.status.code() else {
        panic!("{arguments:?} {:?}: {said}", output.status);
    };
    assert_ne!(code, 2, "{arguments:?}: {said}");
    let result = result(out.path());
    adds_up(&result);
    (code, result)
}

fn adds_up(result: &Value) {
    let of = |name: &str| result["operations"][name].as_u64().unwrap();
    let ended = of("ok") + of("failed") + of("unfinished");
    assert_eq!(of("started"), ended, "{}", result["operations"]);
}

fn count(result: &Value, name: &str) -> u64 {
    result["counts"][name].as_u64().unwrap_or(0)
}

fn error(result: &Value, name: &str) -> u64 {
    result["errors"][name].as_u64().unwrap_or(0)
}

fn values(result: &Value, name: &str) -> u64 {
    let series = result["series"].as_array().unwrap();
    let found = series.iter().find(|series| series["name"] == name);
    found.map_or(0, |series| series["count"].as_u64().unwrap())
}

fn counts(result: &Value, expected: &[(&str, u64)]) {
    for (name, number) in expected {
        assert_eq!(
            count(result, name),
            *number,
            "{name} in {}",
            result["counts"]
        );
    }
}

/// Checks that nothing failed, which holds however busy the machine is.
fn nothing_failed(code: i32, result: &Value) {
    assert!(code == 0 || code == 3, "{code}: {}", result["errors"]);
}

#[test]
fn every_message_is_published_confirmed_and_consumed_once() {
    let shapes: [&[&str]; 4] = [
        &["--prefetch", "10"],
        &["--auto-ack", "--threads", "3"],
        &[
            "--prefetch",
            "100",
            "--multi-ack-every",
            "7",
            "--channels",
            "2",
        ],
        &[
            "--queue-pattern",
            "q-%d",
            "--queue-pattern-from",
            "1",
            "--queue-pattern-to",
            "2",
            "--threads",
            "1",
        ],
    ];
    for shape in shapes {
        let load = [
            "--producers",
            "4",
            "--consumers",
            "2",
            "--pmessages",
            "2500",
            "--confirm",
            "64",
        ];
        let (code, result) = run(Script::default(), &[&load, shape].concat());
        nothing_failed(code, &result);
        counts(
            &result,
            &[
                ("published", 10_000),
                ("confirmed", 10_000),
                ("consumed", 10_000),
                ("lost", 0),
                ("duplicated", 0),
                ("out_of_order", 0),
            ],
        );
        assert_eq!(result["operations"]["ok"], 10_000);
        assert_eq!(
            (values(&result, "confirm"), values(&result, "end_to_end")),
            (10_000, 10_000)
        );
    }
}

/// Serves a page with RabbitMQ's counters, which are 5 before the run and this much more from the third request on;
/// returns its address.
fn rabbitmq_page(received: u64, delivered: u64) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for (time, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let [received, delivered] = [received, delivered].map(|more| match time {
                0 | 1 => 5,
                _ => 5 + more,
            });
            let body = format!(
                "rabbitmq_global_messages_received_total{{protocol=\"amqp091\"}} {received}\n\
                 rabbitmq_global_messages_delivered_total{{protocol=\"amqp091\",queue_type=\"rabbit_classic_queue\"}} {delivered}\n"
            );
            let length = body.len();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    url
}

#[test]
fn what_a_broker_counted_that_runs_already_is_compared() {
    for (received, delivered, differ) in [(200, 200, 0), (201, 200, 1), (200, 199, 1)] {
        let page = rabbitmq_page(received, delivered);
        let load = ["--producers", "2", "--consumers", "1", "--pmessages", "100"];
        let named = ["--name", "mine", "--daemon-metrics", &page];
        let (_, result) = run(Script::default(), &[&load[..], &named].concat());
        counts(&result, &[("written", 200), ("delivered", 200)]);
        assert_eq!(result["daemon"]["name"], "mine");
        let warnings = result["warnings"].as_array().unwrap().iter();
        let disagree = warnings.filter(|warning| warning["kind"] == "CountsDisagree");
        assert_eq!(disagree.count(), differ, "{}", result["warnings"]);
    }
}

#[test]
fn bodies_of_all_sizes_come_whole() {
    for size in ["28", "300000"] {
        let (code, result) = run(
            Script::default(),
            &["--size", size, "--pmessages", "200", "--prefetch", "5"],
        );
        nothing_failed(code, &result);
        counts(
            &result,
            &[("published", 200), ("consumed", 200), ("foreign", 0)],
        );
    }
}

#[test]
fn what_a_broker_drops_doubles_or_swaps_is_found_and_named() {
    let script = Script {
        drop: vec![10],
        duplicate: vec![20],
        swap: vec![30],
        ..Script::default()
    };
    let (code, result) = run(
        script,
        &["--pmessages", "500", "--prefetch", "50", "--drain", "1s"],
    );
    assert_eq!(code, 1);
    counts(
        &result,
        &[
            ("published", 500),
            ("consumed", 500),
            ("lost", 1),
            ("duplicated", 1),
            ("out_of_order", 1),
        ],
    );
    assert_eq!(
        (error(&result, "lost"), &result["operations"]["ok"]),
        (1, &Value::from(499))
    );
}

#[test]
fn what_comes_twice_or_in_another_order_makes_the_result_suspect() {
    let load = ["--pmessages", "500", "--prefetch", "50"];
    let doubt = |script: Script, kind: &str, more: &[&str]| {
        let (code, result) = run(script, &[&load, more].concat());
        let warnings = result["warnings"].as_array().unwrap();
        let found = warnings.iter().find(|warning| warning["kind"] == kind);
        let severity = found.unwrap_or_else(|| panic!("{kind}: {code}"))["severity"].clone();
        (code, severity)
    };
    let twice = Script {
        duplicate: vec![20],
        ..Script::default()
    };
    assert_eq!(doubt(twice, "Duplicated", &[]), (3, "suspect".into()));
    let swapped = Script {
        swap: vec![30],
        ..Script::default()
    };
    let suspect = doubt(swapped.clone(), "OutOfOrder", &[]);
    assert_eq!(suspect, (3, "suspect".into()));
    let (_, severity) = doubt(swapped, "OutOfOrder", &["--nack", "0.1"]);
    assert_eq!(
        severity, "note",
        "given back and in order are not both to be had"
    );
}

/// One bit, or a hundred bytes, are enough; bodies of a stamp alone, JSON and files are also checked.
#[test]
fn a_body_that_is_not_as_it_was_sent_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("body");
    std::fs::write(&file, "some text, sent behind a stamp").unwrap();
    let file = file.to_str().unwrap();
    let kinds: [&[&str]; 5] = [
        &["--size", "1024"],
        &["--size", "28"],
        &["--size", "300000"],
        &["--size", "500", "--json-body"],
        &["--body", file],
    ];
    for kind in kinds {
        let corrupt = Script {
            corrupt: vec![10, 20],
            ..Script::default()
        };
        let load = ["--pmessages", "100", "--prefetch", "50"];
        let (code, result) = run(corrupt, &[&load, kind].concat());
        let (damaged, lost) = (count(&result, "damaged"), count(&result, "lost"));
        assert_eq!(
            (code, &result["operations"]["ok"]),
            (1, &98.into()),
            "{kind:?}"
        );
        // The last bit of a body without content belongs to its stamp's time: its number is intact.
        assert_eq!(
            (damaged, error(&result, "damaged"), lost),
            (2, 2, 0),
            "{kind:?}"
        );
        assert_eq!(result["operations"]["unfinished"], 0);
    }
    let cut = Script {
        shorten: vec![10],
        ..Script::default()
    };
    let (code, result) = run(cut, &["--pmessages", "100", "--prefetch", "50"]);
    assert_eq!((code, error(&result, "damaged")), (1, 1));
}

#[test]
fn a_message_that_comes_again_after_its_acknowledgement_makes_the_result_suspect() {
    let load = ["--pmessages", "300", "--prefetch", "1"];
    for way in [
        &[][..],
        &["--auto-ack"],
        &["--multi-ack-every", "1", "--consumers", "2"],
    ] {
        let script = Script {
            redeliver: vec![20],
            ..Script::default()
        };
        let way = [&load, way].concat();
        let way: Vec<&str> = way.into_iter().collect();
        let (code, result) = run(script, &way);
        let redelivered = count(&result, "redelivered_after_ack");
        let duplicated = count(&result, "duplicated");
        assert_eq!(redelivered + duplicated, 1, "{way:?}");
        assert_eq!(code, 3, "{way:?}");
        let warnings = result["warnings"].to_string();
        if duplicated == 1 {
            // Of two consumers, one may read the second delivery before the other reads the first.
            assert!(way.contains(&"--consumers"), "{way:?}");
            continue;
        }
        assert!(warnings.contains("were redelivered although"), "{warnings}");
    }
    // A requeued message is delivered again correctly.
    let (_, result) = run(Script::default(), &[&load[..], &["--nack", "0.1"]].concat());
    assert!(count(&result, "redelivered") > 0);
    assert_eq!(count(&result, "redelivered_after_ack"), 0);
}

/// A message marked as redelivered at its first arrival has waited longest, behind a lost consumer.
#[test]
fn every_message_that_ends_well_has_one_latency() {
    let script = Script {
        mark: vec![5, 6, 7],
        duplicate: vec![20, 21],
        ..Script::default()
    };
    let (_, result) = run(script, &["--pmessages", "500", "--prefetch", "50"]);
    counts(&result, &[("redelivered", 3), ("duplicated", 2)]);
    assert_eq!(
        (&result["operations"]["ok"], values(&result, "end_to_end")),
        (&Value::from(500), 500)
    );
}

/// Arrived messages return to the queue when a consumer leaves without acknowledging them: they must not count as
/// replacements for a dropped one.
#[test]
fn what_was_not_acknowledged_hides_no_loss() {
    let load = ["--pmessages", "500", "--prefetch", "50", "--duration", "1s"];
    let ways: [&[&str]; 3] = [
        &["--multi-ack-every", "7"],
        &["--consumer-latency", "1ms"],
        &["--nack", "0.02", "--consumer-latency", "1ms"],
    ];
    for way in ways {
        let script = Script {
            drop: vec![10],
            ..Script::default()
        };
        let (code, result) = run(script, &[&load, way, &["--drain", "2s"]].concat());
        assert_eq!(
            (code, error(&result, "lost"), count(&result, "lost")),
            (1, 1, 1),
            "{way:?}: {}",
            result["operations"]
        );
        assert_eq!(result["operations"]["unfinished"], 0, "{way:?}");
    }
}

#[test]
fn what_a_cut_gives_back_to_the_queue_hides_no_loss() {
    let script = Script {
        drop: vec![10],
        cut_consumers: vec![400],
        ..Script::default()
    };
    let load = ["--rate", "500", "--duration", "1s", "--drain", "300ms"];
    // Messages that arrived before the connection is cut were not acknowledged, and do not come again.
    let never = ["--consumer-latency", "60s", "--reconnect-after", "60s"];
    let (code, result) = run(script, &[&load[..], &never, &["--prefetch", "50"]].concat());
    assert_eq!((code, error(&result, "lost")), (1, 1));
    let arrived = count(&result, "consumed");
    assert_eq!(result["operations"]["unfinished"], 499 - arrived);
}

#[test]
fn what_a_broker_refuses_or_returns_is_an_error_and_not_lost() {
    let script = Script {
        nack: vec![3, 4],
        ..Script::default()
    };
    for consumers in ["0", "1"] {
        let load = ["--pmessages", "100", "--confirms", "--consumers", consumers];
        let (code, result) = run(script.clone(), &load);
        assert_eq!(
            (code, error(&result, "nacked"), error(&result, "lost")),
            (1, 2, 0)
        );
        counts(&result, &[("nacked", 2), ("confirmed", 98)]);
        let nowhere = ["--routing-key", "nowhere", "--mandatory"];
        let (code, result) = run(Script::default(), &[&load[..], &nowhere].concat());
        assert_eq!(
            (code, error(&result, "returned")),
            (1, 100),
            "{}",
            result["errors"]
        );
        counts(&result, &[("returned", 100), ("confirmed", 100)]);
    }
}

#[test]
fn a_connection_that_is_cut_is_made_again_and_the_gap_is_counted() {
    let script = Script {
        cut: vec![500],
        ..Script::default()
    };
    let load = [
        "--rate",
        "1000",
        "--duration",
        "2s",
        "--confirm",
        "20",
        "--reconnect-after",
        "100ms",
        "--drain",
        "5s",
    ];
    let (code, result) = run(script, &load);
    assert_eq!(code, 1);
    counts(
        &result,
        &[("disconnects", 1), ("reconnects", 1), ("duplicated", 0)],
    );
    assert!(
        error(&result, "connection_lost") >= 1,
        "{}",
        result["errors"]
    );
    assert!(count(&result, "gap_ms") >= 100);
    assert_eq!(
        error(&result, "lost"),
        0,
        "the broker lost none that it confirmed"
    );
    let started = result["operations"]["started"].as_u64().unwrap();
    let missed = result["operations"]["missed"].as_u64().unwrap();
    assert_eq!(
        started + missed,
        2_000,
        "what was due in the gap was sent after it"
    );
}

#[test]
fn publishers_wait_where_the_broker_asks_them_to() {
    let script = Script {
        block: vec![100],
        ..Script::default()
    };
    let (code, result) = run(
        script,
        &[
            "--pmessages",
            "2000",
            "--producers",
            "2",
            "--prefetch",
            "10",
            "--confirm",
            "10",
        ],
    );
    nothing_failed(code, &result);
    counts(&result, &[("published", 4_000), ("consumed", 4_000)]);
    assert!(
        count(&result, "blocked") >= 1 && count(&result, "blocked_ms") >= 100,
        "{}",
        result["counts"]
    );
}

#[test]
fn what_consumers_give_back_comes_again_and_is_neither_lost_nor_a_duplicate() {
    let (code, result) = run(
        Script::default(),
        &["--pmessages", "1000", "--nack", "0.1", "--prefetch", "10"],
    );
    nothing_failed(code, &result);
    let back = count(&result, "given_back");
    assert!((80..=120).contains(&back), "{back}");
    // All have arrived once the last one has: of the requeued messages, as many as the prefetch may still be under way.
    let again = count(&result, "redelivered");
    assert!((back - 10..=back).contains(&again), "{again} of {back}");
    counts(
        &result,
        &[("consumed", 1000 + again), ("duplicated", 0), ("lost", 0)],
    );
}

#[test]
fn consumers_that_take_their_time_hold_up_what_the_prefetch_lets_them() {
    let load = [
        "--pmessages",
        "40",
        "--prefetch",
        "2",
        "--consumer-latency",
        "10ms",
        "--drain",
        "20s",
    ];
    let (code, result) = run(Script::default(), &load);
    nothing_failed(code, &result);
    counts(&result, &[("consumed", 40), ("lost", 0)]);
    // The last but two are delivered when 38 before them were processed, 10 ms each.
    assert!(
        result["wall_s"].as_f64().unwrap() >= 0.38,
        "{}",
        result["wall_s"]
    );
}

#[test]
fn consumers_alone_take_what_comes_for_as_long_as_the_run_measures() {
    let script = Script {
        mode: Mode::Stream,
        ..Script::default()
    };
    let load = ["--producers", "0", "--prefetch", "100", "--duration", "1s"];
    let (code, result) = run(script, &load);
    assert_ne!(code, 1);
    assert!((1.0..10.0).contains(&result["wall_s"].as_f64().unwrap()));
    let consumed = count(&result, "consumed");
    assert!(consumed > 1_000);
    assert_eq!(
        (values(&result, "end_to_end"), count(&result, "duplicated")),
        (consumed, 0)
    );
    assert_eq!(result["operations"]["ok"], consumed);
}

#[test]
fn a_rate_is_that_of_all_producers_together() {
    for producers in ["1", "3", "50"] {
        let load = [
            "--rate",
            "1000",
            "--duration",
            "2s",
            "--producers",
            producers,
            "--prefetch",
            "100",
        ];
        let (_, result) = run(Script::default(), &load);
        let operations = &result["operations"];
        let sum = operations["started"].as_u64().unwrap() + operations["missed"].as_u64().unwrap();
        assert_eq!(sum, 2_000, "{producers}: {operations}");
        assert!(operations["missed"].as_u64().unwrap() < 200, "{operations}");
    }
}

#[test]
fn a_rate_that_varies_goes_through_its_steps_again_and_again() {
    let steps = [
        "--variable-rate",
        "400:0.5",
        "--variable-rate",
        "100:0.5",
        "--duration",
        "2s",
    ];
    let load = ["--prefetch", "100", "--message-properties"];
    let properties = "priority=3,content-type=text/plain,tenant=a";
    let (_, result) = run(
        Script::default(),
        &[&load[..], &[properties], &steps].concat(),
    );
    let operations = &result["operations"];
    let sum = operations["started"].as_u64().unwrap() + operations["missed"].as_u64().unwrap();
    assert_eq!(sum, 500, "{operations}");
    let sent = &result["plan"]["driver"]["properties"];
    assert_eq!(
        (&sent["priority"], &sent["headers"]["tenant"]),
        (&Value::from(3), &Value::from("a"))
    );
}

#[test]
fn a_message_that_is_held_delays_itself_and_those_behind_it() {
    let script = Script {
        hold: vec![(100, Duration::from_millis(400))],
        ..Script::default()
    };
    let load = ["--rate", "200", "--duration", "2s", "--prefetch", "0"];
    let (_, result) = run(script, &load);
    counts(
        &result,
        &[("published", 400), ("consumed", 400), ("lost", 0)],
    );
    let series = result["series"].as_array().unwrap();
    let latency = series
        .iter()
        .find(|series| series["name"] == "end_to_end")
        .unwrap();
    let ms = |figure: &str| latency[figure].as_f64().unwrap() / 1e6;
    // 80 of 400 messages were due in the 400 ms: a fifth of all, spread evenly from 0 to 400 ms.
    assert!((395.0..600.0).contains(&ms("max_ns")), "{}", ms("max_ns"));
    assert!((150.0..450.0).contains(&ms("p90_ns")), "{}", ms("p90_ns"));
}

#[test]
fn a_broker_that_goes_away_ends_the_run_in_time_with_a_result() {
    let out = tempfile::tempdir().unwrap();
    let broker = NullBroker::start(Script::default()).unwrap();
    let load = [
        "--rate",
        "500",
        "--duration",
        "3s",
        "--drain",
        "1s",
        "--confirms",
    ];
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("amqp-perftest"));
    let mut child = command
        .args(["--engine", engine(), "--uri", &broker.uri(), "--into"])
        .arg(out.path().join("run"))
        .args(load)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = said
        .find(|line| line.as_ref().unwrap().starts_with("published: "))
        .unwrap()
        .unwrap();
    assert!(
        line.contains(" msg/s, consumed: ") && line.contains(", confirmed: "),
        "{line}"
    );
    drop(broker);
    let rest: Vec<String> = said.map_while(Result::ok).collect();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{rest:?}");
    let result = result(out.path());
    adds_up(&result);
    assert!(result["wall_s"].as_f64().unwrap() < 20.0);
    assert_eq!(count(&result, "disconnects"), 2);
    assert_eq!(error(&result, "lost"), 0, "nobody can say what it kept");
    let why = result["warnings"].to_string();
    assert!(
        why.contains("not reestablished by the end: Connection refused"),
        "{why}"
    );
}

/// Unpaced producers publish nothing while they are stopped: only the stall shows it.
#[test]
fn a_driver_that_was_stopped_has_stalled() {
    let out = tempfile::tempdir().unwrap();
    let broker = NullBroker::start(Script::default()).unwrap();
    let running = program(out.path(), &broker.uri())
        .args(["--consumers", "0", "--confirms", "--duration", "3s"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while broker.taken() < 100 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let signal = |signal| kill(Pid::from_raw(running.id().cast_signed()), signal).unwrap();
    signal(Signal::SIGSTOP);
    std::thread::sleep(Duration::from_millis(300));
    signal(Signal::SIGCONT);
    let output = running.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let result = result(out.path());
    adds_up(&result);
    let stalls = &result["usage"]["disturbance"]["stalls"];
    let longest_ns = stalls["longest_ns"].as_u64();
    assert!(longest_ns > Some(250_000_000), "{stalls}");
    assert!(warned(&result, "Stalled"), "{}", result["warnings"]);
    assert_eq!(output.status.code(), Some(3), "{said}");
}

fn warned(result: &Value, kind: &str) -> bool {
    let mut warnings = result["warnings"].as_array().unwrap().iter();
    warnings.any(|warning| warning["kind"] == kind && warning["severity"] != "note")
}

/// For a second, the program may open no file: each connection that it needs is a separate error.
#[test]
fn descriptors_that_run_out_are_no_failure_of_the_broker() {
    // The test is independent of the engine.
    if engine() != "wire" {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let broker = NullBroker::start(Script::default()).unwrap();
    let mut running = Command::new(assert_cmd::cargo::cargo_bin!("amqp-perftest"))
        .args(["--uri", &broker.uri(), "--churn", "connection"])
        .args(["--producers", "3", "--duration", "5s", "--into"])
        .arg(out.path().join("run"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = running.id().to_string();
    let may_open = |files: u64| {
        let set = Command::new("prlimit")
            .args(["--pid", &pid])
            .arg(format!("--nofile={files}:"))
            .status();
        assert!(set.unwrap().success());
    };
    let mut said = BufReader::new(running.stderr.take().unwrap()).lines();
    let mut a_second = || {
        let line = said.by_ref().map(Result::unwrap);
        let mut line = line.skip_while(|line| !line.contains("/s"));
        line.next().expect("it says what it does once a second")
    };
    a_second();
    may_open(3);
    a_second();
    a_second();
    may_open(1_024);
    let rest: Vec<String> = said.map_while(Result::ok).collect();
    let code = running.wait().unwrap().code();
    let result = result(out.path());
    adds_up(&result);
    let errors = result["errors"].as_object().unwrap();
    let kinds: Vec<_> = errors.keys().collect();
    assert_eq!(kinds, ["descriptors"], "{rest:?}");
    assert!(warned(&result, "DriverExhausted"), "{rest:?}");
    assert_eq!((code, &result["verdict"]), (Some(3), &"INVALID".into()));
}

#[test]
fn a_broker_that_does_nothing_more_holds_no_run_up() {
    let script = Script {
        halt: vec![300],
        ..Script::default()
    };
    let load = ["--rate", "500", "--duration", "1s", "--drain", "500ms"];
    for confirms in [&["--confirms"][..], &[]] {
        let (code, result) = run(script.clone(), &[&load[..], confirms].concat());
        // The location of the messages is unknown.
        assert_eq!((code, error(&result, "lost")), (3, 0), "{confirms:?}");
        let unfinished = result["operations"]["unfinished"].as_u64().unwrap();
        assert!(unfinished >= 190, "{unfinished}");
        // 1.5 s as planned, 2 s for closing, half a second for queries.
        let wall_s = result["wall_s"].as_f64().unwrap();
        assert!(wall_s < 7.0, "{wall_s}");
    }
}

#[test]
fn what_a_slow_broker_has_not_read_when_all_is_published_is_not_left_behind() {
    let script = Script {
        stall: vec![(1000, Duration::from_secs(4))],
        ..Script::default()
    };
    // A thread with producers only has nothing else to wait for.
    let load = ["--threads", "2", "--duration", "1s", "--drain", "20s"];
    let (code, result) = run(script, &[&load[..], &["--prefetch", "1000"]].concat());
    nothing_failed(code, &result);
    assert_eq!(error(&result, "lost"), 0, "{result:#}");
    assert_eq!(count(&result, "consumed"), count(&result, "published"));
}

#[test]
fn a_broker_that_closes_no_connection_holds_no_run_up() {
    let script = Script {
        keeps_open: true,
        ..Script::default()
    };
    let began = load::clock::now();
    let (code, result) = run(script, &["--pmessages", "100", "--prefetch", "10"]);
    nothing_failed(code, &result);
    counts(&result, &[("consumed", 100), ("lost", 0)]);
    let took_s = (load::clock::now() - began) as f64 / 1e9;
    assert!(took_s < 8.0, "{took_s}");
}

/// On RabbitMQ, a run used to end 2 s later.
#[test]
fn a_connection_whose_end_is_answered_is_closed_at_once() {
    let took_s = || {
        let script = Script {
            lingers: true,
            ..Script::default()
        };
        let (code, result) = run(script, &["--pmessages", "100", "--prefetch", "10"]);
        nothing_failed(code, &result);
        result["wall_s"].as_f64().unwrap()
    };
    // On a busy machine one may take longer.
    assert!((0..4).any(|_| took_s() < 1.9));
}

#[test]
fn the_drain_phase_begins_when_all_is_published() {
    let script = Script {
        drop: vec![10],
        ..Script::default()
    };
    let load = ["--pmessages", "100", "--drain", "300ms", "--threads", "2"];
    let (code, result) = run(script, &[&load[..], &["--duration", "60s"]].concat());
    assert_eq!((code, error(&result, "lost")), (1, 1));
    let wall_s = result["wall_s"].as_f64().unwrap();
    assert!((0.3..15.0).contains(&wall_s), "{wall_s}");
}

#[test]
fn confirms_that_make_no_sense_are_counted_and_doubted() {
    // lapin skips them silently.
    if engine() != "wire" {
        return;
    }
    let load = ["--pmessages", "500", "--confirm", "50", "--prefetch", "50"];
    let twice = Script {
        confirm_twice: vec![100, 200],
        ..Script::default()
    };
    let beyond = Script {
        confirm_beyond: vec![490],
        ..Script::default()
    };
    for (script, faults) in [(twice, 2), (beyond, 1)] {
        let (code, result) = run(script, &[&load[..], &["--duration", "20s"]].concat());
        assert_ne!((code, &result["verdict"]), (0, &Value::from("VALID")));
        counts(&result, &[("protocol", faults)]);
    }
}

#[test]
fn what_is_returned_after_its_confirm_ends_once() {
    let script = Script {
        returns_late: true,
        ..Script::default()
    };
    let nowhere = ["--routing-key", "nowhere", "--mandatory", "--confirms"];
    for consumers in ["0", "1"] {
        let load = ["--pmessages", "100", "--consumers", consumers];
        // The sum is checked for each run.
        let (_, result) = run(script.clone(), &[&load[..], &nowhere].concat());
        if engine() == "wire" {
            counts(&result, &[("returned", 100), ("protocol", 100)]);
            assert_eq!(
                error(&result, "returned"),
                100 * u64::from(consumers == "1")
            );
        }
    }
}

#[test]
fn connections_that_are_made_say_that_they_are_there() {
    // lapin does it by itself.
    if engine() != "wire" {
        return;
    }
    let script = Script {
        heartbeat: 1,
        slow_open: Duration::from_millis(20),
        ..Script::default()
    };
    // They take 4 s, and the broker waits for 2.
    let load = ["--producers", "100", "--consumers", "100"];
    let (_, result) = run(script, &[&load[..], &["--pmessages", "5"]].concat());
    counts(&result, &[("published", 500), ("consumed", 500)]);
    assert_eq!(count(&result, "disconnects"), 0, "{}", result["counts"]);
}

#[test]
fn a_broker_that_sends_no_heartbeat_is_gone() {
    let script = Script {
        halt: vec![200],
        ..Script::default()
    };
    let load = ["--rate", "400", "--duration", "6s", "--drain", "300ms"];
    let (code, result) = run(
        script,
        &[&load[..], &["--heartbeat", "1", "--confirms"]].concat(),
    );
    assert_eq!(code, 1);
    assert!(count(&result, "disconnects") >= 1, "{}", result["counts"]);
    assert!(error(&result, "connection_lost") >= 1);
    assert_eq!(error(&result, "lost"), 0, "nobody can say so");
}

#[test]
fn what_is_not_confirmed_in_time_has_failed() {
    let script = Script {
        withhold: vec![50],
        ..Script::default()
    };
    let load = ["--pmessages", "100", "--confirm", "10", "--consumers", "0"];
    let patience = ["--confirm-timeout", "300ms", "--duration", "4s"];
    let (code, result) = run(script, &[&load[..], &patience, &["--drain", "2s"]].concat());
    assert_eq!(code, 1);
    assert!(
        error(&result, "confirm_timeout") >= 10,
        "{}",
        result["errors"]
    );
    assert_eq!(error(&result, "connection_lost"), 0);
}

#[test]
fn a_channel_that_the_broker_closes_is_no_lost_connection() {
    let script = Script {
        close_channel: vec![100],
        ..Script::default()
    };
    let load = ["--rate", "400", "--duration", "1s", "--confirm", "10"];
    let again = ["--reconnect-after", "50ms", "--drain", "2s"];
    let (code, result) = run(script, &[&load[..], &again].concat());
    assert_eq!(code, 1);
    counts(&result, &[("channels_closed", 1), ("reconnects", 1)]);
    assert_eq!(count(&result, "disconnects"), 0);
    assert!(
        error(&result, "channel_closed") >= 1,
        "{}",
        result["errors"]
    );
    assert_eq!(error(&result, "connection_lost"), 0);
}

#[test]
fn a_frame_larger_than_negotiated_is_an_error_with_its_reason() {
    // lapin reads it.
    if engine() != "wire" {
        return;
    }
    let script = Script {
        large_frames: true,
        ..Script::default()
    };
    let out = tempfile::tempdir().unwrap();
    let broker = NullBroker::start(script).unwrap();
    let output = program(out.path(), &broker.uri())
        .args(["--size", "200000", "--pmessages", "3"])
        .args(["--reconnect-after", "60s", "--drain", "300ms"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("larger than negotiated"), "{said}");
    counts(&result(out.path()), &[("protocol", 1), ("disconnects", 1)]);
}

#[test]
fn a_message_lost_in_the_warm_up_is_seen() {
    let script = Script {
        drop: vec![3],
        ..Script::default()
    };
    let load = ["--rate", "200", "--warmup", "500ms", "--duration", "500ms"];
    let (code, result) = run(script, &[&load[..], &["--drain", "300ms"]].concat());
    counts(&result, &[("lost", 1), ("warmup", 100)]);
    assert_eq!((code, error(&result, "lost")), (3, 0));
    let warnings = result["warnings"].to_string();
    assert!(
        warnings.contains("1 messages of the warm-up never arrived"),
        "{warnings}"
    );
    assert_eq!(result["operations"]["ok"], count(&result, "consumed"));
    assert_eq!(values(&result, "end_to_end"), count(&result, "consumed"));
}

/// For a run of consumers alone, the time of publishing does not matter.
#[test]
fn consumers_alone_count_what_another_run_published_in_its_warm_up() {
    let script = Script {
        queues: vec!["there".to_owned()],
        ..Script::default()
    };
    let broker = NullBroker::start(script).unwrap();
    let there = ["--queue", "there", "--predeclared"];
    let publish = ["--consumers", "0", "--rate", "200", "--warmup", "300ms"];
    // So slowly that most come while it measures.
    let consume = ["--producers", "0", "--consumer-latency", "5ms"];
    let runs = [&publish[..], &consume].map(|load| {
        let out = tempfile::tempdir().unwrap();
        let output = program(out.path(), &broker.uri())
            .args([load, &there, &["--duration", "2s"]].concat())
            .output()
            .unwrap();
        assert_ne!(output.status.code(), Some(2));
        result(out.path())
    });
    assert!(count(&runs[0], "warmup") > 0);
    let consumed = count(&runs[1], "consumed");
    assert!(consumed > 0 && count(&runs[1], "foreign") == 0);
    assert_eq!(runs[1]["operations"]["ok"], consumed);
    assert_eq!(values(&runs[1], "end_to_end"), consumed);
}

/// Checks that the program refuses arguments with these words.
fn refused(arguments: &[&str], names: &[&str]) {
    let out = tempfile::tempdir().unwrap();
    let output: Output = program(out.path(), "amqp://127.0.0.1:1/")
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    for name in names {
        assert!(
            said.contains(name),
            "{arguments:?} should name `{name}`: {said}"
        );
    }
}

#[test]
fn a_call_that_cannot_be_right_is_refused_with_field_and_remedy() {
    refused(&["--size", "27"], &["--size", "28 bytes"]);
    refused(
        &["--multi-ack-every", "5"],
        &["--multi-ack-every", "--prefetch"],
    );
    refused(
        &["--prefetch", "9", "--multi-ack-every", "5", "--auto-ack"],
        &["--multi-ack-every", "auto_ack"],
    );
    refused(
        &["--consumer-latency", "1s", "--auto-ack"],
        &["--consumer-latency", "auto_ack"],
    );
    refused(&["--multi-ack-every", "0"], &["--multi-ack-every"]);
    refused(&["--confirm", "0"], &["--confirm", "at least 1"]);
    refused(&["--rate", "-3"], &["rate"]);
    refused(&["--producers", "0", "--consumers", "0"], &["groups"]);
    refused(&["--nack", "1.5"], &["--nack", "between 0 and 1"]);
    refused(&["--queue", ""], &["--queue"]);
    refused(
        &["--queue-pattern", "q", "--queue-pattern-to", "3"],
        &["--queue-pattern", "%d"],
    );
    refused(&["--body", "/nowhere/body"], &["--body", "/nowhere/body"]);
    refused(&["--variable-size", "100"], &["BYTES:SECONDS"]);
    refused(&["--variable-rate", "9"], &["RATE:SECONDS"]);
    refused(
        &["--variable-rate", "9:1", "--rate", "3"],
        &["--variable-rate", "--rate"],
    );
    refused(
        &["--message-properties", "priority=300"],
        &["priority must be 0 to 255"],
    );
    refused(&["--churn", "queue", "--confirms"], &["--confirm", "churn"]);
    refused(
        &["--churn", "queue", "--predeclared"],
        &["--predeclared", "binding"],
    );
    refused(
        &["--churn", "queue", "--consumers", "2"],
        &["--churn", "--consumers"],
    );
    refused(
        &["--churn", "channel", "--producers", "5000"],
        &["--producers", "1 to 1,000"],
    );
    refused(&["--processes", "2"], &["--processes", "--threads"]);
    refused(
        &["--stream-queue", "--auto-ack"],
        &["queue_type", "acknowledgements"],
    );
    refused(
        &["--consumers", "1"],
        &["--uri amqp://127.0.0.1:1/", "no process listens"],
    );
}

#[test]
fn a_broker_that_refuses_is_quoted_with_the_remedy() {
    let script = Script {
        queues: vec!["there".to_owned()],
        ..Script::default()
    };
    let broker = NullBroker::start(script).unwrap();
    let address = broker.uri().split_once('@').unwrap().1.to_owned();
    let wrong = |uri: String, arguments: &[&str], names: &[&str]| {
        let out = tempfile::tempdir().unwrap();
        let output = program(out.path(), &uri).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        for name in names.iter().chain(&["--uri"]) {
            assert!(said.contains(name), "{uri} should name `{name}`: {said}");
        }
    };
    wrong(
        format!("amqp://guest:wrong@{address}"),
        &[],
        &["403", "password"],
    );
    wrong(
        format!("amqp://guest:guest@{address}elsewhere"),
        &[],
        &["530", "vhost"],
    );
    wrong(
        broker.uri(),
        &["--queue", "there"],
        &["406", "--queue", "predeclared"],
    );
    wrong(
        broker.uri(),
        &["--predeclared"],
        &["404", "declare it first"],
    );
    wrong(
        "nonsense".to_owned(),
        &[],
        &["amqp://localhost:5672/", "user:password@"],
    );
    wrong(format!("amqps://{address}"), &[], &["TLS"]);
}

#[test]
fn what_is_predeclared_is_used_and_left() {
    let script = Script {
        queues: vec!["there".to_owned()],
        ..Script::default()
    };
    let broker = NullBroker::start(script).unwrap();
    // The second run finds it because the first has left it.
    for _ in 0..2 {
        let out = tempfile::tempdir().unwrap();
        let load = ["--queue", "there", "--predeclared", "--pmessages", "10"];
        let output = program(out.path(), &broker.uri())
            .args(load)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
        counts(&result(out.path()), &[("consumed", 10), ("lost", 0)]);
    }
}

#[test]
fn the_final_block_is_that_of_the_seed() {
    let out = tempfile::tempdir().unwrap();
    let broker = NullBroker::start(Script::default()).unwrap();
    let output = program(out.path(), &broker.uri())
        .args(["-pmessages", "50", "-prefetch", "10"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("=== Performance Test Results ==="));
    for piece in [
        "Duration: ",
        "Throughput:\n  Published: 50 messages (",
        "  Consumed:  50 messages (",
        "  Confirmed: 0 messages",
        "Consumer Latency:\n  min:    ",
        "  median: ",
        "  75th:   ",
        "  95th:   ",
        "  99th:   ",
        "  max:    ",
    ] {
        assert!(text.contains(piece), "{piece}: {text}");
    }
}

#[test]
fn consumers_that_need_the_drain_phase_are_not_said_to_keep_up() {
    let out = tempfile::tempdir().unwrap();
    let broker = NullBroker::start(Script::default()).unwrap();
    let load = [
        "--rate",
        "200",
        "--duration",
        "1s",
        "--consumer-latency",
        "20ms",
    ];
    let output = program(out.path(), &broker.uri())
        .args(load)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.contains("Consumed:"));
    let (count, rate) = line.unwrap().split_once(" messages (").unwrap();
    assert!(count.ends_with("  200"), "{text}");
    // One per 20 ms.
    let rate: f64 = rate.strip_suffix(" msg/s)").unwrap().parse().unwrap();
    assert!(rate > 0.0 && rate <= 55.0, "{text}");
}

#[test]
fn check_asks_everything_of_a_broker() {
    let broker = NullBroker::start(Script::default()).unwrap();
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("amqp-perftest"));
    let output = command
        .args(["check", "--uri", &broker.uri()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && said.contains("right, 12 cases"),
        "{said}"
    );
    let script = Script {
        drop: vec![0],
        ..Script::default()
    };
    let broker = NullBroker::start(script).unwrap();
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("amqp-perftest"));
    let output = command
        .args(["check", "--uri", &broker.uri()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("WRONG: content"), "{said}");
}

#[test]
fn whatever_is_opened_is_closed_again_and_both_are_measured() {
    // The test is independent of the engine.
    if engine() != "wire" {
        return;
    }
    for churn in ["connection", "channel", "queue", "binding"] {
        for rate in ["0", "200"] {
            let load = ["--churn", churn, "--producers", "3", "--pmessages", "20"];
            let (code, result) = run(
                Script::default(),
                &[&load[..], &["--rate", rate, "--duration", "5s"]].concat(),
            );
            nothing_failed(code, &result);
            counts(&result, &[("published", 0)]);
            // On a busy machine the last ones due may be missed.
            let ok = result["operations"]["ok"].as_u64().unwrap();
            let missed = result["operations"]["missed"].as_u64().unwrap();
            assert_eq!(ok + missed, 60, "{churn} {rate}");
            assert!(missed < 30 && (rate != "0" || missed == 0), "{missed}");
            assert_eq!(
                (values(&result, "churn"), values(&result, "open")),
                (ok, ok)
            );
        }
    }
}

#[test]
fn churn_that_a_broker_refuses_is_counted_and_goes_on() {
    // The test is independent of the engine.
    if engine() != "wire" {
        return;
    }
    let script = Script {
        queues: vec!["perftest-1".to_owned()],
        ..Script::default()
    };
    // The queue exists with another durability: 406, once, since its client then finds the connection closed. Clients
    // of one thread take starts as they are free; of two threads each has its own five.
    let load = ["--churn", "queue", "--producers", "2", "--pmessages", "5"];
    let more = ["--threads", "2", "--reconnect-after", "1ms"];
    let (code, result) = run(script, &[&load[..], &more].concat());
    assert_eq!(code, 1);
    let refused = error(&result, "refused");
    assert_eq!(
        (refused, count(&result, "churned")),
        (5, 5),
        "{}",
        result["errors"]
    );
}

#[test]
fn queues_that_a_broker_did_not_keep_are_declared_again() {
    let script = Script {
        forget: vec![50],
        ..Script::default()
    };
    let load = [
        "--pmessages",
        "200",
        "--rate",
        "400",
        "--duration",
        "5s",
        "--reconnect-after",
        "10ms",
        "--confirm",
        "10",
    ];
    let (_, result) = run(script, &[&load[..], &["--drain", "1s"]].concat());
    counts(&result, &[("disconnects", 1), ("reconnects", 1)]);
    assert!(
        count(&result, "consumed") >= 100,
        "those after it have a queue: {}",
        result["counts"]
    );
}

#[test]
fn every_plan_of_the_project_can_be_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/amqp");
    let plans: Vec<_> = std::fs::read_dir(folder).unwrap().flatten().collect();
    assert!(plans.len() >= 7);
    for plan in plans {
        let path = plan.path();
        let plan = load::plan::load::<Settings>(&path, &[]).unwrap();
        Settings::validate(&plan).unwrap();
        let suite = plan.suite.as_ref().unwrap();
        suite.validate().unwrap();
        let level = plan.level();
        assert!(
            level
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'),
            "{level}"
        );
        assert_eq!(plan.name, path.file_stem().unwrap().to_str().unwrap());
    }
}
