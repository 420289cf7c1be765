//! Tests of redirects: both engines send and count the same, and an operation stays one operation in every case.

use std::collections::BTreeMap;
use std::time::Duration;

use http_load::{Engine, Settings};
use load::recorder::OK;
use measure::tally::Tally;
use proptest::prelude::*;

use crate::scenarios::{ENGINES, adds_up, errors, failed, put, put_whatever_happens, rate, users};
use crate::scripted::{Scripted, Step};
use crate::servers::url;

const FIVE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

fn send(answer: impl Into<Vec<u8>>) -> Step {
    Step::Send(answer.into())
}

/// Builds a redirect to a location, with a body of seven bytes.
pub(crate) fn to(status: u16, location: &str) -> String {
    format!("HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 7\r\n\r\nit went")
}

/// Builds a script of these responses, in turn, on each connection.
fn in_turn(answers: &[&str]) -> Vec<Step> {
    let steps = answers
        .iter()
        .flat_map(|answer| [Step::Expect, send(*answer)]);
    steps.chain([Step::Again]).collect()
}

/// Builds a script that selects the first response whose request has this beginning.
pub(crate) fn by(answers: &[(&str, &str)]) -> Vec<Step> {
    let answers = answers.iter();
    let answers = answers.map(|(begin, answer)| ((*begin).to_owned(), (*answer).into()));
    vec![Step::Expect, Step::SendBy(answers.collect()), Step::Again]
}

fn following(most: u32) -> Settings {
    Settings {
        follow: most,
        ..Settings::default()
    }
}

/// Returns the counters that must be the same for both engines.
fn counted(tally: &Tally) -> Vec<(&'static str, u64)> {
    let names = [
        "started",
        OK,
        "answers",
        "served",
        "redirects",
        "body_bytes",
        "bytes",
        "bytes_sent",
        "opened",
        "excess_bytes",
    ];
    let counts = names.into_iter().map(|name| (name, tally.counted(name)));
    counts.collect()
}

/// Normalizes a request: fields ordered by name and in lower case, since engines may differ in those.
fn plain(request: &[u8]) -> String {
    let text = String::from_utf8(request.to_vec()).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let (line, fields) = head.split_once("\r\n").unwrap();
    let mut fields: Vec<String> = fields
        .lines()
        .filter(|field| !field.to_lowercase().starts_with("host:"))
        .map(str::to_lowercase)
        .collect();
    fields.sort();
    format!("{line}|{}|{body}", fields.join("|"))
}

/// Runs the same server with both engines, with a number of requests of one client: they must send and count the same,
/// which is returned.
fn both(
    script: impl Fn(u64) -> Vec<Step> + Clone + Send + 'static,
    settings: &Settings,
    ops: u64,
) -> (Tally, Vec<String>) {
    let [wire, hyper] = ENGINES.map(|engine| {
        let server = Scripted::start_each(script.clone());
        let settings = Settings {
            engine,
            ..settings.clone()
        };
        let tally = put(settings, users(1, ops), &url(&server));
        let all = (counted(&tally), errors(&tally));
        assert!(adds_up(&tally), "{engine:?}: {all:?}");
        let seen: Vec<String> = server.seen().iter().map(|seen| plain(seen)).collect();
        let asked = seen.len() as u64;
        let counts = server.finish_after(tally.counted("opened"));
        assert_eq!(tally.counted("bytes_sent"), counts.received);
        assert_eq!(tally.counted("served"), asked, "{engine:?}: {all:?}");
        (tally, seen)
    });
    assert_eq!(
        (counted(&wire.0), errors(&wire.0)),
        (counted(&hyper.0), errors(&hyper.0))
    );
    assert_eq!(wire.1, hyper.1);
    wire
}

/// Returns methods and targets of the requests.
fn lines(seen: &[String]) -> Vec<&str> {
    let line = |request: &'_ String| request.find(" HTTP/").unwrap();
    seen.iter()
        .map(|request| &request[..line(request)])
        .collect()
}

