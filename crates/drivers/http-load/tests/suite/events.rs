//! Event streams: how each ends, its records and their times, over every framing.

use std::io::{self, Write as _};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use harness_testing::peer;
use http_load::Settings;
use load::recorder::{OK, UNFINISHED};
use measure::tally::Tally;

use crate::frames::{DATA, END_HEADERS, END_STREAM, HEADERS, begin, frame, next_request};
use crate::scenarios::{adds_up, errors, failed, put, put_for, put_share, rate, users};
use crate::scripted::{Scripted, Step};
use crate::secure::{request, serve_by};
use crate::servers::url;

mod checked;
mod models;

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n";
/// The same head of HTTP/2: the status, and the type by its name in the static table.
const BLOCK: &[u8] = b"\x88\x0f\x10\x11text/event-stream";
/// Longer than any pause on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// The way in which a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Chunked,
    Length,
    Close,
    ClosedTls,
    Http2,
}

const FRAMINGS: [Framing; 5] = [
    Framing::Chunked,
    Framing::Length,
    Framing::Close,
    Framing::ClosedTls,
    Framing::Http2,
];

pub(crate) fn settings() -> Settings {
    Settings {
        events: true,
        timeout: LONG,
        tls_insecure: true,
        ..Settings::default()
    }
}

/// Returns a chunk of a body.
fn chunk(data: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat()
}

/// Returns the bytes of a whole answer of HTTP/1.1.
fn whole(framing: Framing, body: &[u8]) -> Vec<u8> {
    let head = |field: &str| [HEAD, field, "\r\n"].concat().into_bytes();
    match framing {
        Framing::Chunked => {
            let (first, second) = body.split_at(body.len() / 2);
            let pieces = [first, second]
                .into_iter()
                .filter(|piece| !piece.is_empty());
            let chunks: Vec<Vec<u8>> = pieces.map(chunk).collect();
            let head = head("Transfer-Encoding: chunked\r\n");
            [&head[..], &chunks.concat(), b"0\r\n\r\n"].concat()
        }
        Framing::Length => {
            let field = format!("Content-Length: {}\r\n", body.len());
            [&head(&field)[..], body].concat()
        }
        _ => [&head("")[..], body].concat(),
    }
}

/// Answers the one request of a connection of HTTP/2.
fn answer_http2(stream: &mut TcpStream, body: &[u8]) -> io::Result<()> {
    begin(stream)?;
    let id = next_request(stream)?;
    stream.write_all(&frame(HEADERS, END_HEADERS, id, BLOCK))?;
    for piece in body.chunks(16_000) {
        stream.write_all(&frame(DATA, 0, id, piece))?;
    }
    stream.write_all(&frame(DATA, END_STREAM, id, b""))?;
    io::copy(stream, &mut io::sink()).map(drop)
}

/// Asks a server for one stream with this body.
fn ask(framing: Framing, body: &[u8]) -> Tally {
    let answer = whole(framing, body);
    let (body, http2) = (body.to_vec(), framing == Framing::Http2);
    let settings = Settings {
        http2,
        ..settings()
    };
    let load = |url: &str| put(settings.clone(), users(1, 1), url);
    match framing {
        Framing::Http2 => {
            let server = peer::serve(move |mut stream| answer_http2(&mut stream, &body));
            load(&format!("http://{server}/"))
        }
        Framing::ClosedTls => load(&serve_by(move |connection| {
            request(connection)?;
            connection.write_all(&answer)?;
            connection.conn.send_close_notify();
            connection.flush()?;
            connection.sock.shutdown(Shutdown::Write)
        })),
        _ => {
            let server = Scripted::start(vec![Step::Expect, Step::Send(answer), Step::Close]);
            load(&url(&server))
        }
    }
}

/// A body with its outcome, and the numbers of its records and tokens.
type Case = (&'static str, Vec<u8>, &'static str, u64, u64);

fn case(name: &'static str, body: &str, outcome: &'static str, events: u64) -> Case {
    (name, body.as_bytes().to_vec(), outcome, events, 0)
}

