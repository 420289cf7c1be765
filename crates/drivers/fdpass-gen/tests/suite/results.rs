//! Results: what is in them, and where they are kept.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use harness_testing::assert_contains;
use harness_testing::program::words;
use harness_testing::result::{self, ResultFile};
use harness_testing::{peer, processes};
use nix::sys::signal::Signal;
use nix::sys::socket::SockType;

use crate::drive;
use crate::target::{Target, right};

#[test]
fn the_embedded_daemon_is_launched_and_the_result_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("output.json");
    let mut program = drive::program(folder.path());
    program
        .current_dir(drive::root())
        .args(words("--connections 30 --ramp-up 1s --full --output"))
        .arg(&output);
    let ran = program.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(
        matches!(ran.status.code(), Some(0 | 3)),
        "{said}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    assert_contains(
        &said,
        &[
            "rust-streaming",
            "handoff",
            "first_byte",
            "gap",
            "stream",
            "RSS peak",
            "CPU",
        ],
    );

    let keys = result::json(&output);
    assert_eq!(
        (
            keys["connections_started"].as_u64(),
            keys["connections_completed"].as_u64()
        ),
        (Some(30), Some(30))
    );
    assert_eq!(keys["bytes_received"], 30 * 1226);
    assert_eq!(keys["bytes_per_connection"], 1226.0);
    assert_eq!(keys["incomplete_responses"], 0);
    for key in [
        "handoff_latency_ms",
        "ttfb_latency_ms",
        "stream_duration_ms",
    ] {
        assert!(keys[key]["p99"].as_f64().unwrap() > 0.0, "{key}");
        assert!(keys[key]["p999"].as_f64().unwrap() > 0.0, "{key}");
    }
    let path = result::find(folder.path(), "result.json").expect("a result is kept");
    let result = ResultFile(result::json(&path));
    assert_eq!(*result, keys["result"]);
    let schema = result::json(&drive::root().join("bench-results/result.schema.json"));
    jsonschema::validate(&schema, &result).unwrap();
    assert!(result["usage"]["daemon"]["rss_peak_kb"].as_u64().unwrap() > 0);
    let looks = result["resources"].as_array().unwrap();
    assert!(looks.len() >= 2, "one a second, one at the end: {looks:?}");
    assert!(looks.is_sorted_by_key(|look| look["at_s"].as_f64()));
    assert!(looks.iter().all(|look| {
        let daemon = &look["daemon"];
        daemon["rss_kb"].as_u64().unwrap() > 0
            && look["active"].is_number()
            && look["backlog"].is_number()
    }));
    assert_eq!(
        result.warning("DebugBuild").is_some(),
        cfg!(debug_assertions)
    );
    // The daemon counts the same handoffs.
    assert_eq!(result.warning("CountsDisagree"), None);

    assert_eq!(result["lag"]["count"], 30, "how late each start was");

    let resources = std::fs::read_to_string(path.with_file_name("resources.csv")).unwrap();
    assert!(
        resources.starts_with("timestamp,rss_kb,vsz_kb,threads,utime,stime,cpu_pct,active_conns,"),
        "{resources}"
    );
    assert_eq!(resources.lines().count(), looks.len() + 1);
    let header: Vec<&str> = resources.lines().next().unwrap().split(',').collect();
    let last: Vec<&str> = resources.lines().last().unwrap().split(',').collect();
    assert_eq!(header.len(), last.len());
    let handoffs = header
        .iter()
        .position(|name| *name == "daemon_handoffs_total")
        .unwrap();
    assert_eq!(last[handoffs], "31", "30 and the check's");

    let page = std::fs::read_to_string(path.with_file_name("report.html")).unwrap();
    let links = page.split("<a class=\"file\" href=\"").skip(1);
    let files: Vec<&str> = links.filter_map(|link| link.split('"').next()).collect();
    assert!(
        files.starts_with(&["result.json", "resources.csv"]),
        "{files:?}"
    );
    for file in files {
        assert!(path.with_file_name(file).is_file(), "{file}");
    }
}

