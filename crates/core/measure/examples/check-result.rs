//! Checks result files against the published schema and for consistent figures.
//!
//! `cargo run -p measure --example check-result -- bench-results/*/*/*/*/*/result.json`

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program"
)]

use std::process::ExitCode;

use measure::result::{RunResult, schema};

fn main() -> ExitCode {
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        eprintln!("usage: check-result RESULT.json...");
        return ExitCode::from(2);
    }
    let broken = files.iter().filter(|file| !is_good(file)).count();
    if broken == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn is_good(file: &str) -> bool {
    match checked(file) {
        Ok(result) => {
            println!(
                "{file}: good, {} with {} operations",
                result.verdict, result.operations.started
            );
            true
        }
        Err(objections) => {
            objections
                .iter()
                .for_each(|objection| eprintln!("{file}: {objection}"));
            false
        }
    }
}

/// Returns the result, or its problems.
fn checked(file: &str) -> Result<RunResult, Vec<String>> {
    let text = std::fs::read_to_string(file).map_err(|error| vec![error.to_string()])?;
    let value = serde_json::from_str(&text).map_err(|error| vec![error.to_string()])?;
    let schema = serde_json::from_str(&schema()).expect("the schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("the schema is one");
    let unfit: Vec<String> = validator
        .iter_errors(&value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    if !unfit.is_empty() {
        return Err(unfit);
    }
    let result: RunResult =
        serde_json::from_value(value).map_err(|error| vec![error.to_string()])?;
    // What a schema cannot express.
    if !result.operations.add_up() {
        let text = "operations.started is not ok + failed + unfinished";
        return Err(vec![text.to_owned()]);
    }
    match result.check_intact() {
        Ok(()) => Ok(result),
        Err(damaged) => Err(vec![damaged.to_string()]),
    }
}