fn cases() -> Vec<Case> {
    let long = format!("data: {}\n\n", "x".repeat(1 << 20));
    let usage = "data: {\"usage\":null}\n\ndata: {\"usage\":{\"completion_tokens\":3}}\n\ndata: {\"choices\":[],\"usage\":{\"completion_tokens\":7,\"x\":1}}\n\n";
    vec![
        case("records", "data: a\n\ndata: b\n\ndata: c\n\n", "ok", 3),
        case("CR", "data: a\r\rdata: b\r\rdata: [DONE]\r\r", "done", 2),
        case(
            "CR LF, a byte order mark, comments, other fields",
            "\u{feff}: hi\r\n\r\nid: 1\r\nevent: x\r\ndata: a\r\ndata: b\r\n\r\n: bye\r\n\r\n",
            "ok",
            1,
        ),
        ("no UTF-8", b"data: \xff\0\n\n".to_vec(), "ok", 1, 0),
        case("1 MiB", &long, "ok", 1),
        ("tokens", usage.into(), "ok", 3, 7),
        case(
            "texts that look like reports",
            "data: \"error\" \"usage\"\n\ndata: {\"error\":null,\"usage\":\"a lot\"}\n\ndata: {\"text\":\"\\\"error\\\": 1\"}\n\n",
            "ok",
            3,
        ),
        case(
            "an error event",
            "data: a\n\nevent: error\ndata: x\n\n",
            "event_error",
            1,
        ),
        case(
            "an error record",
            "data: {\"error\":{\"code\":429}}\n\ndata: [DONE]\n\n",
            "event_error",
            0,
        ),
        case("no record", "", "no_event", 0),
        case("the end alone", ": hi\n\ndata: [DONE]\n\n", "no_event", 0),
        case(
            "a record that is cut",
            "data: a\n\ndata: b\n",
            "incomplete",
            1,
        ),
        case("a line that is cut", "data: a\n\nda", "incomplete", 1),
        case(
            "a record after the end",
            "data: a\n\ndata: [DONE]\n\ndata: b\n\n",
            "protocol_trailing",
            1,
        ),
        case(
            "bytes after the end",
            "data: a\n\ndata: [DONE]\n\nx",
            "protocol_trailing",
            1,
        ),
    ]
}