#[test]
fn several_processes_make_one_result_in_which_nothing_is_missing() {
    let target = Target::start(SockType::SeqPacket, |_| right(3));
    let (_, json) = drive::drive(
        target.folder(),
        target.path(),
        "--processes 3 --connections 100 --ramp-up 1500ms",
    );
    assert_eq!(target.stop(), 101);
    let result = ResultFile(json["result"].clone());
    assert_eq!(json["connections_completed"], 100);
    assert_eq!(result["processes"], 3);
    assert_eq!(result["counts"]["events"], 300);
    assert_eq!(result.values("first_byte"), 100);
    let started: u64 = result["seconds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|second| second["counts"]["started"].as_u64().unwrap_or(0))
        .sum();
    assert_eq!(started, 100, "the seconds add up to the whole");
}

/// Serves a page with the counter of a daemon, which is 7 at first, until the program ends; returns its port.
fn serve_page(handoffs: Arc<AtomicUsize>, too_many: usize) -> u16 {
    peer::serve_page(move |port, request| {
        let request = request.to_lowercase();
        let handoffs = handoffs.load(Ordering::Acquire);
        let wrong = if handoffs > 1 { too_many } else { 0 };
        let page = format!("daemon_handoffs_total {}\n", 7 + handoffs + wrong);
        // "me:se:cret" in base64: the URL's credentials are sent to the server, and its address is stored without them.
        let may = request.contains("authorization: basic bwu6c2u6y3jlda==")
            && request.contains(&format!("host: 127.0.0.1:{port}\r"));
        (if may { "200 OK" } else { "401 Unauthorized" }, page)
    })
}

#[test]
fn a_daemon_that_runs_already_has_a_name_and_its_counts_are_audited() {
    for too_many in [0, 1] {
        let target = Target::start(SockType::SeqPacket, |_| right(1));
        let port = serve_page(target.counter(), too_many);
        let url = format!("http://me:se%3Acret@127.0.0.1:{port}/metrics");
        let load = "--connections 20 --ramp-up 0s --name mine";
        let load = format!("{load} --daemon-metrics {url}");
        let (output, mut json) = drive::drive(target.folder(), target.path(), &load);
        let result = ResultFile(json["result"].take());
        assert_eq!(result["daemon"]["name"], "mine");
        let stored = format!("http://127.0.0.1:{port}/metrics");
        assert_eq!(result["daemon"]["metrics"][0], stored);
        let compared = &result["facts"]["compared"][0];
        assert_eq!(
            (&compared["driver"], &compared["daemon"]),
            (&20.into(), &(20 + too_many).into())
        );
        assert_eq!(result.warning("CountsDisagree").is_some(), too_many > 0);
        let path = result::find(target.folder(), "result.json").unwrap();
        assert!(path.components().any(|part| part.as_os_str() == "mine"));
        let whole = std::fs::read_to_string(path).unwrap();
        assert!(!whole.contains("cret"), "the password is not stored");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("cret"), "{said}");
    }
}

#[test]
fn a_metrics_page_that_turns_into_html_during_the_run_is_named() {
    let target = Target::start(SockType::SeqPacket, |_| right(1));
    let handoffs = target.counter();
    let port = peer::serve_page(move |_, _| {
        // The first handoff is the check before the load.
        let page = match handoffs.load(Ordering::Acquire) {
            before @ (0 | 1) => format!("daemon_handoffs_total {before}\n"),
            _ => "<html>\n<body>hello</body>\n</html>\n".to_owned(),
        };
        ("200 OK", page)
    });
    let url = format!("http://127.0.0.1:{port}/metrics");
    let load = "--connections 20 --ramp-up 0s";
    let load = format!("{load} --daemon-metrics {url}");
    let (_, mut json) = drive::drive(target.folder(), target.path(), &load);
    let result = ResultFile(json["result"].take());
    let unread = result.warning("CountersUnread").expect("it is named");
    assert_eq!(unread["severity"], "suspect");
    assert!(
        unread["message"].as_str().unwrap().contains(&url),
        "{unread}"
    );
}

#[test]
fn a_metrics_page_is_for_a_daemon_that_runs_already_and_a_name_is_no_path() {
    let url = "--daemon-metrics=http://127.0.0.1:1/";
    drive::refused(url, &["--daemon-metrics", "--socket"]);
    drive::refused("--name=../x", &["--name: `../x` is used as a folder name"]);
    for (option, part) in [
        ("--name=../x", "used as a folder name"),
        ("--daemon-metrics=https://me:secret@127.0.0.1/", "http://"),
        (
            "--daemon-metrics=http://me:secret@127.0.0.1:1/",
            "GET http://127.0.0.1:1/",
        ),
    ] {
        let message = drive::refused(&format!("--socket /nowhere {option}"), &[part]);
        assert!(!message.contains("secret"), "{message}");
    }
}

#[test]
fn where_neither_result_nor_output_can_be_written_both_are_named_and_the_result_is_kept_elsewhere()
{
    let target = Target::start(SockType::SeqPacket, |_| right(1));
    let mut program = drive::on(&target);
    let output = target.folder().join("output.json");
    program.args(words("--connections 1000 --ramp-up 50s --full --output"));
    let child = program
        .arg(&output)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    target.wait_for(25);
    std::fs::remove_dir_all(target.folder().join("results")).unwrap();
    std::fs::create_dir(&output).unwrap();
    processes::send(&child, Signal::SIGINT);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_contains(&said, &["result.json", "output.json", "drover-result-"]);
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("first_byte"), "{shown}");
    let (_, rest) = said.split_once("the result was saved to ").unwrap();
    let rescued = PathBuf::from(rest.split_once(" instead").unwrap().0);
    let started = &result::json(&rescued)["operations"]["started"];
    assert!(started.as_u64() > Some(20), "{started}");
    std::fs::remove_file(rescued).unwrap();
}
