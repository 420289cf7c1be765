//! The command `presence-daemon`: options, signals, exit codes.

use std::process::ExitCode;

use anyhow::Context as _;
use daemon_kit::cli::{exit_code, parse_args, print_note};
use daemon_kit::{Signals, open_files};
use presence_daemon::{Config, Daemon, Options};
use tokio::runtime::Builder;

const NAME: &str = env!("CARGO_PKG_NAME");

fn main() -> ExitCode {
    let options: Options = match parse_args(build_version::version!()) {
        Ok(options) => options,
        Err(code) => return code,
    };
    exit_code(NAME, serve(options.config()))
}

fn serve(config: Config) -> anyhow::Result<()> {
    open_files::raise_limit()?;
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let ended = runtime.block_on(async {
        let mut signals = Signals::new()?;
        let daemon = Daemon::bind(config)?;
        print_note(NAME, format_args!("listening on {}", daemon.address()));
        if let Some(address) = daemon.metrics_address() {
            print_note(NAME, format_args!("metrics on {address}"));
        }
        let ended = signals.run_until_shutdown(|asked| daemon.run(asked)).await;
        ended.unwrap_or(Ok(()))
    });
    // After a second signal, the workers may still be serving.
    runtime.shutdown_background();
    ended
}
