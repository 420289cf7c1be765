//! `issue-stress`: stresses an issue daemon, and checks every answer.

use std::process::ExitCode;

fn main() -> ExitCode {
    issue_stress::main(build_version::version!())
}
