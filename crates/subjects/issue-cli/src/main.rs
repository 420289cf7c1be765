//! `issue`: creates, changes and reads issues from the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    issue_cli::main()
}
