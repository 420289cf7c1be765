//! Tests of traffic that looks real: requests by weight, rows of files, think time, and values taken from answers.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Duration;

use harness_testing::result::ResultFile;
use tempfile::NamedTempFile;

use crate::front::Front;
use crate::program::{program, run_plan};
use crate::scripted::{Scripted, Step};
use crate::servers::{OK, answers, send, url, well};

mod har;
mod mistakes;
mod replay;

/// Three requests, of which one is sent by one group only.
const THREE: &str = r#"
[[driver.requests]]
name = "page"
weight = 3
path = "/page"

[[driver.requests]]
name = "item"
path = "/item?n={id:7}"
headers = ["X-Kind: item"]

[[driver.requests]]
name = "order"
weight = 0
method = "POST"
path = "/order"
body = '{"n": {id}}'
"#;

/// HTTP/1.1, and HTTP/2 through a front.
const VERSIONS: [bool; 2] = [false, true];

/// Runs clients with this many requests each on a server, over HTTP/1.1 or over HTTP/2.
fn run(http2: bool, (clients, ops): (u64, u64), driver: &str, server: &Scripted) -> ResultFile {
    run_group(
        http2,
        &format!("clients = {clients}\nops = {ops}"),
        driver,
        server,
    )
}

fn run_group(http2: bool, group: &str, driver: &str, server: &Scripted) -> ResultFile {
    let front = http2.then(|| Front::start(server.address()));
    let url = front.as_ref().map_or_else(|| url(server), Front::url);
    let driver = format!("http2 = {http2}\n{driver}");
    run_plan(None, group, &driver, &["--set", "timeline.warmup=0s", &url])
}

/// Returns the requests that a server has seen after the first ones, which are the check's, as text.
fn seen(server: &Scripted, check: usize) -> Vec<String> {
    let seen = server.seen().split_off(check);
    let text = seen
        .iter()
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    text.collect()
}

/// Counts the requests by their first word after the method.
fn by_path(requests: &[String]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for request in requests {
        let path = request.split([' ', '?']).nth(1).unwrap_or_default();
        *counts.entry(path.to_owned()).or_default() += 1;
    }
    counts
}

fn file(end: &str, content: &str) -> NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(end).tempfile().unwrap();
    file.write_all(content.as_bytes()).unwrap();
    file
}

#[test]
fn requests_are_sent_by_weight_and_measured_by_name() {
    for http2 in VERSIONS {
        let server = well();
        let result = run(http2, (4, 100), THREE, &server);
        // The check sends each request twice to learn its content, unless a number is in it.
        let counts = by_path(&seen(&server, 4));
        let (page, item) = (counts["/page"], counts["/item"]);
        assert_eq!((page + item, counts.len()), (400, 2), "{counts:?}");
        assert!((270..=330).contains(&page), "{counts:?}");
        assert_eq!((result.values("page"), result.values("item")), (page, item));
        assert_eq!(result.values("response"), 400, "{}", result["errors"]);
        // The lengths of answers are known for one of the two only.
        assert_eq!(
            result.count("expected_body_bytes"),
            result.count("body_bytes")
        );
        // The same plan draws the same.
        let again = well();
        run(http2, (4, 100), THREE, &again);
        assert_eq!(by_path(&seen(&again, 4)), counts);
    }
}

/// A user's journey: the page three times, then the item, on each connection. An order is sent when something needs it.
#[test]
fn requests_in_turn_are_sent_in_the_order_of_the_plan() {
    let journey = format!("order = \"sequential\"\n{THREE}");
    for http2 in VERSIONS {
        let server = well();
        let result = run(http2, (3, 6), &journey, &server);
        assert_eq!((result.values("page"), result.values("item")), (15, 3));
    }
    let server = well();
    run(false, (1, 6), &journey, &server);
    let requests = seen(&server, 4);
    let paths = requests
        .iter()
        .filter_map(|request| request.split([' ', '?']).nth(1));
    let paths: Vec<&str> = paths.collect();
    assert_eq!(
        paths,
        ["/page", "/page", "/page", "/item", "/page", "/page"]
    );
}

