//! Outcomes: every end of a stream is counted as the right kind, once.

use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fdpass_client::transcript::Transcript;
use harness_testing::assert_contains;
use harness_testing::program::ended_with;
use harness_testing::program::words;
use harness_testing::result::{self, ResultFile};
use nix::sys::socket::SockType;
use serde_json::{Value, json};

use crate::drive;
use crate::target::{Act, HEAD, Step, Target, close, record, right, write};

const STREAMS: u64 = 20;

/// Runs the program against a daemon that answers the check correctly and every other handoff by the script.
fn run(
    kind: SockType,
    script: impl Fn() -> Vec<Step> + Send + 'static,
    arguments: &str,
) -> (i32, Value) {
    let target = Target::start(
        kind,
        move |handoff| {
            if handoff == 0 { right(3) } else { script() }
        },
    );
    let arguments = format!("--connections 20 --ramp-up 100ms --quiet {arguments}");
    let (output, json) = drive::drive(target.folder(), target.path(), &arguments);
    assert_eq!(target.stop() as u64, STREAMS + 1);
    let operations = &json["result"]["operations"];
    let ended = ["ok", "failed", "unfinished"].map(|name| operations[name].as_u64().unwrap());
    assert_eq!(
        ended.iter().sum::<u64>(),
        STREAMS,
        "started is what ended: {operations}"
    );
    (output.status.code().unwrap(), json)
}

/// Asserts that all streams ended as one kind of error, none as completed, and that the run failed.
fn all_end_as(
    kind: &str,
    script: impl Fn() -> Vec<Step> + Send + 'static,
    arguments: &str,
) -> Value {
    let (code, json) = run(SockType::SeqPacket, script, arguments);
    assert_eq!(json["result"]["errors"], json!({ kind: STREAMS }));
    assert_eq!(json["connections_completed"], 0);
    assert_eq!(code, 1, "a failed stream fails the run");
    json
}

fn now(text: impl Into<Vec<u8>>) -> Step {
    write(Duration::ZERO, text)
}

fn end() -> Step {
    close(Duration::ZERO)
}

#[test]
fn a_right_stream_is_completed_on_both_socket_types_and_with_tcp_clients() {
    for kind in [SockType::SeqPacket, SockType::Stream] {
        for client in ["unix", "tcp"] {
            let (code, json) = run(kind, || right(3), &format!("--client {client}"));
            assert_eq!(json["connections_completed"], STREAMS, "{kind:?} {client}");
            assert_eq!(json["result"]["errors"], json!({}));
            assert_eq!(json["result"]["counts"]["events"], 3 * STREAMS);
            assert!(
                code == 0 || code == 3,
                "{code}: 3 where the machine is busy"
            );
        }
    }
}

#[test]
fn a_framed_answer_ends_without_its_connection() {
    let records: String = (0..3).map(|number| record(&number.to_string())).collect();
    let body = format!("{records}data: [DONE]\n\n");
    let chunks = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let length = format!("Content-Length: {}", body.len());
    for (field, body) in [("Transfer-Encoding: chunked", chunks), (&length, body)] {
        let answer = format!("{}{body}", HEAD.replace("Connection: close", field));
        let (_, json) = run(SockType::Stream, move || vec![now(answer.clone())], "");
        assert_eq!(json["connections_completed"], STREAMS, "{field}");
        assert_eq!(json["result"]["counts"]["equal_to_first"], STREAMS);
    }
}

/// The daemon writes once and does not close, so nothing is reported again: neither what a read has left, nor what was
/// left unread in a burst.
#[test]
fn an_answer_that_is_longer_than_a_read_is_read_to_its_end() {
    let records: String = (0..3_000)
        .map(|number| record(&number.to_string()))
        .collect();
    let body = format!("{records}data: [DONE]\n\n");
    let length = format!("Content-Length: {}", body.len());
    let answer = format!("{}{body}", HEAD.replace("Connection: close", &length));
    assert!(
        (66_000..150_000).contains(&answer.len()),
        "{}",
        answer.len()
    );
    for ramp in ["100ms", "0s"] {
        let answer = answer.clone();
        let set = format!("groups.0.ramp={ramp}");
        let arguments = format!("--expect any --set {set}");
        let (_, json) = run(
            SockType::SeqPacket,
            move || vec![now(answer.clone())],
            &arguments,
        );
        assert_eq!(json["result"]["errors"], json!({}), "{ramp}");
        assert_eq!(
            json["result"]["counts"]["events"],
            3_000 * STREAMS,
            "{ramp}"
        );
    }
}

