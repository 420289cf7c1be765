//! Calls of the program, and checks of a completed run.

use std::process::Command;

use harness_testing::program::{CompletedRun, Program};
use harness_testing::result::ResultFile;
use serde_json::Value;

/// The path of the program.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_http-load");

/// Longer than any run here takes on a busy machine, in seconds: after it, the program hangs.
const HANGS: &str = "120";

/// Builds a call of the program, which is killed (exit code 137) if it hangs.
pub(crate) fn program(arguments: &[&str]) -> Program {
    let mut command = Command::new("timeout");
    command.args(["--foreground", "-s", "KILL", HANGS]);
    command.args([PROGRAM, "--quiet"]).args(arguments);
    Program::from_command(command)
}

/// Builds a call of the program with this limit of open files per process.
pub(crate) fn with_files(files: u64, arguments: &[&str]) -> Program {
    let limited = format!("ulimit -n {files} && exec \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &limited, "sh", "timeout", "-s", "KILL", HANGS]);
    command.args([PROGRAM, "--quiet"]).args(arguments);
    Program::from_command(command)
}

/// Writes a plan of one closed group, with lines for its `[driver]` table and its top level.
pub(crate) fn plan(top: &str, driver: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = format!(
        "name = \"test\"\n{top}\n[timeline]\nmeasure = \"1s\"\ndrain = \"200ms\"\n\
         [[groups]]\nname = \"users\"\nclients = 2\n[driver]\n{driver}\n"
    );
    std::fs::write(&file, text).unwrap();
    file
}

/// Checks that every request is accounted for; in an open loop, every one that was due.
#[track_caller]
pub(crate) fn adds_up(ran: &CompletedRun, due: Option<u64>) {
    let errors = ran.result["errors"].as_object().unwrap();
    let errors: u64 = errors.values().filter_map(Value::as_u64).sum();
    let of = |name: &str| ran.result.operations(name);
    let all = format!("{} {}", ran.result["operations"], ran.result["errors"]);
    assert_eq!(of("started"), of("ok") + errors + of("unfinished"), "{all}");
    assert_eq!(of("failed"), errors, "{all}");
    match due {
        Some(due) => assert_eq!(due, of("started") + of("missed"), "{all}"),
        None => assert_eq!(of("missed"), 0, "{all}"),
    }
    let has = |kind: &str| ran.result.warning(kind).is_some();
    assert!(
        !has("CountsDisagree") && !has("WorkersFailed"),
        "{}",
        ran.result["warnings"]
    );
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
}

/// Returns the number of started operations, of successful ones, and of connections.
pub(crate) fn sums(result: &ResultFile) -> (u64, u64, u64) {
    let of = |name: &str| result.operations(name);
    (of("started"), of("ok"), result.count("opened"))
}

/// Returns the number of started requests, of this many due ones: a busy machine may have missed the others. All started
/// requests succeeded.
#[track_caller]
pub(crate) fn started_of(result: &ResultFile, due: u64) -> u64 {
    let of = |name: &str| result.operations(name);
    let (started, all) = (of("started"), &result["operations"]);
    assert_eq!(started + of("missed"), due, "{all}");
    assert_eq!(of("ok"), started, "{all}: {}", result["errors"]);
    assert!(started > 0, "{all}");
    started
}

/// Runs a load to its end.
pub(crate) fn run(arguments: &[&str]) -> ResultFile {
    program(arguments).run().result
}

/// Runs a plan of one group, with these settings and this limit of open files per process. Its operations are numbered,
/// and it ends when they have ended: however busy the machine is, none is missed.
pub(crate) fn run_plan(
    files: Option<u64>,
    group: &str,
    driver: &str,
    arguments: &[&str],
) -> ResultFile {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.toml");
    let plan = format!(
        "name = \"test\"\n[timeline]\nwarmup = \"1s\"\nmeasure = \"60s\"\ndrain = \"31s\"\n\
         [[groups]]\nname = \"all\"\n{group}\n[driver]\n{driver}\n"
    );
    std::fs::write(&path, plan).unwrap();
    let arguments = [&["--plan", path.to_str().unwrap()], arguments].concat();
    let call = match files {
        Some(files) => with_files(files, &arguments),
        None => program(&arguments),
    };
    call.run().result
}

/// Runs clients with this many requests each; all requests count.
pub(crate) fn run_users(users: u64, ops: u64, driver: &str, arguments: &[&str]) -> ResultFile {
    let group = format!("clients = {users}\nops = {ops}");
    let at_once = [&["--set", "timeline.warmup=0s"], arguments].concat();
    run_plan(None, &group, driver, &at_once)
}