#[test]
fn a_chain_is_one_operation_and_each_answer_is_counted() {
    let answers = [&to(302, "/a/b?c"), &to(301, "../d;e#f"), FIVE].map(str::to_owned);
    let script = move |_| in_turn(&answers.each_ref().map(String::as_str));
    let settings = Settings {
        expect_length: Some(5),
        phases: true,
        ..following(2)
    };
    let (tally, seen) = both(script, &settings, 10);
    assert_eq!(
        lines(&seen[..4]),
        ["GET /x", "GET /a/b?c", "GET /d;e", "GET /x"]
    );
    for (name, count) in [
        ("started", 10),
        (OK, 10),
        ("answers", 30),
        ("redirects", 20),
        ("opened", 1),
        ("body_bytes", 10 * (7 + 7 + 5)),
        ("expected_body_bytes", 10 * (7 + 7 + 5)),
    ] {
        assert_eq!(tally.counted(name), count, "{name}");
    }
    let others = ["tls", "first_event", "first_content", "gap"];
    for (name, series) in tally.series().filter(|(name, _)| !others.contains(name)) {
        let expected = match name {
            "connecting" => 1,
            "sending" | "waiting" | "receiving" => 30,
            _ => 10,
        };
        assert_eq!(series.len(), expected, "{name}");
    }
}

#[test]
fn the_time_is_that_of_all_hops() {
    let pause = Duration::from_millis(30);
    for engine in ENGINES {
        let slow = |answer: String| {
            let (first, _) = answer.split_at(answer.len() - 1);
            let (size, bytes) = (first.len(), answer.clone().into_bytes());
            Step::SendSlowly(bytes, size, pause)
        };
        let script = vec![
            Step::Expect,
            slow(to(302, "/a")),
            Step::Expect,
            slow(to(302, "/b")),
            Step::Expect,
            send(FIVE),
            Step::Again,
        ];
        let server = Scripted::start(script);
        let settings = Settings {
            engine,
            ..following(2)
        };
        let tally = put(settings, users(1, 3), &url(&server));
        assert_eq!(tally.counted(OK), 3);
        for (name, series) in tally.series() {
            if ["response", "service"].contains(&name) {
                let least = series.quantile(0.0).unwrap();
                assert!(
                    least >= 2 * pause.as_nanos() as u64,
                    "{engine:?} {name}: {least}"
                );
            }
        }
    }
}

#[test]
fn one_more_than_are_followed_is_too_many() {
    let circle = to(307, "/x");
    let script = move |_| in_turn(&[&circle]);
    let (tally, _) = both(script, &following(3), 5);
    assert_eq!(errors(&tally), failed("too_many_redirects", 5));
    let (answers, redirects) = (tally.counted("answers"), tally.counted("redirects"));
    assert_eq!((answers, redirects, tally.counted("opened")), (20, 15, 1));
}

#[test]
fn many_are_followed_where_that_is_asked_for() {
    let mut answers: Vec<String> = (0..500).map(|hop| to(302, &format!("/{hop}"))).collect();
    answers.push(FIVE.to_owned());
    let answers: Vec<&str> = answers.iter().map(String::as_str).collect();
    let script = in_turn(&answers);
    let (tally, seen) = both(move |_| script.clone(), &following(500), 2);
    assert_eq!((tally.counted(OK), tally.counted("redirects")), (2, 1000));
    assert_eq!(lines(&seen)[500], "GET /499");
}

/// However fast the server is, the redirects never end.
#[test]
fn the_time_limit_is_that_of_the_whole_operation() {
    for engine in ENGINES {
        let server = Scripted::start(in_turn(&[&to(302, "/x")]));
        let settings = Settings {
            engine,
            timeout: Duration::from_millis(200),
            ..following(u32::MAX)
        };
        let tally = put(settings, users(1, 2), &url(&server));
        assert_eq!(errors(&tally), failed("timeout", 2), "{engine:?}");
        assert!(tally.counted("redirects") > 0 && adds_up(&tally));
    }
}

