//! `http-load`: load-tests an HTTP server and reports the results.

use std::process::ExitCode;

fn main() -> ExitCode {
    harness::cli::main::<http_load::HttpLoad>()
}
