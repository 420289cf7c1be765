//! `http-load`: load-tests an HTTP server and reports the results.

use std::process::ExitCode;

fn main() -> ExitCode {
    http_load::main(build_version::version!())
}