#[test]
fn a_post_becomes_a_get_or_is_sent_again_as_it_was() {
    let settings = Settings {
        method: "POST".to_owned(),
        path: Some("/items/{id}".to_owned()),
        headers: [
            "Content-Type: text/n{id}",
            "Content-Language: x",
            "X-Number: {id}",
        ]
        .map(str::to_owned)
        .to_vec(),
        body: vec!["n={id}".to_owned(), "plain".to_owned()],
        ..following(2)
    };
    let posts = [
        "POST /items/0 HTTP/1.1|content-language: x|content-length: 3|content-type: text/n0|x-number: 0|n=0",
        "POST /items/1 HTTP/1.1|content-language: x|content-length: 5|content-type: text/n1|x-number: 1|plain",
    ];
    for status in [301, 302, 303, 307, 308] {
        let answers = [&to(status, "y"), &to(307, "z"), FIVE].map(str::to_owned);
        let script = move |_| in_turn(&answers.each_ref().map(String::as_str));
        let (tally, seen) = both(script, &settings, 2);
        assert_eq!(tally.counted(OK), 2);
        let mut expected = Vec::new();
        for (number, post) in posts.iter().enumerate() {
            expected.push((*post).to_owned());
            for place in ["y", "z"] {
                expected.push(match status {
                    ..=303 => format!("GET /items/{place} HTTP/1.1|x-number: {number}|"),
                    _ => post.replace(&format!("/items/{number}"), &format!("/items/{place}")),
                });
            }
        }
        assert_eq!(seen, expected, "{status}");
    }
}

#[test]
fn a_head_stays_a_head() {
    let without_content = |answer: String| answer.replace("it went", "");
    for status in [301, 302, 303, 307, 308] {
        let answers = [
            without_content(to(status, "/y")),
            without_content(to(303, "/z")),
            FIVE.replace("hello", ""),
        ];
        let settings = Settings {
            method: "HEAD".to_owned(),
            ..following(5)
        };
        let script = move |_| in_turn(&answers.each_ref().map(String::as_str));
        let (tally, seen) = both(script, &settings, 3);
        assert_eq!((tally.counted(OK), tally.counted("body_bytes")), (3, 0));
        assert_eq!(lines(&seen[..3]), ["HEAD /x", "HEAD /y", "HEAD /z"]);
    }
}

#[test]
fn redirects_to_another_server_or_to_nowhere_fail_and_the_connection_goes_on() {
    let long = format!("/{}", "x".repeat(40_000));
    let nowhere = "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n";
    for (answer, kind) in [
        (to(302, "http://127.0.0.2/"), "redirect_elsewhere"),
        (to(302, "//127.0.0.1:1/"), "redirect_elsewhere"),
        (to(302, "https://127.0.0.1/"), "redirect_elsewhere"),
        (to(308, "urn:x"), "redirect_elsewhere"),
        (nowhere.to_owned(), "redirect_without_location"),
        (to(302, ""), "redirect_without_location"),
        (to(302, "/a b"), "redirect_without_location"),
        (to(302, "/a\r\n b"), "redirect_without_location"),
        (to(302, "http://["), "redirect_without_location"),
        (to(302, &long), "redirect_without_location"),
    ] {
        let script = move |_| in_turn(&[&answer]);
        let (tally, _) = both(script, &following(5), 4);
        assert_eq!(errors(&tally), failed(kind, 4));
        let (answers, redirects) = (tally.counted("answers"), tally.counted("redirects"));
        assert_eq!((answers, redirects, tally.counted("opened")), (4, 0, 1));
    }
}

#[test]
fn bytes_that_are_no_text_lead_nowhere() {
    let garbage = b"HTTP/1.1 302 Found\r\nLocation: /\xff\xfe\r\nContent-Length: 0\r\n\r\n";
    let script = vec![Step::Expect, send(*garbage), Step::Again];
    let (tally, _) = both(move |_| script.clone(), &following(5), 4);
    assert_eq!(errors(&tally), failed("redirect_without_location", 4));
}

