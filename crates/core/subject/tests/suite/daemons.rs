//! Runs the daemons' own tests, each in the test runner of its language.
//!
//! A daemon whose toolchain is missing is reported and skipped; with `DROVER_REQUIRE_ALL=1` it fails.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

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

/// Uses a `python3` that only records its arguments, so that nothing is installed.
#[test]
fn python_packages_are_installed_when_the_requirements_change_and_only_then() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["package", "other", "venv/bin"] {
        fs::create_dir_all(path(name)).unwrap();
    }
    for (name, script) in [
        ("python3", "#!/bin/sh\necho \"$2\" >>log\n"),
        (
            "venv/bin/python",
            "#!/bin/sh\ncase $1 in -I) cat sources ;; *) echo \"$2\" >>log ;; esac\n",
        ),
    ] {
        fs::write(path(name), script).unwrap();
        fs::set_permissions(path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let roots = manifest::find_root().unwrap();
    let script = roots
        .iter()
        .next()
        .unwrap()
        .path
        .join("daemons/python-venv");
    let installs = |requirements: &str, sources: &str| {
        fs::write(path("pyproject.toml"), requirements).unwrap();
        fs::write(path("sources"), sources).unwrap();
        fs::write(path("log"), "").unwrap();
        let search = format!("{}:/usr/bin:/bin", folder.path().display());
        let status = Command::new(&script)
            .args(["venv", "package"])
            .current_dir(folder.path())
            .env("PATH", search)
            .status();
        assert!(status.unwrap().success());
        fs::read_to_string(path("log")).unwrap()
    };
    let both = "venv\npip\n";
    assert_eq!(installs("one", "package"), both);
    assert_eq!(installs("one", "package"), "");
    assert_eq!(installs("two", "package"), both);
    assert_eq!(installs("two", "other"), both);
}
