//! Event streams of every daemon of the project that answers with them, behind a front or by itself.

use std::thread;

use harness_testing::daemons;
use subject::manifest;

use crate::program::{adds_up, program};

/// A request that each of them accepts.
const BODY: &str = r#"{"model":"mock","messages":[],"stream":true,"stream_options":{"include_usage":true},"prompt":"p","user_id":1}"#;

/// Lets four clients ask for a stream each.
fn asks(name: &str) {
    let Some(daemon) = daemons::prepared(name, "events") else {
        return;
    };
    let streams = [
        "--events", "-X", "POST", "--body", BODY, "-c", "4", "-n", "4",
    ];
    let ran = program(&streams).args(["--daemon", name]).run();
    adds_up(&ran, None);
    let result = &ran.result;
    assert_eq!(result.operations("ok"), 4, "{name}: {}", result["errors"]);
    for series in ["first_event", "first_content", "response"] {
        assert_eq!(result.values(series), 4, "{name}: {series}");
        assert!(
            ran.stdout.contains(&format!("{series} p50")),
            "{name}: {}",
            ran.stdout
        );
    }
    assert!(ran.stdout.contains("gap p50"), "{name}: {}", ran.stdout);
    let version = result["daemon"]["version"].as_str().unwrap();
    let is_behind = daemon.manifest().behind.is_some();
    assert_eq!(
        version.contains(", behind null-peer "),
        is_behind,
        "{name}: {version}"
    );
    // The front and the daemon behind it are measured as one.
    let processes = &result["usage"]["daemon"]["processes_peak"];
    let least = 1 + u64::from(is_behind);
    assert!(processes.as_u64() >= Some(least), "{name}: {processes}");
    assert_eq!(result["services"].as_array().map_or(0, Vec::len), 0);
}

#[test]
fn every_daemon_that_answers_with_event_streams_is_measured() {
    let all = manifest::list(manifest::find_root().unwrap()).unwrap();
    let serves = |manifest: &manifest::Manifest| manifest.serves.iter().any(|it| it == "events");
    let names = all.iter().filter(|(_, manifest)| serves(manifest));
    let names: Vec<&str> = names.map(|(name, _)| name.as_str()).collect();
    assert!(names.len() >= 5, "{names:?}");
    thread::scope(|scope| {
        for name in names {
            scope.spawn(move || asks(name));
        }
    });
}