#[test]
fn the_same_server_may_be_named_in_full_or_by_its_host_field() {
    for engine in ENGINES {
        // The server's name is known once it listens.
        let own = Scripted::start_each(|_| Vec::new()).address();
        let named = [
            (None, format!("http://{own}/y"), "redirect_elsewhere"),
            (Some("Host: Name:81"), "http://name:81/y".to_owned(), "ok"),
            (Some("Host: name"), "//name:80/y".to_owned(), "ok"),
            (
                Some("Host: name"),
                "//name:81/y".to_owned(),
                "redirect_elsewhere",
            ),
            (Some("Host: n{id}"), "//n0/y".to_owned(), "ok"),
        ];
        for (host, location, kind) in named {
            let server = Scripted::start(in_turn(&[&to(302, &location), FIVE]));
            let settings = Settings {
                engine,
                headers: host.map(str::to_owned).into_iter().collect(),
                ..following(1)
            };
            let tally = put(settings, users(1, 1), &url(&server));
            let expected = match kind {
                "ok" => BTreeMap::new(),
                kind => failed(kind, 1),
            };
            assert_eq!(errors(&tally), expected, "{engine:?}: {host:?} {location}");
        }
    }
}

#[test]
fn a_folded_location_is_read() {
    let folded = to(302, "\r\n /y");
    let script = move |_| in_turn(&[&folded, FIVE]);
    let (tally, seen) = both(script, &following(1), 2);
    assert_eq!(tally.counted(OK), 2);
    assert_eq!(lines(&seen)[1], "GET /y");
}

#[test]
fn a_connection_that_ends_with_a_redirect_is_followed_by_another() {
    let said = to(302, "/y").replace("Content-Length", "Connection: close\r\nContent-Length");
    let old = to(302, "/y").replace("HTTP/1.1", "HTTP/1.0");
    let to_the_end = to(302, "/y").replace("Content-Length: 7\r\n", "");
    for redirect in [said, old, to_the_end] {
        let script = move |number: u64| match number % 2 {
            0 => vec![Step::Expect, send(redirect.as_str())],
            _ => vec![
                Step::Expect,
                send(FIVE.replace("\r\nCon", "\r\nConnection: close\r\nCon")),
            ],
        };
        let (tally, seen) = both(script, &following(1), 6);
        assert_eq!((tally.counted(OK), tally.counted("opened")), (6, 12));
        assert_eq!(lines(&seen[..2]), ["GET /x", "GET /y"]);
    }
    let settings = Settings {
        keep_alive: false,
        ..following(1)
    };
    let script = |number: u64| match number % 2 {
        0 => vec![Step::Expect, send(to(302, "/y")), Step::Stall],
        _ => vec![Step::Expect, send(FIVE), Step::Stall],
    };
    let (tally, _) = both(script, &settings, 6);
    assert_eq!((tally.counted(OK), tally.counted("opened")), (6, 12));
}

/// The client of the connection goes on, with as many connections as before; if none can be opened, that is the
/// failure.
#[test]
fn a_hop_whose_connection_can_not_be_made_fails_as_any_request() {
    for engine in ENGINES {
        let close = to(302, "/y").replace("Content-Length", "Connection: close\r\nContent-Length");
        let script = move |number: u64| match number % 2 {
            0 => vec![Step::Expect, send(close.as_str())],
            _ => vec![Step::Expect, Step::Reset],
        };
        let server = Scripted::start_each(script);
        let settings = Settings {
            engine,
            ..following(1)
        };
        let tally = put(settings, users(1, 3), &url(&server));
        assert_eq!(errors(&tally), failed("reset", 3), "{engine:?}");
        assert_eq!(tally.counted("redirects"), 3);
    }
}

