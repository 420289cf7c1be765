//! A recording of a browser becomes a plan.

use std::process::Command;

use super::{by_path, file, seen};
use crate::program::{PROGRAM, program};
use crate::scripted::{Scripted, Step};
use crate::servers::OK;

/// Entries as Firefox and Chrome write them: other servers, a blocked request, HTTP/2's own fields, secrets, a repeated
/// request, a page that is missing.
const HAR: &str = r#"{"log": {"version": "1.2", "creator": {"name": "Firefox", "version": "140"}, "pages": [], "entries": [
{"startedDateTime": "2026-11-28T10:00:00.000+01:00", "time": 12, "request": {"method": "GET", "url": "HOST/", "httpVersion": "HTTP/2", "headers": [{"name": ":authority", "value": "x"}, {"name": "Host", "value": "x"}, {"name": "Accept", "value": "text/html"}, {"name": "Cookie", "value": "sid=secret"}], "cookies": [], "queryString": [], "headersSize": 10, "bodySize": 0}, "response": {"status": 200, "statusText": "OK", "headers": [], "content": {"size": 5, "mimeType": "text/html"}}, "cache": {}, "timings": {}},
{"request": {"method": "GET", "url": "HOST/a/logo.png?v=3", "headers": []}, "response": {"status": 200}},
{"request": {"method": "GET", "url": "HOST/a/logo.png?v=3", "headers": []}, "response": {"status": 304}},
{"request": {"method": "GET", "url": "HOST/a/logo.png?v=4", "headers": []}, "response": {"status": 404}},
{"request": {"method": "POST", "url": "HOST/api/orders", "headers": [{"name": "content-type", "value": "application/json"}, {"name": "Content-Length", "value": "9"}, {"name": "Authorization", "value": "Bearer x"}], "postData": {"mimeType": "application/json", "text": "{\"n\": 10}"}}, "response": {"status": 201}},
{"request": {"method": "GET", "url": "https://cdn.example/x.js", "headers": []}, "response": {"status": 200}},
{"request": {"method": "GET", "url": "HOST/blocked", "headers": []}, "response": {"status": 0}},
{"request": {"method": "GET", "url": "data:text/plain,x", "headers": []}, "response": {"status": 200}}
]}}"#;

#[test]
fn the_requests_that_a_browser_has_recorded_become_a_plan() {
    let missing = OK.replace("200", "404").into_bytes();
    let answers = vec![
        ("GET /a/logo.png?v=4".to_owned(), missing),
        (String::new(), OK.as_bytes().to_vec()),
    ];
    let script = vec![Step::Expect, Step::SendBy(answers), Step::Again];
    let server = Scripted::start(script);
    let har = file(
        ".har",
        &HAR.replace("HOST", &format!("http://{}", server.address())),
    );
    let import = |path: &str| {
        Command::new(PROGRAM)
            .args(["import-har", path])
            .output()
            .unwrap()
    };
    let output = import(har.path().to_str().unwrap());
    let (text, notes) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    assert_eq!(
        (output.status.code(), notes.trim()),
        (
            Some(0),
            format!(
                "left out: 1 requests to other servers than http://{}",
                server.address()
            )
            .as_str()
        )
    );
    assert!(
        !text.contains("secret") && !text.contains("Bearer"),
        "{text}"
    );
    let plan = file(".toml", &text);
    let call = [
        "--plan",
        plan.path().to_str().unwrap(),
        "-d",
        "300ms",
        "--warmup",
        "0s",
    ];
    let ran = program(&call).run();
    assert_eq!(
        ran.result.operations("failed"),
        0,
        "{}",
        ran.result["errors"]
    );
    let requests = seen(&server, 0);
    let counts = by_path(&requests);
    let paths: Vec<&str> = counts.keys().map(String::as_str).collect();
    assert_eq!(paths, ["/", "/a/logo.png", "/api/orders"]);
    let order = requests
        .iter()
        .find(|request| request.starts_with("POST"))
        .unwrap();
    assert!(
        order.contains("content-type: application/json\r\n")
            && order.ends_with("\r\n\r\n{\"n\": 10}"),
        "{order}"
    );
    for name in ["root", "a-logo-png", "a-logo-png-2", "api-orders"] {
        assert!(
            ran.result.values(name) > 0,
            "{name}: {}",
            ran.result["series"]
        );
    }
    let wrong = import(plan.path().to_str().unwrap());
    let message = String::from_utf8(wrong.stderr).unwrap();
    assert_eq!(wrong.status.code(), Some(2), "{message}");
    assert!(
        message.contains("is not a HAR file") && message.contains("save it"),
        "{message}"
    );
}
