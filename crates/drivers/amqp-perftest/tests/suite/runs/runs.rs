//! The program against a scripted broker: every message is accounted for, whatever happens.

mod calls;
mod churn;
mod confirms;
mod connections;
mod divided;
mod driver;
mod messages;
mod pace;

use harness_testing::program::Program;
use harness_testing::result::ResultFile;
use null_broker::{NullBroker, Script};

use super::ENGINE;
use crate::support;

/// Returns a call of the program on a broker.
fn program(uri: &str) -> Program {
    support::program(ENGINE, uri)
}

/// Runs the program on a broker with this script. Returns the exit code and the result, after checking that every
/// operation is accounted for.
fn run(script: Script, arguments: &str) -> (i32, ResultFile) {
    let broker = NullBroker::start(script).unwrap();
    let run = program(&broker.uri()).call(arguments).run();
    assert_ne!(run.code, 2, "{arguments:?}: {}", run.stderr);
    run.result.adds_up();
    (run.code, run.result)
}

/// Checks that nothing failed, which holds however busy the machine is.
fn nothing_failed(code: i32, result: &ResultFile) {
    assert!(code == 0 || code == 3, "{code}: {}", result["errors"]);
}
