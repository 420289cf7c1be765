//! The command `broker-daemon`: options, signals, exit codes.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use broker_daemon::{Config, Options, Server, raise_open_files};
use daemon_kit::Signals;
use tokio::runtime::Builder;
use tokio::task::LocalSet;
use tokio::time::Instant;

fn main() -> ExitCode {
    let options: Options = match daemon_kit::options() {
        Ok(options) => options,
        Err(code) => return code,
    };
    match serve(options.config()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn serve(config: Config) -> anyhow::Result<()> {
    let started = Instant::now();
    raise_open_files()?;
    if config.data_dir.is_none() {
        complain("nothing is stored: set --data-dir (BROKER_DATA_DIR) for durable state");
    }
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    LocalSet::new().block_on(&runtime, async {
        let mut signals = Signals::new()?;
        let server = Server::bind(config)?;
        for finding in server.findings() {
            complain(finding);
        }
        if let Some(count) = server.recovered() {
            let took = started.elapsed().as_secs_f64() * 1e3;
            complain(&format!("recovered {count} messages in {took:.1} ms"));
        }
        complain(&format!("listening on {}", server.address()?));
        let ended = signals.run(|asked| server.run(asked)).await;
        ended.unwrap_or(Ok(()))
    })
}

fn complain(message: &str) {
    // An error of stderr cannot be reported anywhere.
    let _ = writeln!(io::stderr(), "broker-daemon: {message}");
}
