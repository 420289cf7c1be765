//! One table of answers over HTTP/2, for both engines. After the bytes of an answer the server closes.

use std::io::{self, Write as _};
use std::net::{Shutdown, TcpStream};

use harness_testing::peer;
use http_load::{Engine, Settings};
use load::recorder::OK;

use crate::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PADDED, PING, PRIORITY, PUSH_PROMISE,
    RST_STREAM, SETTINGS, WINDOW_UPDATE, begin, frame, goaway, next_request,
};
use crate::scenarios::{ENGINES, adds_up, errors, failed, put, users};

/// An answer to one request, and the outcome of the request.
struct Case {
    name: &'static str,
    method: &'static str,
    bytes: Vec<u8>,
    outcome: &'static str,
    body: u64,
    /// The outcome with hyper, if it differs, with the reason.
    hyper: Option<(&'static str, &'static str)>,
}

impl Case {
    fn hyper(mut self, outcome: &'static str, why: &'static str) -> Self {
        self.hyper = Some((outcome, why));
        self
    }

    fn head(mut self) -> Self {
        self.method = "HEAD";
        self
    }
}

fn case(name: &'static str, frames: &[Vec<u8>], outcome: &'static str, body: u64) -> Case {
    Case {
        name,
        method: "GET",
        bytes: frames.concat(),
        outcome,
        body,
        hyper: None,
    }
}

fn ok(name: &'static str, frames: &[Vec<u8>], body: u64) -> Case {
    case(name, frames, "ok", body)
}

fn wrong(name: &'static str, frames: &[Vec<u8>]) -> Case {
    case(name, frames, "protocol_http2", 0)
}

/// The head of a response that goes on.
fn head(block: &[u8]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, 1, block)
}

/// A head that is the whole response, or trailers.
fn last(block: &[u8]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, 1, block)
}

fn data(flags: u8, payload: &[u8]) -> Vec<u8> {
    frame(DATA, flags, 1, payload)
}

/// The status 200 by its index in the static table.
fn ok_head() -> Vec<u8> {
    head(b"\x88")
}

fn whole_answers() -> Vec<Case> {
    let five = || data(END_STREAM, b"hello");
    let of_length =
        |length: &[u8]| [b"\x88\x5c".as_slice(), &[length.len() as u8], length].concat();
    vec![
        ok("plain", &[ok_head(), five()], 5),
        ok("no body", &[last(b"\x88")], 0),
        ok(
            "an empty piece at the end",
            &[ok_head(), data(0, b"hello"), data(END_STREAM, b"")],
            5,
        ),
        ok(
            "padding",
            &[ok_head(), data(PADDED | END_STREAM, b"\x02hello\0\0")],
            5,
        ),
        ok(
            "padding alone",
            &[
                ok_head(),
                five().repeat(0),
                data(PADDED, b"\x02\0\0"),
                five(),
            ],
            5,
        ),
        ok("a length", &[head(&of_length(b"5")), five()], 5),
        ok(
            "the same length twice",
            &[head(&[&of_length(b"5")[..], b"\x5c\x015"].concat()), five()],
            5,
        ),
        ok(
            "the length of a body that HEAD has not",
            &[last(&of_length(b"5"))],
            0,
        )
        .head(),
        ok(
            "a head in pieces",
            &[
                frame(HEADERS, END_STREAM, 1, b""),
                frame(CONTINUATION, 0, 1, b"\x08"),
                frame(CONTINUATION, END_HEADERS, 1, b"\x03200"),
            ],
            0,
        ),
        ok(
            "interim responses",
            &[
                head(b"\x08\x03103"),
                head(b"\x08\x03100"),
                ok_head(),
                five(),
            ],
            5,
        ),
        ok(
            "trailers",
            &[ok_head(), data(0, b"hello"), last(b"\x00\x01a\x01b")],
            5,
        ),
        ok(
            "a ping, and an unknown frame",
            &[
                frame(PING, 0, 0, &[7; 8]),
                ok_head(),
                frame(0xbe, 0xff, 1, b"grease"),
                five(),
            ],
            5,
        ),
        ok(
            "other frames between",
            &[
                frame(PRIORITY, 0, 1, &[0; 5]),
                frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
                ok_head(),
                frame(SETTINGS, 0, 0, &[]),
                five(),
            ],
            5,
        ),
        ok(
            "new settings",
            &[
                frame(
                    SETTINGS,
                    0,
                    0,
                    &[
                        0, 1, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1, 0, 4, 0, 0, 0, 1, 0, 5, 0, 1, 0, 0,
                    ],
                ),
                ok_head(),
                five(),
            ],
            5,
        ),
        ok("a GOAWAY behind it", &[ok_head(), five(), goaway(1)], 5),
        ok("a GOAWAY before it", &[goaway(1), ok_head(), five()], 5),
        case("a status of errors", &[last(b"\x8d")], "status", 0),
    ]
}