#[test]
fn a_failure_is_counted_by_the_name_of_its_request() {
    let wrong = OK.replace("200", "404");
    let server = Scripted::start_each(move |number| script_of(number, &wrong));
    let result = run(false, (1, 40), THREE, &server);
    let (failed, ok) = (result.count("failed_page"), result.values("item"));
    assert_eq!(
        (failed, result.error("status")),
        (result.operations("failed"), failed)
    );
    assert_eq!(
        (
            failed + ok,
            result.values("page"),
            result.count("failed_item")
        ),
        (40, 0, 0)
    );
}

fn script_of(number: u64, wrong: &str) -> Vec<Step> {
    let page = if number >= 4 { wrong } else { OK };
    let answers = [("GET /page", page), ("", OK)];
    let answers = answers.map(|(begin, answer)| (begin.to_owned(), answer.as_bytes().to_vec()));
    vec![Step::Expect, Step::SendBy(answers.to_vec()), Step::Again]
}

/// Rows go into paths, header fields and bodies, each encoded as it must be; both workers together use each row once before
/// one is used again.
#[test]
fn rows_of_a_file_are_sent_each_once_and_then_again() {
    let csv = file(
        ".csv",
        "word,note\r\n\"a, b\",1\r\nü?x=1,\"say \"\"hi\"\"\"\r\nc,3\r\nd,4",
    );
    let json = file(
        ".jsonl",
        "{\"word\":\"a, b\",\"note\":1}\n{\"note\":\"say \\\"hi\\\"\",\"word\":\"ü?x=1\"}\n{\"word\":\"c\",\"note\":3}\n{\"word\":\"d\",\"note\":4}\n",
    );
    for (http2, rows) in [(false, &csv), (true, &csv), (false, &json)] {
        let server = well();
        let driver = format!(
            "rows = {:?}\nmethod = \"POST\"\npath = \"/find?q={{{{word}}}}\"\nheaders = [\"X-Word: {{{{word}}}}\"]\nbody = [\"<{{{{note}}}}>\"]",
            rows.path()
        );
        run(http2, (2, 4), &driver, &server);
        let requests = seen(&server, 1);
        assert_eq!(requests.len(), 8, "{requests:?}");
        for (path, field, body) in [
            ("a,%20b", "a, b", "<1>"),
            ("%C3%BC?x=1", "ü?x=1", "<say \"hi\">"),
            ("c", "c", "<3>"),
            ("d", "d", "<4>"),
        ] {
            let is_it = |request: &&String| {
                let lower = request.to_lowercase();
                request.starts_with(&format!("POST /find?q={path} HTTP/1.1\r\n"))
                    && lower.contains(&format!("x-word: {field}\r\n"))
                    && lower.contains(&format!("content-length: {}\r\n", body.len()))
                    && request.ends_with(&format!("\r\n\r\n{body}"))
            };
            assert_eq!(
                requests.iter().filter(is_it).count(),
                2,
                "{path}: {requests:?}"
            );
        }
    }
}

#[test]
fn requests_without_bodies_in_their_answers_are_among_others() {
    let two = "[[driver.requests]]\nname = \"one\"\n[[driver.requests]]\nname = \"none\"\nmethod = \"HEAD\"";
    for http2 in VERSIONS {
        let head = OK.strip_suffix("hello").unwrap();
        let answers = [("HEAD", head), ("GET", OK)];
        let answers = answers.map(|(begin, answer)| (begin.to_owned(), answer.into()));
        let server = Scripted::start(vec![
            Step::Expect,
            Step::SendBy(answers.to_vec()),
            Step::Again,
        ]);
        let result = run(http2, (2, 20), two, &server);
        assert_eq!(result.operations("ok"), 40, "{}", result["errors"]);
        assert_eq!(result.count("body_bytes"), 5 * result.values("one"));
        assert!(result.values("none") > 0, "{result}");
    }
}

