//! The command `mock-llm`: parses options, handles signals, returns exit codes.

use std::io::{self, Write};

use anyhow::Context;
use clap::Parser;
use mock_llm::{Listener, Options, Server};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // Clap exits with 2 on invalid arguments.
    let options = Options::parse();
    let mut terminate = signal(SignalKind::terminate()).context("cannot watch SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot watch SIGINT")?;
    let listener = match &options.socket {
        Some(path) => Listener::unix(path)?,
        None => Listener::tcp(options.listen).await?,
    };
    // The parent may read the address; a closed stdout is no reason to stop.
    let _ = writeln!(io::stdout(), "listening on {}", listener.base());
    let shutdown = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    Server::new(options.settings).run(listener, shutdown).await;
    Ok(())
}