#[test]
fn an_answer_that_cannot_be_read_is_named_before_the_load_without_a_dump() {
    let long = format!("{HEAD}{}\n\n", "x".repeat(100_000));
    for (answer, words) in [
        (
            "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\n\r\n",
            ["status 429 (Retry-After: 3)", "--data"],
        ),
        (&long, ["a line is not a field", "protocol_sse in \"xxx"]),
    ] {
        let steps = vec![now(answer), end()];
        let script = move |_| steps.clone();
        let target = Target::start(SockType::Stream, script);
        let output = drive::on(&target).output().unwrap();
        let message = ended_with(&output, 1, &words, &answer.len());
        assert!(message.len() < 1_000, "{message}");
    }
}

#[test]
fn the_first_status_that_is_refused_in_a_load_is_named_once() {
    let answer = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\n\r\n";
    let script = move |handoff| match handoff {
        0 => right(3),
        _ => vec![now(answer), end()],
    };
    let target = Target::start(SockType::Stream, script);
    let mut program = drive::on(&target);
    program.args(words("--connections 20 --ramp-up 100ms --hold 0s"));
    let output = program.output().unwrap();
    let status = "status 429 (Retry-After: 3)";
    let message = ended_with(&output, 1, &[status], &answer);
    assert_eq!(message.matches(status).count(), 1, "{message}");
}

#[test]
fn a_refusal_is_rejected_whether_it_is_said_or_not() {
    let said = all_end_as(
        "rejected",
        || {
            vec![
                now("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n\r\n"),
                end(),
            ]
        },
        "",
    );
    assert_eq!(said["errors"]["rejected"], STREAMS);
    all_end_as("rejected", || vec![end()], "");
}

#[test]
fn an_end_without_the_marker_is_incomplete() {
    all_end_as(
        "incomplete",
        || vec![now(format!("{HEAD}{}", record("0"))), end()],
        "",
    );
    all_end_as("incomplete", || vec![now(&HEAD[..20]), end()], "");
    all_end_as(
        "incomplete",
        || vec![now(format!("{HEAD}data: [DONE]\n")), end()],
        "",
    );
}

#[test]
fn a_stream_that_is_cut_or_reset_at_any_byte_is_no_success() {
    let answer = format!("{HEAD}{}data: [DONE]\n", record("0"));
    for (act, kind) in [(Act::Close, "incomplete"), (Act::Reset, "reset")] {
        let (answer, streams) = (answer.clone(), AtomicU64::new(0));
        let script = move || {
            let stream = streams.fetch_add(1, Ordering::Relaxed) as usize;
            // Without any byte it is a refusal.
            let cut = 1 + (answer.len() - 1) * stream / (STREAMS as usize - 1);
            let act = act.clone();
            vec![
                now(&answer[..cut]),
                Step {
                    after: Duration::ZERO,
                    act,
                },
            ]
        };
        all_end_as(kind, script, "--client tcp");
    }
}

#[test]
fn violations_of_the_protocol_have_outcomes_of_their_own() {
    all_end_as(
        "protocol_head",
        || vec![now("HTTP/1.1 500 Internal Server Error\r\n\r\n"), end()],
        "",
    );
    all_end_as(
        "protocol_sse",
        || vec![now(format!("{HEAD}nonsense\n\n")), end()],
        "",
    );
    all_end_as(
        "protocol_json",
        || vec![now(format!("{HEAD}data: {{nope\n\n")), end()],
        "",
    );
    all_end_as(
        "protocol_order",
        || {
            vec![
                now(format!(
                    "{HEAD}data: {{\"index\":0}}\n\ndata: {{\"index\":2}}\n\n"
                )),
                end(),
            ]
        },
        "",
    );
    all_end_as(
        "protocol_trailing",
        || {
            vec![
                now(format!("{HEAD}data: [DONE]\n\n{}", record("late"))),
                end(),
            ]
        },
        "",
    );
}

