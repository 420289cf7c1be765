//! The command `streaming-daemon`: options, signals, exit codes.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use streaming_daemon::{
    Config, Daemon, Options, PassedSocket, Summary, name_variable, passed_socket, raise_open_files,
};
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// The call was wrong, as opposed to 1: what was called went wrong.
const WRONG_CALL: u8 = 2;

fn main() -> ExitCode {
    // First of all: it takes descriptors by their numbers.
    let passed = match passed_socket() {
        Ok(passed) => passed,
        Err(error) => return wrong_call(&error),
    };
    let (options, config) = match parse() {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    match serve(config, passed) {
        Ok(summary) if options.benchmark => print(summary),
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn parse() -> Result<(Options, Config), ExitCode> {
    let options = Options::try_parse().map_err(|error| match error.use_stderr() {
        true => {
            let _ = write!(io::stderr(), "{}", name_variable(&error));
            ExitCode::from(WRONG_CALL)
        }
        // --help and --version.
        false => error.exit(),
    })?;
    let config = options.config().map_err(|error| wrong_call(&error))?;
    Ok((options, config))
}

fn serve(config: Config, passed: Option<PassedSocket>) -> anyhow::Result<Summary> {
    raise_open_files()?;
    let workers = config.workers.get();
    let wanted = config.max_connections;
    let runtime = Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .context("starting the runtime")?;
    runtime.block_on(async {
        let mut signals = Signals::new()?;
        let daemon = make(config, passed)?;
        if daemon.capacity() < wanted {
            let capacity = daemon.capacity();
            complain(&format!(
                "the limit of open files leaves room for {capacity} streams"
            ));
        }
        run(daemon, &mut signals).await
    })
}

fn make(config: Config, passed: Option<PassedSocket>) -> anyhow::Result<Daemon> {
    let Some(socket) = passed else {
        return Daemon::bind(config);
    };
    let daemon = Daemon::adopt(config, socket)?;
    let path = daemon.socket_path().unwrap_or_default();
    complain(&format!(
        "listening on the socket that was passed, {}; the options about the socket are not used",
        path.display()
    ));
    Ok(daemon)
}

/// Runs until a signal asks for the end, and to the end, unless a second one is impatient.
async fn run(daemon: Daemon, signals: &mut Signals) -> anyhow::Result<Summary> {
    let metrics = daemon.metrics();
    let (ask, asked) = oneshot::channel();
    let mut ask = Some(ask);
    let running = daemon.run(async {
        // An error means that the sender is gone, and with it whoever could ask.
        let _ = asked.await;
    });
    tokio::pin!(running);
    loop {
        tokio::select! {
            summary = &mut running => return summary,
            () = signals.next() => match ask.take() {
                Some(ask) => drop(ask.send(())),
                None => return Ok(metrics.summary()),
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

fn wrong_call(message: &str) -> ExitCode {
    complain(message);
    ExitCode::from(WRONG_CALL)
}

fn complain(message: &str) {
    // Nothing can be done about a stderr that is gone.
    let _ = writeln!(io::stderr(), "streaming-daemon: {message}");
}
