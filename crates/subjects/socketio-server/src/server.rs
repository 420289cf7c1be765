//! The server: its listeners, its workers and its shutdown.

mod cors;
mod handshake;
mod heartbeats;
mod http;
mod late_end;
mod listener;
mod memory;
mod pings;
mod polled;
mod polling;
mod query;
mod refusal;
mod service;
#[cfg(test)]
mod simulated_peers;
mod slots;
mod thread;
mod websocket;
mod worker;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::app::App;
use crate::config::ServerConfig;
use crate::counts::Counts;
use crate::server::polled::PolledSessions;
use crate::session::engine::Engine;

/// A server that is already listening: clients that connect wait until [`Server::run`].
#[derive(Debug)]
pub struct Server {
    engine: Arc<Engine>,
    listeners: Vec<TcpListener>,
    address: SocketAddr,
}

impl Server {
    /// Listens for the clients of an application; port 0 takes a free one.
    ///
    /// # Errors
    /// The address can't be listened on, most often because it is in use.
    pub fn bind(config: ServerConfig, app: Arc<dyn App>, address: SocketAddr) -> io::Result<Self> {
        let (listeners, address) =
            listener::bind(address, config.workers.get(), config.silence_limit())?;
        Ok(Self {
            engine: Engine::new(config, app),
            listeners,
            address,
        })
    }

    /// Returns the address for clients, with the port that the system chose if it was 0.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the counters, which may be read while the server runs and afterwards.
    #[must_use]
    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.engine.counts)
    }

    /// Serves until `shutdown` is ready, then closes all connections in a way that makes clients connect again, and
    /// gives them the grace time to leave. Needs a Tokio runtime with I/O and time, and uses one of its blocking
    /// threads per worker.
    ///
    /// # Errors
    /// A worker failed.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> anyhow::Result<()> {
        let (stop, stopped) = watch::channel(false);
        let polled = Arc::<PolledSessions>::default();
        let mut workers = JoinSet::new();
        for (index, listener) in self.listeners.into_iter().enumerate() {
            let (engine, polled) = (Arc::clone(&self.engine), Arc::clone(&polled));
            let stopped = stopped.clone();
            workers.spawn_blocking(move || thread::run(index, engine, polled, listener, stopped));
        }
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
            () = memory::watch(Arc::clone(&self.engine.counts)) => Ok(()),
        }
    }
}
