//! The check before a run of event streams, and settings that do not fit.

use std::time::Duration;

use super::{HEAD, begun, chunk};
use crate::program::{plan, program};
use crate::scripted::{Scripted, Step};
use crate::servers::{send, url, well};

fn refused(script: Vec<Step>, words: &[&str]) {
    let server = Scripted::start(script);
    let call = program(&["--events", "--timeout", "500ms", "-d", "1s"]);
    call.args([url(&server)]).refused(2, words);
}

#[test]
fn an_answer_that_is_no_stream_is_refused_before_the_run() {
    let server = well();
    for arguments in [&["--events"][..], &["--events", "-c", "3", "--rate", "5"]] {
        let words = [
            "not an event stream (Content-Type: none)",
            "leave --events out",
        ];
        program(arguments).args([url(&server)]).refused(2, &words);
    }
    let answer = |body: &[u8]| {
        let head = [HEAD, "Transfer-Encoding: chunked\r\n\r\n"].concat();
        let bytes = [head.as_bytes(), &chunk(body), b"0\r\n\r\n"].concat();
        vec![Step::Expect, Step::Send(bytes), Step::Again]
    };
    refused(
        answer(b"data: {\"error\":{\"message\":\"no model\"}}\n\n"),
        &["reports an error in its event stream", "no model"],
    );
    let head = [HEAD, "Content-Encoding: gzip\r\nContent-Length: 9\r\n\r\n"].concat();
    refused(
        vec![Step::Expect, send(&head), Step::Stall],
        &["Content-Encoding: gzip", "Accept-Encoding: identity"],
    );
    refused(answer(b"data: [DONE]\n\n"), &["ended without a record"]);
    refused(
        vec![
            Step::Expect,
            send("HTTP/1.1 429 Wait\r\nContent-Length: 0\r\n\r\n"),
        ],
        &["status 429"],
    );
    let head = [HEAD, "Transfer-Encoding: chunked\r\n\r\n"].concat();
    refused(
        vec![Step::Expect, send(&head), Step::Stall],
        &["no record of an event stream within 500ms", "--timeout"],
    );
}

#[test]
fn the_check_asks_a_stream_without_end_for_its_first_record() {
    let record = chunk(b"data: a\n\n").repeat(10_000);
    let pause = Duration::from_millis(10);
    let script = vec![Step::Expect, begun(), Step::SendSlowly(record, 14, pause)];
    let server = Scripted::start(script);
    let plan = plan("", "events = true\ntimeout = \"60s\"");
    let plan = plan.path().to_str().unwrap();
    let ran = program(&["--plan", plan, &url(&server)]).run();
    let of = |name: &str| ran.result.operations(name);
    assert_eq!((of("started"), of("unfinished"), of("failed")), (2, 2, 0));
    assert!(ran.result.count("events") > 0);
}

#[test]
fn settings_that_do_not_fit_event_streams_are_named_with_the_remedy() {
    for (arguments, words) in [
        (&["--engine", "hyper"][..], &["--engine", "engine wire"][..]),
        (&["--pipeline", "2"], &["pipeline", "--streams"]),
        (&["-m", "HEAD"], &["events", "HEAD"]),
        (&["--compressed"], &["compressed", "--events"]),
        (&["--expect-length", "5"], &["--expect-length"]),
        (
            &["--check", "body contains \"x\""],
            &["--check", "not kept"],
        ),
    ] {
        let call = program(&["--events", "-d", "1s"]).args(arguments);
        call.args(["http://127.0.0.1:9/"]).refused(2, words);
    }
    let takes = plan(
        "",
        "events = true\n[[driver.requests]]\nname = \"a\"\ncapture = [\"json:/id as id\"]",
    );
    let takes = program(&[
        "--plan",
        takes.path().to_str().unwrap(),
        "http://127.0.0.1:9/",
    ]);
    takes.refused(2, &["driver.requests", "[driver.setup]"]);
}
