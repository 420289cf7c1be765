//! Runs the daemons' own tests, each in the test runner of its language.
//!
//! A daemon whose toolchain is missing is reported and skipped; with `DROVER_REQUIRE_ALL=1` it fails.

use harness_testing::skip;
use subject::daemon::{Daemon, DaemonError};
use subject::manifest;

/// Defines one test for each daemon, so that each has its own time limit.
macro_rules! own_tests {
    ($($test:ident: $daemon:literal,)+) => {
        const TESTED: &[&str] = &[$($daemon),+];
        $(
            #[test]
            fn $test() {
                passes_its_own_tests($daemon);
            }
        )+
    };
}

own_tests! {
    go_streaming_passes_its_own_tests: "go-streaming",
    node_presence_passes_its_own_tests: "node-presence",
    php_streaming_passes_its_own_tests: "php-streaming",
    python_presence_passes_its_own_tests: "python-presence",
    python_streaming_passes_its_own_tests: "python-streaming",
}

#[test]
fn every_daemon_that_has_tests_is_tested() {
    let root = manifest::find_root().unwrap();
    let manifests = manifest::list(&root).unwrap().into_iter();
    let with_tests = manifests.filter(|(_, manifest)| !manifest.test.is_empty());
    let names: Vec<String> = with_tests.map(|(name, _)| name).collect();
    assert_eq!(names, TESTED);
}

fn passes_its_own_tests(name: &str) {
    let root = manifest::find_root().unwrap();
    let manifests = manifest::list(&root).unwrap();
    let serves = &manifests
        .iter()
        .find(|(known, _)| known == name)
        .unwrap()
        .1
        .serves[0];
    let prepared = Daemon::prepare(&root, name, serves, &mut |_| {});
    match prepared.and_then(|daemon| daemon.test()) {
        Ok(_) => {}
        Err(DaemonError::ToolMissing { tool, .. }) => skip(format_args!("{tool}, for {name}")),
        Err(error) => panic!("{error}"),
    }
}
