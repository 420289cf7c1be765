//! The command `streaming-daemon`: parses options, handles signals, returns exit codes.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use daemon_kit::activation::{PassedSocket, passed_socket};
use daemon_kit::cli::{exit_code, parse_args, print_note, wrong_call};
use daemon_kit::{Signals, open_files};
use streaming_daemon::{Config, Daemon, Options, Summary};
use tokio::runtime::Builder;

const NAME: &str = env!("CARGO_PKG_NAME");

fn main() -> ExitCode {
    // Must come first: it takes descriptors by their numbers.
    let passed = match passed_socket() {
        Ok(passed) => passed,
        Err(error) => return wrong_call(NAME, &error),
    };
    let options: Options = match parse_args(build_version::version!()) {
        Ok(options) => options,
        Err(code) => return code,
    };
    let config = match options.config() {
        Ok(config) => config,
        Err(error) => return wrong_call(NAME, &error),
    };
    match serve(config, passed) {
        Ok(summary) if options.benchmark => print(summary),
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => exit_code(NAME, Err(error)),
    }
}

fn serve(config: Config, passed: Option<PassedSocket>) -> anyhow::Result<Summary> {
    open_files::raise_limit()?;
    let workers = config.workers.get();
    let wanted = config.max_connections;
    let runtime = Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .context("cannot start the Tokio runtime")?;
    runtime.block_on(async {
        let mut signals = Signals::new()?;
        let daemon = make(config, passed)?;
        if daemon.capacity() < wanted {
            let capacity = daemon.capacity();
            print_note(NAME, format_args!(
                "the limit of open files allows only {capacity} streams; for more, raise it (ulimit -Hn)"
            ));
        }
        let metrics = daemon.metrics();
        let summary = signals
            .run_until_shutdown(|asked| daemon.run(asked))
            .await;
        summary.unwrap_or_else(|| Ok(metrics.summary()))
    })
}

fn make(config: Config, passed: Option<PassedSocket>) -> anyhow::Result<Daemon> {
    let Some(socket) = passed else {
        return Daemon::bind(config);
    };
    let daemon = Daemon::adopt(config, socket)?;
    let path = daemon.socket_path().unwrap_or_default();
    print_note(
        NAME,
        format_args!(
            "listening on the passed socket {}; the socket options are ignored",
            path.display()
        ),
    );
    Ok(daemon)
}

fn print(summary: Summary) -> ExitCode {
    let Summary {
        peak_concurrent,
        started,
        completed,
        failed,
        bytes,
    } = summary;
    let lines = format!(
        "peak concurrent: {peak_concurrent}\nstarted: {started}\ncompleted: {completed}\n\
        failed: {failed}\nbytes: {bytes}\n"
    );
    match io::stdout().write_all(lines.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
