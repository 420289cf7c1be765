//! A run of several programs against a server that one of them launches.

use std::path::Path;

use harness_testing::divided::DividedRun;
use harness_testing::program::words;

/// Starts a part in the project, whose daemons are launched.
fn start(run: &mut DividedRun, call: &str) {
    let mut part = run.part(&words(call));
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    part.current_dir(own.ancestors().nth(3).unwrap());
    run.start_command(part);
}

#[test]
fn shards_find_the_launched_server_and_begin_the_load_together_once_all_have_joined() {
    let mut run = DividedRun::new(env!("CARGO_BIN_EXE_presence-load"));
    let load = "--rooms 6 --users-per-room 2 --heartbeats-per-sec 1 --duration 3s --ramp-up 300ms --threads 1";
    for shard in ["0/3", "1/3", "2/3"] {
        start(&mut run, &format!("--shard {shard} {load}"));
    }
    start(
        &mut run,
        &format!("--role daemon --listen 127.0.0.5 {load}"),
    );
    run.wait_for_results();
    for name in ["daemon.json", "load", "open-2", "daemon/daemon.log"] {
        assert!(run.folder().join(name).exists(), "{name}");
    }
    let published = std::fs::read_to_string(run.folder().join("daemon.json")).unwrap();
    assert!(published.contains("http://127.0.0.5:"), "{published}");
    let (merged, _, report) = run.merge();
    assert_eq!(merged["shards"].as_array().unwrap().len(), 3, "{report}");
    // Every room has two users, and every heartbeat reaches both.
    assert_eq!(merged.operations("failed"), 0, "{}", merged["errors"]);
    for kind in ["CountsDisagree", "ShardsMissing", "WorkersFailed"] {
        assert!(merged.warning(kind).is_none(), "{}", merged["warnings"]);
    }
    let opening = &merged["facts"]["opening"];
    assert_eq!(opening["complete"], true, "{opening}");
    assert!(merged["usage"]["daemon"]["rss_peak_kb"].as_u64().unwrap() > 0);
    // The server counted what all shards together sent.
    let compared = merged["facts"]["compared"].as_array().unwrap();
    assert!(!compared.is_empty(), "{}", merged["facts"]);
    for counter in compared {
        assert_eq!(counter["driver"], counter["daemon"], "{counter}");
    }
}