#[test]
fn streams_end_alike_over_every_framing() {
    let mut wrong = Vec::new();
    for (name, body, outcome, events, tokens) in cases() {
        for framing in FRAMINGS {
            let tally = ask(framing, &body);
            let ended = match (outcome, framing) {
                ("done", _) => "ended_done",
                (_, Framing::Close | Framing::ClosedTls) => "ended_close",
                _ => "ended_body",
            };
            let is_right = match outcome {
                "ok" | "done" => {
                    let bytes = tally.counted("body_bytes") == body.len() as u64;
                    tally.counted(OK) == 1 && tally.counted(ended) == 1 && bytes
                }
                kind => errors(&tally) == failed(kind, 1) && tally.counted("ended_done") == 0,
            };
            let has_counts = (tally.counted("events"), tally.counted("tokens")) == (events, tokens);
            if !is_right || !has_counts || !adds_up(&tally) {
                wrong.push(format!(
                    "{name}, {framing:?}: {:?} {:?}",
                    tally.counts,
                    errors(&tally)
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Asks a server that plays the same script on each connection for two streams, one after the other.
fn ask_twice(settings: Settings, script: Vec<Step>) -> Tally {
    let server = Scripted::start(script);
    let tally = put(settings, users(1, 2), &url(&server));
    assert!(adds_up(&tally), "{:?}", tally.counts);
    tally
}

fn send(text: &str) -> Step {
    Step::Send(text.as_bytes().to_vec())
}

/// The beginning of a chunked stream, with one record.
fn begun() -> Step {
    let head = [HEAD, "Transfer-Encoding: chunked\r\n\r\n"].concat();
    Step::Send([head.as_bytes(), &chunk(b"data: a\n\n")].concat())
}

#[test]
fn answers_that_are_no_streams_fail_as_what_they_are() {
    let json = "Content-Type: application/json\r\n";
    let length = "Content-Length: 2\r\n\r\n{}";
    for (answer, kind) in [
        (format!("HTTP/1.1 200 OK\r\n{json}{length}"), "content_type"),
        (format!("HTTP/1.1 200 OK\r\n{length}"), "content_type"),
        // It never ends.
        (format!("HTTP/1.1 200 OK\r\n{json}\r\n{{"), "content_type"),
        ("HTTP/1.1 204 No Content\r\n\r\n".to_owned(), "content_type"),
        (
            format!("HTTP/1.1 429 Too Many Requests\r\n{length}"),
            "status",
        ),
        (
            format!("HTTP/1.1 500 Oops\r\nContent-Type: text/event-stream\r\n{length}"),
            "status",
        ),
        (format!("HTTP/1.1 302 Found\r\n{length}"), "status"),
    ] {
        let script = vec![Step::Expect, send(&answer), Step::Again];
        let tally = ask_twice(settings(), script);
        assert_eq!(errors(&tally), failed(kind, 2), "{answer}");
    }
    let refused = format!("HTTP/1.1 429 Too Many Requests\r\n{length}");
    let expected = Settings {
        expect_status: vec![200, 429],
        ..settings()
    };
    let tally = ask_twice(expected, vec![Step::Expect, send(&refused), Step::Again]);
    assert_eq!((tally.counted(OK), tally.counted("ended_body")), (2, 0));
}

#[test]
fn a_stream_that_its_server_leaves_is_no_success() {
    for (end, kind) in [(Step::Close, "early_close"), (Step::Reset, "reset")] {
        let tally = ask_twice(settings(), vec![Step::Expect, begun(), end]);
        // A reset may overtake what was sent before it.
        let is_reset = errors(&tally) == failed("reset", 2);
        assert!(
            errors(&tally) == failed(kind, 2) || is_reset,
            "{kind}: {:?}",
            errors(&tally)
        );
    }
}

#[test]
fn a_timeout_limits_the_time_without_a_record() {
    let slow = |data: &[u8], times: usize| {
        let pieces = chunk(data).repeat(times);
        Step::SendSlowly(pieces, chunk(data).len(), Duration::from_millis(50))
    };
    let head = || send(&[HEAD, "Transfer-Encoding: chunked\r\n\r\n"].concat());
    let timeout = Duration::from_millis(500);
    let ask = |script: Vec<Step>| {
        let settings = Settings {
            timeout,
            ..settings()
        };
        let server = Scripted::start([vec![Step::Expect], script].concat());
        put(settings, users(1, 1), &url(&server))
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let whole = ask(vec![head(), slow(b"data: a\n\n", 15), send("0\r\n\r\n")]);
            let counts = (whole.counted(OK), whole.counted("events"));
            assert_eq!(counts, (1, 15), "{:?}", errors(&whole));
        });
        for (script, kind) in [
            (vec![head(), Step::Stall], "timeout"),
            // Comments are no records.
            (vec![head(), slow(b": keep-alive\n\n", 40)], "timeout"),
            (vec![begun(), Step::Stall], "timeout_idle"),
            // The body stays open after the end marker.
            (
                vec![begun(), Step::Send(chunk(b"data: [DONE]\n\n")), Step::Stall],
                "timeout_idle",
            ),
        ] {
            scope.spawn(|| assert_eq!(errors(&ask(script)), failed(kind, 1)));
        }
    });
}

#[test]
fn a_stream_that_never_ends_is_unfinished() {
    let record = chunk(b"data: a\n\n").repeat(10_000);
    let script = vec![
        Step::Expect,
        begun(),
        Step::SendSlowly(record, 14, Duration::from_millis(1)),
    ];
    let server = Scripted::start(script);
    let (measure, drain) = (Duration::from_millis(300), Duration::from_millis(100));
    let tally = put_for(settings(), users(1, 1), &url(&server), measure, drain);
    assert_eq!((tally.counted(UNFINISHED), errors(&tally).len()), (1, 0));
    assert!(tally.counted("events") > 0, "{:?}", tally.counts);
}

#[test]
fn more_clients_start_while_the_first_streams_are_open() {
    // A share of 64 lets 16 clients wait for their first answer.
    let http1 = Scripted::start(vec![Step::Expect, begun(), Step::Stall]);
    let http2 = peer::serve(|mut stream| {
        begin(&mut stream)?;
        let id = next_request(&mut stream)?;
        stream.write_all(&frame(HEADERS, END_HEADERS, id, BLOCK))?;
        stream.write_all(&frame(DATA, 0, id, b"data: a\n\n"))?;
        io::copy(&mut stream, &mut io::sink())
    });
    for (url, http2) in [(url(&http1), false), (format!("http://{http2}/"), true)] {
        let settings = Settings {
            http2,
            timeout: Duration::from_millis(500),
            ..settings()
        };
        let times = (LONG, LONG);
        let tally = put_share(settings, users(20 * 64, 1), &url, times, 64);
        assert_eq!(tally.counted("events"), 20, "{:?}", tally.counts);
    }
}

/// Returns the largest value of a series, ms, and the number of values.
fn largest(tally: &Tally, series: &str) -> (f64, u64) {
    let mut all = tally.series();
    let (_, values) = all.find(|(name, _)| *name == series).unwrap();
    (values.quantile(1.0).unwrap() as f64 / 1e6, values.len())
}

#[test]
fn the_first_record_is_timed_from_the_due_time_and_gaps_from_record_to_record() {
    let stream = chunk(b"data: a\n\n").repeat(3);
    let script = vec![
        Step::Expect,
        send(&[HEAD, "Transfer-Encoding: chunked\r\n\r\n"].concat()),
        // The pause before the first record too.
        Step::SendSlowly(
            [chunk(b": hi\n\n\n"), stream].concat(),
            14,
            Duration::from_millis(200),
        ),
        send("0\r\n\r\n"),
        Step::Again,
    ];
    let server = Scripted::start(script);
    let one = Settings {
        connections: 1,
        ..settings()
    };
    // The second stream is due 100 ms after the first, and waits for the connection until that has ended, after 600 ms.
    let tally = put(one, rate(10.0, 2), &url(&server));
    assert_eq!(tally.counted(OK), 2, "{:?}", errors(&tally));
    let (first, count) = largest(&tally, "first_event");
    assert!(first >= 690.0 && count == 2, "{first} ms of {count}");
    let (gap, count) = largest(&tally, "gap");
    assert!(gap >= 100.0 && count == 4, "{gap} ms of {count}");
    assert_eq!(
        (tally.counted("events"), tally.counted("ended_body")),
        (6, 2)
    );
    assert!(tally.counted("event_reads") <= 6);
}
