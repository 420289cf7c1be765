//! The thread of a worker: it runs the worker's Tokio runtime and accepts its connections.

use std::net;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::Context as _;
use daemon_kit::accept;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::watch;
use tokio::task::spawn_local;
use tokio::time::timeout;

use crate::counts::{Count, Counts};
use crate::engine::batch;
use crate::server::polled::PolledSessions;
use crate::server::worker::{Open, Worker};
use crate::server::{http, pings};
use crate::session::engine::Engine;

/// Serves on the calling thread until `stop` becomes true, then until the clients have left or the grace time ends.
pub(crate) fn run(
    index: usize,
    engine: Arc<Engine>,
    polled: Arc<PolledSessions>,
    listener: net::TcpListener,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    Counts::use_block(index);
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .context("cannot start a Tokio runtime")?;
    let worker = Rc::new(Worker::new(engine, polled, stop));
    runtime.block_on(serve(&worker, listener))
}

async fn serve(worker: &Rc<Worker>, listener: net::TcpListener) -> anyhow::Result<()> {
    let listener = TcpListener::from_std(listener).context("cannot watch a listener")?;
    spawn_local(batch::write_batches());
    tokio::select! {
        () = accept_all(worker, &listener) => {}
        failed = pings::run(worker) => match failed.context("the timer of the pings failed")? {},
        () = worker.stopped() => {}
    }
    drop(listener);
    worker.shut_down_sessions();
    // Connections that are still open after the grace time are closed with the runtime.
    let _ = timeout(worker.engine.config.shutdown_grace, worker.all_ended()).await;
    Ok(())
}

async fn accept_all(worker: &Rc<Worker>, listener: &TcpListener) {
    let counts = &worker.engine.counts;
    loop {
        let (stream, _) = accept(listener, |_| counts.add(Count::AcceptErrors, 1)).await;
        counts.add(Count::Accepted, 1);
        let connection = http::serve(Rc::clone(worker), stream, Open::new(worker));
        spawn_local(connection);
    }
}