/// A large request is sent in parts. All parts are of one row, and the next request has the next row.
#[test]
fn a_request_that_is_sent_in_parts_is_of_one_row() {
    let csv = file(".csv", "n\n1\n2\n3\n4\n");
    let large = "x".repeat(8 << 20);
    let body = file("", &format!("{{{{n}}}} {large} {{{{n}}}}"));
    let server = well();
    let driver = format!(
        "rows = {:?}\nmethod = \"POST\"\nbody_files = [{:?}]",
        csv.path(),
        body.path()
    );
    run(false, (1, 4), &driver, &server);
    let requests = seen(&server, 1);
    let ends = requests.iter().map(|request| {
        let body = request.split("\r\n\r\n").nth(1).unwrap_or_default();
        (body[..2].to_owned(), body[body.len() - 2..].to_owned())
    });
    let expected = ["1", "2", "3", "4"].map(|n| (format!("{n} "), format!(" {n}")));
    assert_eq!(ends.collect::<Vec<_>>(), expected);
}

#[test]
fn clients_pause_after_an_answer_and_the_pause_is_in_no_time() {
    for http2 in VERSIONS {
        let server = well();
        let driver = "think = \"uniform:150ms:200ms\"";
        let result = run(http2, (5, 4), driver, &server);
        // Three pauses between four requests.
        assert!(
            result["wall_s"].as_f64().unwrap() >= 0.45,
            "{}",
            result["wall_s"]
        );
        assert_eq!((result.operations("ok"), result.count("opened")), (20, 5));
        assert!(result.ms("response", "p50_ns") < 150.0, "{result}");
        assert!(result.series("lag").is_some() || !result["lag"].is_null());
        let audited = result["audit"].to_string();
        assert!(!audited.contains("busy users"), "{audited}");
    }
}

#[test]
fn a_client_whose_connection_ends_in_its_pause_opens_another_one_after_it() {
    for http2 in VERSIONS {
        let server = Scripted::start_each(|_| vec![Step::Expect, send(OK), Step::Close]);
        let result = run(http2, (3, 3), "think = \"100ms\"", &server);
        assert_eq!(
            (result.operations("ok"), result.operations("failed")),
            (9, 0)
        );
        assert!(
            result["wall_s"].as_f64().unwrap() >= 0.2,
            "{}",
            result["wall_s"]
        );
    }
}

/// A login gives a token and a cookie, and another request gives an order's number. Each connection of the server has its
/// own, so that a value of another client would show.
const LOGIN: &str = r#"
cookies = true

[[driver.requests]]
name = "buy"
method = "POST"
path = "/buy/{{order}}"
headers = ["Authorization: Bearer {{token}}"]
body = '{"order": "{{order}}"}'

[[driver.requests]]
name = "order"
weight = 0
path = "/order"
headers = ["Authorization: Bearer {{token}}"]
capture = ["header:X-Order as order", 'regex:page (\d+) as number']

[[driver.requests]]
name = "login"
weight = 0
method = "POST"
path = "/login"
capture = ["json:/user/token as token"]
"#;

