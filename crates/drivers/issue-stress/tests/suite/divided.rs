//! A load that is divided over several programs. A database belongs to one daemon, so each has its own.

use std::path::Path;

use harness_testing::divided::DividedRun;
use harness_testing::program::ended_with;
use harness_testing::skip;

use crate::scenarios::CONTRADICTIONS;

const PROGRAM: &str = env!("CARGO_BIN_EXE_issue-stress");

#[test]
fn each_shard_compares_its_answers_with_the_database_of_its_own_daemon() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    if let Err(missing) = subject::daemon::Daemon::check_tools(&root, "issue-daemon") {
        return skip(missing);
    }
    let mut run = DividedRun::new(PROGRAM);
    let load = ["--scenario", "mixed-operations", "--threads", "2"];
    let own = ["--daemon", "issue-daemon", "--role", "both"];
    run.start_shards(2, &[&own[..], &load].concat());
    run.wait_for_results();
    let (merged, _, report) = run.merge();
    assert!(merged.operations("ok") >= 6 * 50, "{report}");
    merged.counts(&CONTRADICTIONS);
    let checked = [0, 1].map(|index| run.shard(index).count("history_operations"));
    assert!(
        checked.iter().all(|operations| *operations > 0),
        "{checked:?}"
    );
    assert_eq!(
        merged.count("history_operations"),
        checked.iter().sum::<u64>()
    );
    assert_eq!(merged["daemon"]["instances"], 2);
}

#[test]
fn one_database_for_several_shards_is_refused_with_the_remedy() {
    let run = DividedRun::new(PROGRAM);
    let mut part = run.part(&["--shard", "0/2", "--daemon", "issue-daemon"]);
    let output = part.output().unwrap();
    ended_with(&output, 2, &["--shard", "--role both"], &part);
}
