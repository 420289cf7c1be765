//! `http-load`: puts load on an HTTP server and says what came of it.

use std::process::ExitCode;

fn main() -> ExitCode {
    http_load::cli::main()
}
