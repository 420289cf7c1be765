//! Runs the daemons' own tests, each in the test runner of its language.
//!
//! A daemon whose toolchain is missing is reported and skipped; with `DROVER_REQUIRE_ALL=1` it fails.

use harness_testing::skip;
use subject::daemon::{Daemon, DaemonError};
use subject::manifest;

#[test]
fn every_daemon_passes_its_own_tests() {
    let root = manifest::find_root().unwrap();
    let failures: Vec<String> = manifest::list(&root)
        .unwrap()
        .into_iter()
        .filter(|(_, manifest)| !manifest.test.is_empty())
        .filter_map(|(name, manifest)| test(&root, &name, &manifest.serves[0]).err())
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn test(root: &manifest::Roots, name: &str, serves: &str) -> Result<(), String> {
    let tested = Daemon::prepare(root, name, serves, &mut |_| {}).and_then(|daemon| daemon.test());
    match tested {
        Ok(_) => Ok(()),
        Err(DaemonError::ToolMissing { tool, .. }) => {
            skip(format_args!("{tool}, for {name}"));
            Ok(())
        }
        Err(error) => Err(error.to_string()),
    }
}