fn broken_answers() -> Vec<Case> {
    let five = || data(END_STREAM, b"hello");
    let long = frame(
        HEADERS,
        0,
        1,
        &[b"\x88\x00\x01a\x7f\xf1\xff\x04".as_slice(), &[b'x'; 16_000]].concat(),
    );
    let more = || frame(CONTINUATION, 0, 1, &[b'x'; 16_000]);
    vec![
        case("nothing", &[], "early_close", 0),
        case(
            "a part of a frame",
            &[ok_head()[..5].to_vec()],
            "early_close",
            0,
        )
        .hyper("reset", "reports what is left as an error of the system"),
        case(
            "a head without a body",
            &[ok_head(), data(0, b"hel")],
            "early_close",
            0,
        ),
        case(
            "a reset",
            &[frame(RST_STREAM, 0, 1, &[0, 0, 0, 2])],
            "reset",
            0,
        ),
        case(
            "a reset within the body",
            &[
                ok_head(),
                data(0, b"hel"),
                frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]),
            ],
            "reset",
            0,
        ),
        case("a GOAWAY that excludes it", &[goaway(0)], "early_close", 0),
        wrong(
            "HTTP/1.1",
            &[b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()],
        ),
        wrong(
            "a length that is too long",
            &[head(b"\x88\x5c\x019"), five()],
        ),
        wrong(
            "a length that is too short",
            &[head(b"\x88\x5c\x013"), five()],
        ),
        wrong("a length of letters", &[head(b"\x88\x5c\x01x"), five()]),
        wrong("two lengths", &[head(b"\x88\x5c\x015\x5c\x016"), five()]),
        wrong("no status", &[last(b"\x5c\x010")]),
        wrong("a field in upper case", &[last(b"\x88\x00\x01A\x01b")]),
        wrong(
            "a field of connections",
            &[last(b"\x88\x00\x0aconnection\x05close")],
        ),
        wrong("101", &[head(b"\x08\x03101"), ok_head(), five()])
            .hyper("ok", "takes it for an interim response"),
        wrong("a body of 204", &[head(b"\x89"), five()]).hyper("ok", "hands the body on"),
        wrong("a body for HEAD", &[ok_head(), five()]).head(),
        wrong("data first", &[five()]),
        wrong(
            "a push",
            &[frame(
                PUSH_PROMISE,
                END_HEADERS,
                1,
                b"\0\0\0\x02\x82\x84\x86",
            )],
        ),
        wrong(
            "a frame above 16 KiB",
            &[frame(HEADERS, END_HEADERS, 1, &[0; 16_385])],
        ),
        wrong(
            "a stream that was not opened",
            &[frame(HEADERS, END_HEADERS, 3, b"\x88")],
        ),
        wrong(
            "a stream of the server",
            &[frame(HEADERS, END_HEADERS, 2, b"\x88")],
        ),
        wrong(
            "fields that cannot be decoded",
            &[last(b"\xff\xff\xff\xff\xff\xff")],
        ),
        wrong(
            "a frame within a head",
            &[frame(HEADERS, 0, 1, b"\x88"), frame(PING, 0, 0, &[0; 8])],
        ),
        wrong(
            "more padding than data",
            &[ok_head(), data(PADDED, b"\x09hello")],
        ),
        wrong("a short ping", &[frame(PING, 0, 0, &[0; 7])]),
        wrong(
            "a window that does not grow",
            &[frame(WINDOW_UPDATE, 0, 0, &[0; 4])],
        ),
        case(
            "a head above 64 KiB",
            &[long, more(), more(), more(), more(), more()],
            "protocol_head_too_large",
            0,
        )
        .hyper("protocol_http2", "counts the frames of a head instead"),
    ]
}

fn answer(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    begin(stream)?;
    next_request(stream)?;
    stream.write_all(bytes)?;
    stream.shutdown(Shutdown::Write)?;
    // Unread data would turn the end into a reset.
    io::copy(stream, &mut io::sink()).map(drop)
}

#[test]
fn the_table_of_answers_over_http2_is_counted_as_it_says() {
    let mut wrong = Vec::new();
    for case in whole_answers().into_iter().chain(broken_answers()) {
        for engine in ENGINES {
            let bytes = case.bytes.clone();
            let address = peer::serve(move |mut stream| answer(&mut stream, &bytes));
            let settings = Settings {
                engine,
                method: case.method.to_owned(),
                http2: true,
                ..Settings::default()
            };
            let tally = put(settings, users(1, 1), &format!("http://{address}/"));
            let differs = case.hyper.filter(|_| engine == Engine::Hyper);
            let outcome = differs.map_or(case.outcome, |(outcome, _why)| outcome);
            let right = match outcome {
                "ok" if differs.is_some() => tally.counted(OK) == 1,
                "ok" => tally.counted(OK) == 1 && tally.counted("body_bytes") == case.body,
                kind => errors(&tally) == failed(kind, 1),
            };
            if !right || !adds_up(&tally) {
                let seen = (
                    tally.counted(OK),
                    tally.counted("body_bytes"),
                    errors(&tally),
                );
                wrong.push(format!(
                    "{}, {engine:?}: {outcome}, but {seen:?}",
                    case.name
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
