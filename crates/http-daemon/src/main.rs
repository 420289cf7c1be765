//! The command `http-daemon`: parses options and returns exit codes.

use std::io::{self, Write as _};
use std::process::ExitCode;

use daemon_kit::WRONG_CALL;
use http_daemon::Options;

fn main() -> ExitCode {
    let options: Options = match daemon_kit::options() {
        Ok(options) => options,
        Err(code) => return code,
    };
    let config = match options.config() {
        Ok(config) => config,
        Err(error) => return complain(&error, ExitCode::from(WRONG_CALL)),
    };
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        // Only this daemon's messages, not those of its libraries.
        .with_env_filter(format!(
            "http_daemon={}",
            tracing::Level::from(config.level)
        ))
        .init();
    match http_daemon::run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&format!("{error:#}"), ExitCode::FAILURE),
    }
}

fn complain(message: &str, code: ExitCode) -> ExitCode {
    // A closed stderr cannot be handled.
    let _ = writeln!(io::stderr(), "http-daemon: {message}");
    code
}
