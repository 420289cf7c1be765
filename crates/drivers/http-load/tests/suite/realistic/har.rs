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

/// Entries with the fields that Chrome's DevTools, Firefox and Safari save (HAR 1.2 with their own fields). Programs that
/// record for others begin with a byte order mark, write fractions and null, and bytes as base64.
const BROWSERS: [&str; 3] = [
    r#"{"log": {"version": "1.2", "creator": {"name": "WebInspector", "version": "537.36"}, "pages": [{"startedDateTime": "2026-11-28T10:00:00.000Z", "id": "page_1", "title": "https://shop.example/", "pageTimings": {"onContentLoad": 80.1, "onLoad": 90.2}}], "entries": [
{"_connectionId": "21", "_initiator": {"type": "other"}, "_priority": "VeryHigh", "_resourceType": "document", "cache": {}, "connection": "443", "pageref": "page_1", "request": {"method": "GET", "url": "https://shop.example/?a=1#top", "httpVersion": "http/2.0", "headers": [{"name": ":authority", "value": "shop.example"}, {"name": ":method", "value": "GET"}, {"name": ":path", "value": "/?a=1"}, {"name": ":scheme", "value": "https"}, {"name": "accept", "value": "text/html"}, {"name": "cookie", "value": "sid=secret"}, {"name": "sec-ch-ua", "value": "\"Chromium\";v=\"156\""}], "queryString": [{"name": "a", "value": "1"}], "cookies": [], "headersSize": -1, "bodySize": 0}, "response": {"status": 200, "statusText": "", "httpVersion": "http/2.0", "headers": [], "cookies": [], "content": {"size": 3, "mimeType": "text/html", "text": "PGE+", "encoding": "base64"}, "redirectURL": "", "headersSize": -1, "bodySize": -1, "_transferSize": 100, "_error": null, "_fetchedViaServiceWorker": false}, "serverIPAddress": "192.0.2.1", "startedDateTime": "2026-11-28T10:00:00.000Z", "time": 20.5, "timings": {"blocked": 1.1, "dns": -1, "ssl": -1, "connect": -1, "send": 0.1, "wait": 18, "receive": 1, "_blocked_queueing": 0.5}},
{"_fromCache": "memory", "_resourceType": "script", "cache": {}, "request": {"method": "GET", "url": "https://shop.example/app.js", "httpVersion": "http/2.0", "headers": [], "queryString": [], "cookies": [], "headersSize": -1, "bodySize": 0}, "response": {"status": 200, "headers": [], "content": {"size": 9}, "_transferSize": 0}},
{"_resourceType": "image", "request": {"method": "GET", "url": "data:image/gif;base64,R0lGODlhAQABAAAAACw=", "httpVersion": "", "headers": []}, "response": {"status": 200, "content": {"size": 1}}},
{"_resourceType": "script", "request": {"method": "GET", "url": "https://shop.example/ads.js", "httpVersion": "", "headers": []}, "response": {"status": 0, "statusText": "", "_error": "net::ERR_BLOCKED_BY_CLIENT", "content": {"size": 0, "mimeType": "x-unknown"}}},
{"_resourceType": "websocket", "_webSocketMessages": [], "request": {"method": "GET", "url": "wss://shop.example/live", "httpVersion": "HTTP/1.1", "headers": []}, "response": {"status": 101}},
{"_resourceType": "fetch", "request": {"method": "POST", "url": "https://shop.example/graphql", "httpVersion": "h3", "headers": [{"name": "content-type", "value": "application/json"}], "postData": {"mimeType": "application/json", "text": "{\"query\":\"{user{id}}\"}"}}, "response": {"status": 200}},
{"_resourceType": "xhr", "request": {"method": "POST", "url": "https://shop.example/upload", "httpVersion": "http/2.0", "headers": [{"name": "content-type", "value": "multipart/form-data; boundary=x"}], "postData": {"mimeType": "multipart/form-data; boundary=x", "params": [{"name": "file", "fileName": "a.png", "contentType": "image/png"}]}}, "response": {"status": 204}}
]}}"#,
    r#"{"log": {"version": "1.2", "creator": {"name": "Firefox", "version": "145.0"}, "browser": {"name": "Firefox", "version": "145.0"}, "pages": [{"id": "page_1", "pageTimings": {"onContentLoad": 8, "onLoad": 9}, "startedDateTime": "2026-11-28T10:00:00.000+01:00", "title": "shop"}], "entries": [
{"startedDateTime": "2026-11-28T10:00:00.000+01:00", "request": {"bodySize": 0, "method": "GET", "url": "https://shop.example/", "httpVersion": "HTTP/2", "headers": [{"name": "Host", "value": "shop.example"}, {"name": "Accept", "value": "text/html"}, {"name": "Connection", "value": "keep-alive"}], "cookies": [], "queryString": [], "headersSize": 400}, "response": {"status": 200, "statusText": "", "httpVersion": "HTTP/2", "headers": [], "cookies": [], "content": {"mimeType": "image/png", "size": 4, "encoding": "base64", "text": "iVBORw=="}, "redirectURL": "", "headersSize": 200, "bodySize": 204}, "cache": {}, "timings": {"blocked": 0, "dns": 0, "connect": 1, "ssl": 2, "send": 0, "wait": 3, "receive": 0}, "time": 6, "_securityState": "secure", "serverIPAddress": "192.0.2.1", "connection": "443", "pageref": "page_1"},
{"request": {"method": "GET", "url": "https://shop.example/blocked.js", "headers": []}, "response": {"status": 0, "statusText": "", "httpVersion": "", "headers": []}, "cache": {}, "timings": {}, "time": 0},
{"request": {"method": "GET", "url": "https://shop.example/pending", "headers": []}, "response": {}, "cache": {}, "timings": {}},
{"request": {"bodySize": 9, "method": "POST", "url": "https://shop.example/login", "httpVersion": "HTTP/2", "headers": [{"name": "Content-Type", "value": "application/x-www-form-urlencoded"}, {"name": "Content-Length", "value": "9"}], "postData": {"mimeType": "application/x-www-form-urlencoded", "params": [{"name": "q", "value": "{id}"}], "text": "q={id}&a="}}, "response": {"status": 302}}
]}}"#,
    "\u{feff}{\"log\": {\"version\": \"1.2\", \"creator\": {\"name\": \"WebKit Web Inspector\", \"version\": \"1.0\"}, \"pages\": [], \"entries\": [
{\"_fetchType\": \"Network Load\", \"request\": {\"method\": \"GET\", \"url\": \"https://shop.example/?q={{a}}&i={id}\", \"headers\": [{\"name\": \"Accept\", \"value\": null}], \"postData\": null}, \"response\": {\"status\": 200.0}},
{\"_fetchType\": \"Disk Cache\", \"request\": {\"method\": \"GET\", \"url\": \"https://shop.example/app.js\", \"headers\": []}, \"response\": {\"status\": 200}},
{\"_fetchType\": \"Memory Cache\", \"request\": {\"method\": \"GET\", \"url\": \"https://shop.example/app.css\", \"headers\": []}, \"response\": {\"status\": 200}},
{\"request\": {\"method\": \"GET\", \"url\": \"https://shop.example/gone\", \"headers\": []}, \"response\": {\"status\": null}},
{\"request\": {\"method\": \"POST\", \"url\": \"https://shop.example/none\", \"headers\": [], \"postData\": {\"mimeType\": \"\", \"text\": \"\"}}, \"response\": {\"status\": 200}},
{\"request\": {\"method\": \"POST\", \"url\": \"https://shop.example/form\", \"headers\": [], \"postData\": {\"mimeType\": \"multipart/form-data; boundary=x\", \"text\": \"--x {{name}}\"}}, \"response\": {\"status\": 200}},
{\"request\": {\"method\": \"POST\", \"url\": \"https://shop.example/text\", \"headers\": [], \"postData\": {\"mimeType\": \"multipart/form-data; boundary=x\", \"text\": \"--x {name}\"}}, \"response\": {\"status\": 200}},
{\"request\": {\"method\": \"POST\", \"url\": \"https://shop.example/bytes\", \"headers\": [], \"postData\": {\"mimeType\": \"image/png\", \"text\": \"iVBORw==\", \"encoding\": \"base64\"}}, \"response\": {\"status\": 200}}
]}}",
];

/// Requests that no server has seen or answered are left out, and texts in bodies are no placeholders.
#[test]
fn recordings_of_browsers_become_plans_with_what_they_sent() {
    let plans = BROWSERS.map(|har| {
        let har = file(".har", har);
        let mut command = Command::new(PROGRAM);
        let output = command.arg("import-har").arg(har.path()).output().unwrap();
        let [plan, notes] =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert_eq!(output.status.code(), Some(0), "{notes}");
        // The driver reads it.
        let plan_file = file(".toml", &plan);
        let mut command = Command::new(PROGRAM);
        let read = command
            .arg("--plan")
            .arg(plan_file.path())
            .arg("--print-plan")
            .output()
            .unwrap();
        assert!(
            read.status.success(),
            "{}",
            String::from_utf8_lossy(&read.stderr)
        );
        let plan: toml::Table = plan.parse().unwrap();
        let requests = plan["driver"]["requests"].as_array().unwrap().iter();
        let text = |request: &toml::Value, key: &str| {
            let value = request.get(key).and_then(toml::Value::as_str);
            value.unwrap_or("-").to_owned()
        };
        let requests = requests.map(|request| {
            let keys = ["name", "method", "path", "body"];
            keys.map(|key| text(request, key)).join(" ")
        });
        (
            requests.collect::<Vec<_>>(),
            notes,
            plan["targets"].to_string(),
        )
    });
    let [
        (chrome, notes, target),
        (firefox, none, _),
        (safari, all, _),
    ] = plans;
    assert_eq!(target, "[\"https://shop.example\"]");
    assert_eq!(
        chrome,
        [
            "root - /?a=1 -",
            r#"graphql POST /graphql {"query":"{user\u007bid}}"}"#,
            "upload POST /upload -",
        ]
    );
    let left_out = |cached, bodies| {
        format!(
            "left out: {cached} requests that the browser's cache answered, and the bodies of {bodies} requests, which are not text, have a placeholder of plans, or were not recorded: give each its body_file\n"
        )
    };
    assert_eq!(
        [notes, none, all],
        [left_out(1, 1), String::new(), left_out(2, 2)]
    );
    let expected = [
        "root - /?q=%7B%7Ba}}&i=%7Bid} -",
        "none POST /none -",
        "form POST /form -",
        "text POST /text --x {name}",
        "bytes POST /bytes -",
    ];
    assert_eq!(safari, expected);
    assert_eq!(firefox, ["root - / -", "login POST /login q=%7Bid}&a="]);
}

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
    let path = plan.path().to_str().unwrap();
    let ran = program(&["--plan", path, "-d", "300ms", "--warmup", "0s"]).run();
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
