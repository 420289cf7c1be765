//! A load that is divided over several programs. Descriptors cannot be passed to another machine, so each has a daemon of
//! its own.

use harness_testing::divided::DividedRun;
use harness_testing::program::{ended_with, words};

use crate::drive;

#[test]
fn each_shard_has_a_daemon_of_its_own_and_all_streams_are_accounted_for() {
    let mut run = DividedRun::new(env!("CARGO_BIN_EXE_fdpass-gen"));
    for shard in ["0/2", "1/2"] {
        let load = "--connections 31 --ramp-up 1s --threads 1";
        let mut part = run.part(&words(&format!("--shard {shard} --role both {load}")));
        part.current_dir(drive::root());
        run.start_command(part);
    }
    run.wait_for_results();
    let (merged, _, report) = run.merge();
    assert_eq!(merged.operations("started"), 31, "{report}");
    assert_eq!(merged.operations("ok"), 31, "{}", merged["errors"]);
    let shares = [run.shard(0), run.shard(1)].map(|shard| shard.operations("started"));
    assert_eq!(shares, [16, 15]);
    assert_eq!(merged["daemon"]["instances"], 2);
    assert!(
        merged.warning("CountsDisagree").is_none(),
        "{}",
        merged["warnings"]
    );
    let memory = |result: &harness_testing::result::ResultFile| {
        result["usage"]["daemon"]["rss_peak_kb"].as_u64().unwrap()
    };
    let each = memory(&run.shard(0)) + memory(&run.shard(1));
    assert_eq!(memory(&merged), each, "the memory of both daemons");
}

#[test]
fn a_socket_of_another_machine_is_refused_with_the_remedy() {
    let run = DividedRun::new(env!("CARGO_BIN_EXE_fdpass-gen"));
    std::fs::create_dir(run.folder()).unwrap();
    let elsewhere = r#"{
        "name": "rust-streaming",
        "target": { "addresses": [{ "Socket": "/run/daemon.sock" }] },
        "by": { "host": "another-machine", "processes": "", "pid": 1 }
    }"#;
    std::fs::write(run.folder().join("daemon.json"), elsewhere).unwrap();
    let mut part = run.part(&words("--shard 0/2 --connections 10"));
    let output = part.current_dir(drive::root()).output().unwrap();
    ended_with(&output, 1, &["another-machine", "--role both"], &part);
}
