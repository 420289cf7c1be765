//! The server: its listeners, its workers and its shutdown.

mod cors;
mod handshake;
mod heartbeats;
mod http;
mod late_end;
mod listener;
mod memory;
mod polling;
mod query;
mod refusal;
mod service;
mod thread;
mod websocket;
mod worker;

use std::future::pending;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use daemon_kit::{MetricsPage, MetricsServer};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::app::App;
use crate::config::ServerConfig;
use crate::engine::Engine;

/// A server that is already listening: clients that connect wait until [`Server::run`].
#[derive(Debug)]
pub struct Server {
    engine: Arc<Engine>,
    listeners: Vec<TcpListener>,
    address: SocketAddr,
    metrics: Option<MetricsServer>,
    page: MetricsPage,
}

impl Server {
    /// Listens for the clients of an application, and for scrapers of its metrics.
    ///
    /// # Errors
    /// An address can't be listened on, most often because it is in use.
    pub fn bind(
        config: ServerConfig,
        app: Arc<dyn App>,
        address: SocketAddr,
        metrics_address: Option<SocketAddr>,
    ) -> anyhow::Result<Self> {
        let (listeners, address) =
            listener::bind(address, config.workers.get(), config.silence_limit())?;
        let bind_metrics =
            |address| MetricsServer::bind(address, "choose another address with --metrics-addr");
        Ok(Self {
            engine: Engine::new(config, app),
            listeners,
            address,
            metrics: metrics_address.map(bind_metrics).transpose()?,
            page: MetricsPage::new(),
        })
    }

    /// Returns the address for clients, with the port that the system chose if it was 0.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of the metrics; `None` if they are not served.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref()?.address().ok()
    }

    /// Serves until `shutdown` is ready, then closes all connections in a way that makes clients connect again, and
    /// gives them the grace time to leave. Needs a Tokio runtime with I/O and time, and uses one of its blocking
    /// threads per worker.
    ///
    /// # Errors
    /// A worker failed.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> anyhow::Result<()> {
        let (stop, stopped) = watch::channel(false);
        let mut workers = JoinSet::new();
        for (index, listener) in self.listeners.into_iter().enumerate() {
            let (engine, stopped) = (Arc::clone(&self.engine), stopped.clone());
            workers.spawn_blocking(move || thread::run(index, engine, listener, stopped));
        }
        let (engine, page) = (&self.engine, &self.page);
        let metrics = async {
            match self.metrics {
                Some(server) => server.serve(|| render(engine, page)).await,
                None => pending().await,
            }
        };
        let all_ended = async {
            tokio::select! {
                () = shutdown => {}
                Some(ended) = workers.join_next() => {
                    stop.send_replace(true);
                    ended.context("a worker panicked")?.context("a worker failed")?;
                    bail!("a worker ended unexpectedly");
                }
            }
            stop.send_replace(true);
            while let Some(ended) = workers.join_next().await {
                ended
                    .context("a worker panicked")?
                    .context("a worker failed")?;
            }
            Ok(())
        };
        tokio::select! {
            ended = all_ended => ended,
            failed = metrics => failed.map(|never| match never {}),
            () = memory::watch(Arc::clone(&engine.counts)) => Ok(()),
        }
    }
}

fn render(engine: &Engine, page: &MetricsPage) -> String {
    engine.counts.set_on(page);
    engine.app.metrics(page);
    page.render()
}
