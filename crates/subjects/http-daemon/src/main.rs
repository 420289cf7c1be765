//! The command `http-daemon`: parses options and returns exit codes.

use std::process::ExitCode;
use std::sync::Arc;

use daemon_kit::StderrLines;
use daemon_kit::cli::{exit_code, parse_args, wrong_call};
use http_daemon::Options;

const NAME: &str = env!("CARGO_PKG_NAME");

/// An idle connection is a few small blocks, whose alignment costs the default allocator a third more.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let options: Options = match parse_args(build_version::version!()) {
        Ok(options) => options,
        Err(code) => return code,
    };
    let config = match options.config() {
        Ok(config) => config,
        Err(error) => return wrong_call(NAME, &error),
    };
    tracing_subscriber::fmt()
        .with_writer(Arc::new(StderrLines::default()))
        // Only this daemon's messages, not its libraries'.
        .with_env_filter(format!("http_daemon={:?}", config.log_level()))
        .init();
    exit_code(NAME, http_daemon::run(config))
}
