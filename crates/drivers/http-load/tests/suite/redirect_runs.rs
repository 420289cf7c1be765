//! Redirects that the program follows, as its users see them.

use harness_testing::program::Program;
use serde_json::Value;

use crate::program::PROGRAM;
use crate::redirects::{by, to};
use crate::scripted::Scripted;
use crate::secure::{Secure, Spoken};
use crate::servers::{OK, url};

/// Builds a call of the program.
fn call(words: &[&str]) -> Program {
    Program::new(PROGRAM)
        .args(["-q", "-c", "2", "-t", "1", "-d", "200ms"])
        .args(["--warmup", "0s", "--timeout", "20s"])
        .args(words)
}

#[test]
fn each_of_several_servers_leads_to_itself() {
    for engine in ["wire", "hyper"] {
        let close = to(302, "/y").replace("Content-Length", "Connection: close\r\nContent-Length");
        let servers = [0, 1].map(|_| Scripted::start(by(&[("GET /y ", OK), ("", &close)])));
        let urls = servers.each_ref().map(url);
        let ran = call(&["--follow", "1", "--engine", engine, &urls[0], &urls[1]]).run();
        let failed = ran.result.operations("failed");
        assert_eq!(failed, 0, "{engine}: {} {}", ran.code, ran.stderr);
        for server in servers {
            let seen = server.seen();
            let led = seen
                .iter()
                .filter(|seen| seen.starts_with(b"GET /y "))
                .count();
            assert_eq!((led * 2, led > 1), (seen.len(), true), "{engine}");
        }
    }
}

/// The place that a redirect names replaces the path with its column. Over HTTP/1.1 and 2 alike, no row is skipped.
#[test]
fn a_redirect_of_a_path_from_a_row_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("rows.csv");
    std::fs::write(&rows, "user\na\nb\nc\n").unwrap();
    let server = Scripted::start(by(&[("GET /end ", OK), ("", &to(302, "/end"))]));
    let load = "-q -c 1 -n 6 --follow 1 --path /{{user}} --rows";
    let call = Program::new(PROGRAM)
        .call(load)
        .args([rows.to_str().unwrap(), &url(&server)]);
    let ran = call.run();
    assert_eq!(ran.result.operations("ok"), 6, "{}", ran.stderr);
    let seen = server.seen();
    let lines = seen.iter().map(|seen| seen[..7].to_vec());
    let lines = lines
        .filter(|line| line.ends_with(b" "))
        .map(|line| line[5]);
    let sent: Vec<u8> = lines.skip(1).collect();
    assert_eq!(sent, b"abcabc");
}

#[test]
fn the_check_before_the_run_follows_too_and_says_what_is_wrong() {
    for engine in ["wire", "hyper"] {
        let server = Scripted::start(by(&[
            ("GET /end", OK),
            ("GET /loop", &to(302, "/loop")),
            ("GET /other", &to(302, "http://other/")),
            ("GET /none", &OK.replace("200", "308")),
            ("", &to(302, "/end")),
        ]));
        let at = |path: &str| format!("http://{}{path}", server.address());
        let words = ["--follow", "2", "--engine", engine];
        let ran = call(&[&words[..], &[&at("/x")]].concat()).run();
        assert!(matches!(ran.code, 0 | 3), "{}", ran.stderr);
        assert_eq!(ran.result["answer"]["status"], 200);
        assert_eq!(ran.result["answer"]["length"], 5);
        for (path, parts) in [
            ("/loop", ["\"/loop\"", "more redirects than --follow"]),
            ("/other", ["\"http://other/\"", "drop --follow"]),
            ("/none", ["308", "no valid Location"]),
        ] {
            call(&[&words[..], &[&at(path)]].concat()).refused(2, &parts);
        }
    }
}

#[test]
fn redirects_are_followed_over_http2_and_tls() {
    for (spoken, words) in [
        (Spoken::Https, &["--http2"][..]),
        (Spoken::Https, &["--http2", "--streams", "4"]),
        (Spoken::Https, &["--http2", "--no-keep-alive"]),
        (Spoken::Http2, &["--http2", "-R", "200"]),
        (Spoken::Https1, &[]),
    ] {
        let server = Secure::start(spoken);
        let path = ["--tls-insecure", "--path", "/redirect/3", "--follow"];
        let url = server.url("localhost");
        let ran = call(&[words, &path, &["3", &url]].concat()).run();
        assert!(matches!(ran.code, 0 | 3), "{words:?}: {}", ran.stderr);
        let result = ran.result;
        let ok = result.operations("ok");
        assert!(ok > 0, "{words:?}: {result}");
        assert_eq!(result.operations("failed"), 0, "{words:?}");
        let counts = (result.count("redirects"), result.count("answers"));
        assert_eq!(counts, (3 * ok, 4 * ok), "{words:?}");
        // The check before the run makes twice four requests.
        assert_eq!(server.requests(), 4 * ok + 8, "{words:?}");
        call(&[words, &path, &["2", &url]].concat()).refused(2, &["more redirects than --follow"]);
    }
}

/// The daemon itself counts every hop.
#[test]
fn a_daemon_counts_as_many_requests_as_there_were_hops() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
    for engine in ["wire", "hyper"] {
        let mut program = Program::new(PROGRAM)
            .args(["-q", "-t", "1", "-c", "3", "-d", "300ms"])
            .args(["--daemon", "http-daemon", "--path", "/fault/redirect/3"])
            .args(["--follow", "3", "--expect-length", "1024"])
            .args(["--engine", engine]);
        program.command().current_dir(root);
        let result = program.run().result;
        let ok = result.operations("ok");
        assert!(ok > 0, "{engine}: {}", result["errors"]);
        let failed = result.operations("failed");
        assert_eq!(failed, 0, "{engine}: {}", result["errors"]);
        assert_eq!(result.count("redirects"), 3 * ok, "{engine}");
        let compared = result["facts"]["compared"].as_array().unwrap();
        assert!(!compared.is_empty(), "{}", result["facts"]);
        let agree = |row: &Value| row["driver"] == row["daemon"] && row["whole"] == true;
        assert!(compared.iter().all(agree), "{engine}: {compared:?}");
    }
}