#[test]
fn an_open_loop_follows_over_its_connections_and_over_new_ones() {
    let close = "\r\nConnection: close\r\nContent-Length";
    for (engine, closes, keep_alive) in [
        (Engine::Wire, false, true),
        (Engine::Hyper, false, true),
        (Engine::Wire, true, true),
        (Engine::Hyper, true, true),
        (Engine::Wire, false, false),
        (Engine::Hyper, false, false),
    ] {
        let redirect = if closes {
            to(302, "/y").replace("\r\nContent-Length", close)
        } else {
            to(302, "/y")
        };
        // The response depends on the request, not on the connection.
        let server = Scripted::start(by(&[("GET /y ", FIVE), ("", &redirect)]));
        let settings = Settings {
            engine,
            keep_alive,
            connections: 3,
            ..following(1)
        };
        let tally = put(settings, rate(500.0, 100), &url(&server));
        let what = format!("{engine:?}, {closes}, {keep_alive}: {:?}", counted(&tally));
        assert!(adds_up(&tally), "{what}");
        assert_eq!(
            (tally.counted(OK), tally.counted("redirects")),
            (100, 100),
            "{what}"
        );
        let opened = tally.counted("opened");
        match (closes, keep_alive) {
            (false, true) => assert_eq!(opened, 3, "{what}"),
            (true, _) => assert!((100..=103).contains(&opened), "{what}"),
            (false, false) => assert_eq!(opened, 200, "{what}"),
        }
    }
}

#[test]
fn other_statuses_and_redirects_that_are_not_followed_are_answers() {
    for (status, most) in [(300, 5), (304, 5), (305, 5), (302, 0)] {
        let answer = match status {
            304 => "HTTP/1.1 304 Same\r\nLocation: /y\r\n\r\n".to_owned(),
            _ => to(status, "/y"),
        };
        let script = move |_| in_turn(&[&answer]);
        let (tally, _) = both(script, &following(most), 3);
        let counts = (tally.counted(OK), tally.counted("redirects"));
        assert_eq!(counts, (3, 0), "{status}");
    }
}

#[test]
fn checks_and_expectations_are_about_the_last_answer() {
    let redirect = to(302, "/y");
    let answers = in_turn(&[&redirect, FIVE]);
    let settings = Settings {
        expect_status: vec![200],
        expect_length: Some(5),
        checks: [
            "status==200",
            "body.length==5",
            "body contains \"hello\"",
            "header.location exists",
        ]
        .map(str::to_owned)
        .to_vec(),
        ..following(1)
    };
    let script = answers.clone();
    let (tally, _) = both(move |_| script.clone(), &settings, 4);
    assert_eq!(tally.counted(OK), 4);
    let (passed, not) = (
        tally.counted("checks_passed"),
        tally.counted("checks_failed"),
    );
    assert_eq!((passed, not), (12, 4));
    let settings = Settings {
        expect_length: Some(7),
        ..following(1)
    };
    let (tally, _) = both(move |_| answers.clone(), &settings, 4);
    assert_eq!(errors(&tally), failed("length", 4));
}

/// Generates the behaviour of a server after a request.
fn misbehaviour() -> impl Strategy<Value = Vec<Step>> {
    let close = to(303, "y").replace("Content-Length", "Connection: close\r\nContent-Length");
    let answer = prop_oneof![
        3 => Just(FIVE.to_owned()),
        3 => Just(to(302, "/y")),
        1 => Just(close),
        1 => Just(to(307, "z").repeat(2)),
        1 => Just(to(302, "//other")),
        1 => Just(to(302, "/y").replace("Content-Length: 7", "Content-Length: 9")),
    ];
    let ending = prop_oneof![
        5 => Just(None),
        1 => Just(Some(Step::Close)),
        1 => Just(Some(Step::Reset)),
        1 => Just(Some(Step::Stall)),
    ];
    let exchange = (answer, ending).prop_map(|(answer, ending)| {
        let mut steps = vec![Step::Expect, send(answer)];
        steps.extend(ending);
        steps
    });
    proptest::collection::vec(exchange, 1..6).prop_map(|exchanges| exchanges.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_started_request_is_accounted_for_whatever_the_server_does(
        script in misbehaviour(),
        most in 1_u32..4,
        paced in any::<bool>(),
        keep_alive in any::<bool>(),
    ) {
        for engine in ENGINES {
            let server = Scripted::start(script.clone());
            let settings = Settings {
                engine,
                connections: 3,
                keep_alive,
                timeout: Duration::from_millis(50),
                ..following(most)
            };
            put_whatever_happens(settings, paced, &url(&server));
        }
    }
}