#[test]
fn too_few_records_are_out_of_order_where_their_number_is_known() {
    let stream = || vec![now(format!("{HEAD}{}data: [DONE]\n\n", record("0"))), end()];
    let (_, json) = run(SockType::SeqPacket, stream, "--messages 3");
    assert_eq!(
        json["result"]["errors"],
        json!({ "protocol_order": STREAMS })
    );
}

#[test]
fn an_error_that_the_daemon_reports_is_no_success() {
    for error in [
        "event: error\ndata: {\"content\":\"busy\"}\n\n",
        "data: {\"error\":{\"code\":429}}\n\n",
    ] {
        let script = move || {
            let body = format!("{}{error}data: [DONE]\n\n", record("0"));
            vec![now(format!("{HEAD}{body}")), end()]
        };
        all_end_as("event_error", script, "");
    }
}

#[test]
fn texts_that_vary_from_stream_to_stream_are_not_compared() {
    let numbered = || {
        let streams = AtomicU64::new(0);
        move || {
            let number = streams.fetch_add(1, Ordering::Relaxed);
            let body = record(&format!("Connection {number}: Hello"));
            vec![now(format!("{HEAD}{body}data: [DONE]\n\n")), end()]
        }
    };
    for processes in ["1", "2"] {
        let arguments = format!("--processes {processes}");
        let (_, json) = run(SockType::SeqPacket, numbered(), &arguments);
        assert_eq!(json["connections_completed"], STREAMS);
        let result = ResultFile(json["result"].clone());
        let warning = result.warning("AnswersDiffer").unwrap();
        assert_eq!(warning["severity"], "note");
        assert!(warning.to_string().contains("--expect first"), "{warning}");
    }
    all_end_as("protocol_content", numbered(), "--expect first");
}

#[test]
fn another_text_than_that_of_the_first_stream_is_a_failure_and_is_shown_once() {
    let wrong = || {
        let body = ["0", "out of memory", "2"].map(record).concat();
        vec![now(format!("{HEAD}{body}data: [DONE]\n\n")), end()]
    };
    for processes in ["1", "2"] {
        let expect = "--expect first --messages 3";
        let arguments = format!("{expect} --processes {processes}");
        let json = all_end_as("protocol_content", wrong, &arguments);
        let result = ResultFile(json["result"].clone());
        let reported = result.warning("AnswersDiffer").unwrap()["message"].to_string();
        assert!(reported.contains("▸out of memory"), "{reported}");
    }
    let (_, json) = run(SockType::SeqPacket, wrong, "--expect any");
    assert_eq!(json["connections_completed"], STREAMS);
    let (_, json) = run(SockType::SeqPacket, || right(3), "");
    assert_eq!(json["result"]["counts"]["equal_to_first"], STREAMS);
}

/// Returns the shared transcript for 18 events of the default payload; `change` is applied to its text.
fn transcript(change: impl Fn(String) -> String) -> Vec<Step> {
    let case = Transcript::golden().cases.swap_remove(0);
    vec![now(change(case.whole_answer())), end()]
}

#[test]
fn a_daemon_of_the_transcript_is_held_to_all_of_it_whatever_the_check_has_read() {
    let run = |change: fn(String) -> String, arguments: &str| {
        let script = move |handoff| match handoff {
            0 => transcript(|text| text),
            _ => transcript(change),
        };
        let target = Target::start(SockType::SeqPacket, script);
        let arguments = format!("--connections 20 --ramp-up 0s --quiet {arguments}");
        let (_, json) = drive::drive(target.folder(), target.path(), &arguments);
        target.stop();
        json["result"].clone()
    };
    let wrong = |text: String| text.replace("It computes nothing: waiting is its only work.", "x");
    // For long streams, the check reads only the first record.
    let long = "--messages 18 --message-delay 1s";
    for arguments in ["", long, "--expect transcript"] {
        let result = run(wrong, arguments);
        assert_eq!(
            result["errors"],
            json!({ "protocol_content": STREAMS }),
            "{arguments:?}"
        );
        let result = run(|text| text, arguments);
        assert_eq!(result["operations"]["ok"], STREAMS);
        assert_eq!(result["counts"]["equal_to_transcript"], STREAMS);
    }
}

