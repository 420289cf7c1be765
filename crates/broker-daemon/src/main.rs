//! The command `broker-daemon`: options, signals, exit codes.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use broker_daemon::{Config, Options, Server, name_variable, raise_open_files};
use clap::Parser;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::LocalSet;
use tokio::time::Instant;

/// The call was wrong, as opposed to 1: what was called went wrong.
const WRONG_CALL: u8 = 2;

fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) if error.use_stderr() => {
            let _ = write!(io::stderr(), "{}", name_variable(&error));
            return ExitCode::from(WRONG_CALL);
        }
        // --help and --version.
        Err(error) => error.exit(),
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
        complain("nothing is stored, since there is no --data-dir (BROKER_DATA_DIR)");
    }
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    LocalSet::new().block_on(&runtime, async {
        let mut signals = Signals::new()?;
        let server = Server::bind(config)?;
        if let Some(count) = server.recovered() {
            let took = started.elapsed().as_secs_f64() * 1e3;
            complain(&format!("recovered {count} messages in {took:.1} ms"));
        }
        complain(&format!("listening on {}", server.address()?));
        run(server, &mut signals).await
    })
}

/// Runs until a signal asks for the end, and to the end, unless a second one is impatient.
async fn run(server: Server, signals: &mut Signals) -> anyhow::Result<()> {
    let (ask, asked) = oneshot::channel();
    let mut ask = Some(ask);
    let running = server.run(async {
        // An error means that the sender is gone, and with it whoever could ask.
        let _ = asked.await;
    });
    tokio::pin!(running);
    loop {
        tokio::select! {
            ended = &mut running => return ended,
            () = signals.next() => match ask.take() {
                Some(ask) => drop(ask.send(())),
                None => return Ok(()),
            },
        }
    }
}

/// SIGTERM and SIGINT, which mean the same here.
#[derive(Debug)]
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("watching SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("watching SIGINT")?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

fn complain(message: &str) {
    // Nothing can be done about a stderr that is gone.
    let _ = writeln!(io::stderr(), "broker-daemon: {message}");
}