/// Plays a server whose tokens name the connection.
fn shop() -> Scripted {
    Scripted::start_each(|number| {
        let json = format!(r#"{{"user": {{"token": "t{number}", "id": {number}}}}}"#);
        let login = format!(
            "HTTP/1.1 200 OK\r\nSet-Cookie: sid=s{number}; Path=/\r\nSet-Cookie: a=b\r\nContent-Length: {}\r\n\r\n{json}",
            json.len()
        );
        let page = format!("page {number}");
        let order = format!(
            "HTTP/1.1 200 OK\r\nX-Order: o{number}\r\nContent-Length: {}\r\n\r\n{page}",
            page.len()
        );
        let answers = [
            ("POST /login", login),
            ("GET /order", order),
            ("POST /buy", OK.to_owned()),
        ];
        let answers = answers.map(|(begin, answer)| (begin.to_owned(), answer.into_bytes()));
        vec![Step::Expect, Step::SendBy(answers.to_vec()), Step::Again]
    })
}

#[test]
fn values_and_cookies_of_a_client_go_into_its_later_requests() {
    for http2 in VERSIONS {
        let server = shop();
        let driver = format!("any_content = true\n{LOGIN}");
        let result = run(http2, (3, 5), &driver, &server);
        assert_eq!(result.operations("ok"), 15, "{}", result["errors"]);
        let counts = ["login", "order", "buy"].map(|name| result.values(name));
        // What a client needs is sent first, once.
        assert_eq!(counts, [3, 3, 9]);
        let requests = seen(&server, 3);
        let buys = requests
            .iter()
            .filter(|request| request.starts_with("POST /buy"));
        for buy in buys.clone() {
            let number: String = buy["POST /buy/o".len()..]
                .chars()
                .take_while(char::is_ascii_digit)
                .collect();
            let lower = buy.to_lowercase();
            assert!(
                lower.contains(&format!("authorization: bearer t{number}\r\n")),
                "{buy}"
            );
            assert!(
                lower.contains(&format!("cookie: a=b; sid=s{number}\r\n")),
                "{buy}"
            );
            assert!(
                buy.ends_with(&format!("\r\n\r\n{{\"order\": \"o{number}\"}}")),
                "{buy}"
            );
        }
        assert_eq!(buys.count(), 9);
    }
}

#[test]
fn an_answer_without_the_value_fails_as_capture_and_before_the_run_it_is_refused() {
    let login = "[[driver.requests]]\nname = \"login\"\npath = \"/login\"\ncapture = [\"json:/token as token\"]\nany_content = true";
    let json = "HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{\"token\": \"abc\"";
    let server = Scripted::start_each(move |number| match number {
        0 => answers("HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{\"token\": \"abc\"}"),
        _ => answers(json),
    });
    let result = run(false, (2, 3), login, &server);
    assert_eq!(
        (result.error("capture"), result.count("failed_login")),
        (6, 6)
    );
    let server = well();
    let plan = crate::program::plan("", login);
    let call = ["--plan", plan.path().to_str().unwrap(), &url(&server)];
    let says = ["login: /login of", "json:/token as token", "hello"];
    program(&call).refused(2, &says);
}

#[test]
fn a_token_from_setup_is_there_for_all_requests_at_a_rate_too() {
    let setup = "[driver.setup]\nname = \"token\"\nmethod = \"POST\"\npath = \"/login\"\ncapture = [\"json:/user/token as token\"]\n";
    for http2 in VERSIONS {
        let server = shop();
        let driver = format!(
            "connections = 2\npath = \"/order\"\nany_content = true\nheaders = [\"X-Token: {{{{token}}}}\"]\n{setup}"
        );
        let result = run_group(http2, "rate = 200\nops = 10", &driver, &server);
        assert_eq!(result.operations("failed"), 0, "{}", result["errors"]);
        let requests = seen(&server, 1);
        assert!(requests.len() >= 2);
        for request in requests {
            assert!(
                request.to_lowercase().contains("x-token: t0\r\n"),
                "{request}"
            );
        }
    }
}

#[test]
fn a_run_lasts_as_long_as_planned_however_long_clients_pause() {
    let server = well();
    let driver = "think = \"1h\"";
    let result = run_plan(
        None,
        "clients = 2",
        driver,
        &[
            "--set",
            "timeline.warmup=0s",
            "--set",
            "timeline.measure=300ms",
            &url(&server),
        ],
    );
    assert_eq!(
        (result.operations("ok"), result.operations("unfinished")),
        (2, 0)
    );
    // It does not end before, either: rates are of the planned time.
    let wall = Duration::from_secs_f64(result["wall_s"].as_f64().unwrap());
    assert!((300..20_000).contains(&wall.as_millis()), "{wall:?}");
}
