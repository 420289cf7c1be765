//! Shards that other programs start: the examples of the documentation, with the launchers themselves.

use std::process::Command;

use harness_testing::divided::DividedRun;
use harness_testing::program::{beside, words};
use harness_testing::skip;

use crate::streaming::root;

/// The load of all shards.
const LOAD: &str = "--daemon http-daemon -R 300 -c 6 -d 2s --threads 1";

/// Runs three shards that a launcher starts, given the program and the arguments of all shards, and checks that their
/// loads make one.
fn launched_by(launcher: &str, package: &str, shards: impl Fn(&mut Command, &[String])) {
    if Command::new(launcher).arg("--version").output().is_err() {
        return skip(format!("{launcher}, of the package {package}"));
    }
    let Some([program]) = beside(env!("CARGO_BIN_EXE_drover"), ["http-load"]) else {
        return;
    };
    let mut run = DividedRun::new(&program);
    let mut daemon = run.part(&words(&format!("--role daemon {LOAD}")));
    daemon.current_dir(root());
    run.start_command(daemon);
    let (program, folder) = (program.display(), run.folder());
    let call = format!("{program} --quiet --result-dir {} {LOAD}", folder.display());
    let mut command = Command::new(launcher);
    command.current_dir(root());
    shards(&mut command, &words(&call));
    let output = command.output().unwrap();
    run.wait_for_results();
    let (merged, _, report) = run.merge();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert_eq!(merged["shards"].as_array().unwrap().len(), 3, "{problem}");
    let due = merged.operations("started") + merged.operations("missed");
    assert_eq!(due, 600, "{report}");
    assert!(merged.warning("ShardsMissing").is_none(), "{report}");
}

#[test]
fn gnu_parallel_starts_shards() {
    launched_by("parallel", "parallel", |command, arguments| {
        command.args(["--will-cite", "-j", "3"]).args(arguments);
        command.args(["--shard", "{}/3", ":::", "0", "1", "2"]);
    });
}

#[test]
fn ranks_of_mpi_are_shards() {
    launched_by("mpirun.mpich", "mpich", |command, arguments| {
        command.args(["-n", "3"]).args(arguments);
        command.args(["--shard", "auto"]);
    });
}
