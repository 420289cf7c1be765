//! `issue-stress`: stresses an issue daemon, and checks every answer.

use std::process::ExitCode;

fn main() -> ExitCode {
    harness::cli::main::<issue_stress::IssueStress>()
}
