//! The command `broker-daemon`: options, signals, exit codes.

use std::process::ExitCode;

use anyhow::Context;
use broker_daemon::{Config, Options, Server};
use daemon_kit::cli::{exit_code, parse_args, print_note};
use daemon_kit::{Signals, open_files};
use tokio::runtime::Builder;
use tokio::task::LocalSet;
use tokio::time::Instant;

const NAME: &str = env!("CARGO_PKG_NAME");

/// Each message is two blocks. The default allocator needs a fifth of the time of a message to find and to free them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let options: Options = match parse_args(build_version::version!()) {
        Ok(options) => options,
        Err(code) => return code,
    };
    exit_code(NAME, serve(options.config()))
}

fn serve(config: Config) -> anyhow::Result<()> {
    let started = Instant::now();
    open_files::raise_limit()?;
    if config.data_dir.is_none() {
        print_note(
            NAME,
            "nothing is stored: set --data-dir (BROKER_DATA_DIR) for durable state",
        );
    }
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    LocalSet::new().block_on(&runtime, async {
        let mut signals = Signals::new()?;
        let server = Server::bind(config)?;
        for finding in &server.findings {
            print_note(NAME, finding);
        }
        if let Some(count) = server.recovered {
            let took = started.elapsed().as_secs_f64() * 1e3;
            print_note(
                NAME,
                format_args!("recovered {count} messages in {took:.1} ms"),
            );
        }
        print_note(NAME, format_args!("listening on {}", server.address()?));
        let ended = signals.run_until_shutdown(|asked| server.run(asked)).await;
        ended.unwrap_or(Ok(()))
    })
}
