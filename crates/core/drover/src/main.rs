//! Runs `drover`: many runs that answer one question.

use std::process::ExitCode;

fn main() -> ExitCode {
    drover::cli::main(build_version::version!())
}