#[test]
fn a_check_that_says_something_else_than_the_transcript_ends_the_run_before_it_begins() {
    let target = Target::start(SockType::SeqPacket, |_| right(3));
    let output = drive::program(target.folder())
        .args(words("--expect transcript --quiet --socket"))
        .arg(target.path())
        .output()
        .unwrap();
    assert_eq!(target.stop(), 1);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("▸0") && said.contains("--expect"), "{said}");
}

#[test]
fn times_that_pass_are_told_apart() {
    let never = Duration::from_secs(30);
    let silent = move || vec![close(never)];
    all_end_as("timeout_first_byte", silent, "--first-byte-timeout 200ms");
    let stuck = move || vec![now(format!("{HEAD}{}", record("0"))), close(never)];
    all_end_as("timeout_idle", stuck, "--idle-timeout 200ms");
    let json = all_end_as("timeout_total", stuck, "--stream-timeout 300ms");
    assert_eq!(json["errors"]["timeout"], STREAMS);
}

#[test]
fn clients_that_misbehave_as_asked_fail_no_run() {
    // No more records than the plan expects: a client that stood still may read them all at once.
    let slow = || {
        (0..=18_u64)
            .map(|number| {
                write(
                    Duration::from_millis(30 * number),
                    if number == 0 {
                        HEAD.to_owned()
                    } else {
                        record(&(number - 1).to_string())
                    },
                )
            })
            .collect()
    };
    let (code, json) = run(SockType::SeqPacket, slow, "--abort-after 2");
    assert_eq!(
        (&json["result"]["errors"], code == 0 || code == 3),
        (&json!({ "aborted": STREAMS }), true)
    );
    let (code, json) = run(
        SockType::SeqPacket,
        slow,
        "--never-read --stream-timeout 300ms",
    );
    assert_eq!(
        (&json["result"]["errors"], code == 0 || code == 3),
        (&json!({ "unread": STREAMS }), true)
    );
}

#[test]
fn the_times_are_those_of_the_clients_that_read_where_only_a_share_does_not() {
    let target = Target::start(SockType::SeqPacket, |_| {
        let end = Duration::from_millis(50);
        vec![
            now(format!("{HEAD}{}data: [DONE]\n\n", record("a"))),
            close(end),
        ]
    });
    let plan = target.folder().join("plan.toml");
    let text = "name = 'x'\n[timeline]\nmeasure = '5s'\ndrain = '5s'\n\
                [[groups]]\nname = 'mixed'\nclients = 100\nramp = '1s'\nops = 1\n\
                [driver]\nnever_read = true\nslow_share = 0.2\n";
    std::fs::write(&plan, text).unwrap();
    let plan = plan.to_str().unwrap();
    let (output, json) = drive::drive(
        target.folder(),
        target.path(),
        &format!("--plan {plan} --quiet"),
    );
    assert_eq!(target.stop(), 101);
    let result = &json["result"];
    let slow = result["counts"]["slow"].as_u64().unwrap();
    assert!((18..=22).contains(&slow), "{slow}");
    assert_eq!(result["errors"], json!({ "unread": slow }));
    assert_eq!(json["connections_completed"], 100 - slow);
    // On a busy machine a stream may end before it is seen that the daemon has taken it.
    let unmeasured = result["counts"]["take_unmeasured"].as_u64().unwrap_or(0);
    let series = result["series"].as_array().unwrap();
    for values in series.iter().filter(|values| values["name"] != "drift") {
        let name = values["name"].as_str().unwrap();
        let expected = match name {
            "gap" => 0,
            "take" => 100 - slow - unmeasured,
            _ => 100 - slow,
        };
        assert_eq!(values["count"], expected, "{name}");
    }
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 3)), "as asked for: {code:?}");
}

#[test]
fn a_slow_reader_reads_everything_in_its_time() {
    let (_, json) = run(
        SockType::SeqPacket,
        || right(20),
        "--slow-reader 5ms --expect any",
    );
    assert_eq!(json["connections_completed"], STREAMS);
    // 20 records of at least 23 bytes at 64 bytes per 5 ms.
    let took = json["stream_duration_ms"]["p50"].as_f64().unwrap();
    assert!(took >= 35.0, "{took} ms");
}

