//! Other databases that store the same issues.

use std::path::Path;

use harness_testing::program::Program;
use harness_testing::skip;

#[test]
fn other_databases_store_the_same_issues() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    for name in ["postgresql-issues", "redis-aof-issues", "etcd-issues"] {
        if let Err(missing) = subject::daemon::Daemon::check_tools(&root, name) {
            skip(missing);
            continue;
        }
        let program = Program::new(env!("CARGO_BIN_EXE_issue-stress"));
        let arguments = ["--daemon", name, "--agents", "4", "--ops", "25"];
        let run = program.args(arguments).run();
        assert_eq!(run.result.operations("ok"), 100, "{name}: {}", run.stdout);
        assert_eq!(run.result.values("create"), 100, "{name}");
        assert_eq!(run.result.values("sync"), 1_000, "{name}");
        run.result.counts(&[("created", 100)]);
    }
}
