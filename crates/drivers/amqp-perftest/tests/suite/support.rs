//! Calls of the program.

use harness_testing::program::Program;
use harness_testing::result::ResultFile;
use harness_testing::rows;

/// The path of the program.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_amqp-perftest");

/// The engines.
pub(crate) const ENGINES: [&str; 2] = ["wire", "lapin"];

/// Returns a call of the program on a broker, without progress.
pub(crate) fn program(engine: &str, uri: &str) -> Program {
    Program::new(PROGRAM).args(["--engine", engine, "--uri", uri, "--quiet"])
}

/// Checks that the calls of a table are refused before anything starts, with field and remedy.
#[track_caller]
pub(crate) fn refused(engine: &str, table: &str) {
    for (call, parts) in rows(table) {
        let program = program(engine, "amqp://127.0.0.1:1/").call(call);
        program.refused(2, &parts);
    }
}

/// Returns the duration of a run in seconds. Tests that a run ends early bound it by a part of the planned minutes, ten
/// times what it takes.
pub(crate) fn wall_s(result: &ResultFile) -> f64 {
    result["wall_s"].as_f64().unwrap()
}