#[test]
fn a_stream_cut_into_single_bytes_is_read_all_the_same() {
    let bytes = || {
        let text = format!("{HEAD}{}data: [DONE]\n\n", record("Grüße"));
        text.bytes()
            .enumerate()
            .map(|(place, byte)| write(Duration::from_micros(200 * place as u64), [byte]))
            .chain([close(Duration::from_millis(40))])
            .collect()
    };
    let (_, json) = run(SockType::SeqPacket, bytes, "--expect any");
    assert_eq!(json["connections_completed"], STREAMS);
}

#[test]
fn a_daemon_that_goes_away_is_an_error_of_connecting_after_the_retries() {
    let target = Target::start(SockType::SeqPacket, |_| right(1));
    let mut program = drive::on(&target);
    let json = target.folder().join("output.json");
    program.arg("--output").arg(&json);
    let child = program
        .args(["--connections", "40", "--ramp-up", "2s", "--verbose"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // The program has begun once it made a handoff after the check's.
    target.wait_for(2);
    target.stop();
    std::fs::remove_file(target.path()).unwrap();
    let output = child.wait_with_output().unwrap();
    let json: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let refused = json["result"]["errors"]["connect_ENOENT"]
        .as_u64()
        .unwrap_or(0)
        + json["result"]["errors"]["connect_ECONNREFUSED"]
            .as_u64()
            .unwrap_or(0);
    assert!(refused > 0, "{}", json["result"]["errors"]);
    assert_eq!(json["errors"]["connect"], refused);
    assert_eq!(
        json["result"]["counts"]["retries"],
        2 * refused,
        "two retries for each"
    );
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    let reported: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("stream connect_"))
        .collect();
    assert_eq!(reported.len() as u64, refused, "{said}");
    for line in reported {
        // The pauses of 10 and 20 ms come before the last attempt.
        let age = line.split(' ').nth(3).unwrap().parse::<f64>().unwrap();
        assert!(
            line.contains(" s,") || line.contains(" ms,") && age >= 30.0,
            "{line}"
        );
    }
}

#[test]
fn an_output_that_can_not_be_written_swallows_no_report() {
    let target = Target::start(SockType::SeqPacket, |_| right(3));
    let output = drive::program(target.folder())
        .args(["--connections", "20", "--ramp-up", "0s", "--quiet"])
        .args(["--full", "--output", "/dev/full", "--socket"])
        .arg(target.path())
        .output()
        .unwrap();
    let (shown, said) = (&output.stdout, &output.stderr);
    let [shown, said] = [shown, said].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(shown.contains("first_byte"), "{shown}{said}");
    assert!(said.contains("--output /dev/full"), "{said}");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        target.folder().join("results").exists(),
        "the result is kept"
    );
}

#[test]
fn a_page_that_can_not_be_written_loses_no_result() {
    let target = Target::start(SockType::SeqPacket, |_| right(3));
    let run = target.folder().join("run");
    // A folder of that name can be replaced by no file.
    std::fs::create_dir_all(run.join("report.html/in-the-way")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_fdpass-gen"))
        .args(["--connections", "20", "--ramp-up", "0s", "--quiet"])
        .arg("--into")
        .arg(&run)
        .arg("--socket")
        .arg(target.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    assert_contains(&said, &["The page of the run was not written"]);
    let result = result::json(&run.join("result.json"));
    assert_eq!(result["operations"]["started"], 20);
}

#[test]
fn the_path_of_the_result_is_said_once() {
    let target = Target::start(SockType::SeqPacket, |_| right(3));
    let run = |name: &str, format: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_fdpass-gen"))
            .args(["--connections", "5", "--ramp-up", "0s", "--format", format])
            .arg("--into")
            .arg(target.folder().join(name))
            .arg("--socket")
            .arg(target.path())
            .output()
            .unwrap();
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap())
    };
    let [shown, said] = run("screen", "terminal");
    let page = target.folder().join("screen/report.html");
    let page = page.to_str().unwrap();
    let beside = shown.contains("the page, beside result.json:");
    assert!(beside && shown.matches(page).count() == 1, "{shown}");
    assert!(
        !said.contains("report.html") && !said.contains("result.json"),
        "{said}"
    );
    assert!(shown.lines().count() <= 15, "{shown}");
    // Other formats stay unchanged.
    let [shown, said] = run("table", "csv");
    let result = target.folder().join("table/result.json");
    let line = format!("Result: {}, with report.html beside it\n", result.display());
    assert!(
        said.contains(&line) && !shown.contains("result.json"),
        "{said}"
    );
}
