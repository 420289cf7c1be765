//! The daemon: its sockets, its shards, and its shutdown.

use std::convert::Infallible;
use std::future::pending;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use anyhow::{Context, bail};
use daemon_kit::activation::PassedSocket;
use daemon_kit::{MetricsPage, MetricsServer, RateLimitedLog, finish_within, open_files};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::accept_token::AcceptToken;
use crate::answer::Answer;
use crate::config::{Backend, Config};
use crate::listener::Listener;
use crate::metrics::{Metrics, Summary};
use crate::openai::{FILES_PER_STREAM, OpenAi};
use crate::shard::Shard;
use crate::shared::Shared;

/// Descriptors reserved for other purposes than streams: the standard ones, the runtime, the metrics page, handoffs
/// that are being read.
const RESERVED_FILES: u64 = 64;
/// Maximum number of clients that are closed with a delay.
const MAX_LINGERING: usize = 32;
/// Maximum lines per second of the log.
const LOG_LINES: u64 = 5;

/// A daemon that is already listening: a handoff sent now waits until [`Daemon::run`].
#[derive(Debug)]
pub struct Daemon {
    config: Config,
    listener: Listener,
    metrics: Option<MetricsServer>,
    shared: Arc<Shared>,
}

impl Daemon {
    /// Creates the handoff socket and the listener of the metrics page.
    ///
    /// # Errors
    /// A socket that could not be created, and why: a path in use, an address in use, no permission.
    pub fn bind(config: Config) -> anyhow::Result<Self> {
        Self::assemble(config, Listener::bind)
    }

    /// Like [`bind`](Self::bind), but with a socket that is already listening (see
    /// [`passed_socket`](daemon_kit::activation::passed_socket)). Path, mode, type and backlog are the socket's own; its file is not
    /// removed at the end.
    ///
    /// # Errors
    /// The errors of `bind` that concern the metrics.
    pub fn adopt(config: Config, socket: PassedSocket) -> anyhow::Result<Self> {
        Self::assemble(config, |_| Listener::adopt(socket))
    }

    fn assemble(
        config: Config,
        listen: impl FnOnce(&Config) -> anyhow::Result<Listener>,
    ) -> anyhow::Result<Self> {
        let open_files = open_files::limit()?;
        let room = open_files.saturating_sub(RESERVED_FILES);
        let (backend, files) = match &config.openai {
            None => (Backend::Mock, 1),
            Some(_) => (Backend::Openai, FILES_PER_STREAM),
        };
        let remedy = "choose another address with --metrics-addr or DAEMON_METRICS_ADDR, or disable them with \
            DAEMON_METRICS_ENABLED=false";
        let metrics = config
            .metrics_addr
            .map(|address| MetricsServer::bind(address, remedy));
        let metrics = metrics.transpose()?;
        let listener = listen(&config)?;
        let shared = Shared {
            answer: Answer::new(config.message_count, config.message_delay),
            openai: config.openai.clone().map(OpenAi::new).map(Arc::new),
            metrics: Arc::new(Metrics::new(backend)),
            accept_token: AcceptToken::new(config.workers.get()),
            log: RateLimitedLog::new("streaming-daemon", LOG_LINES),
            socket_type: listener.socket_type(),
            peers: config.peers.clone(),
            capacity: config.max_connections.min((room / files).max(1)),
            write_timeout: config.write_timeout,
            lingering: Semaphore::new(MAX_LINGERING),
        };
        open_files::preallocate_table((shared.capacity * files + RESERVED_FILES).min(open_files));
        Ok(Self {
            listener,
            config,
            metrics,
            shared: Arc::new(shared),
        })
    }

    /// Returns the metrics, which can be read while the daemon runs.
    #[must_use]
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.shared.metrics)
    }

    /// Returns the path of the handoff socket; `None` for a socket without a path.
    #[must_use]
    pub fn socket_path(&self) -> Option<PathBuf> {
        self.listener.path()
    }

    /// Returns the maximum number of open streams: the configured number, or the number that the limit of open files
    /// allows.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.shared.capacity
    }

    /// Serves until `shutdown` is ready. Then it refuses further handoffs, accepts those that wait in the accept queue,
    /// and lets streams finish for the grace period. Needs a Tokio runtime with I/O and time. Dropping the future
    /// closes everything at once.
    ///
    /// # Errors
    /// A shard failed, because of a broken runtime or a bug.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> anyhow::Result<Summary> {
        let (stop, stopping) = watch::channel(false);
        let mut shards = JoinSet::new();
        for index in 0..self.config.workers.get() {
            let shared = Arc::clone(&self.shared);
            let shard = Shard::new(index, shared, self.listener.share()?, stopping.clone())
                .context("cannot set up a shard")?;
            shards.spawn(shard.run());
        }
        // In this thread: in the runtime's threads, which use several heaps, memory for pages grows for hours.
        let mut pages = pin!(serve_pages(self.metrics, &self.shared, &self.listener));
        tokio::select! {
            () = shutdown => {}
            Some(ended) = shards.join_next() => {
                ended.context("a shard panicked")?.context("a shard failed")?;
                bail!("a shard ended unexpectedly");
            }
            failed = &mut pages => match failed? {},
        }
        self.listener.refuse_further();
        stop.send_replace(true);
        tokio::select! {
            _ = finish_within(&mut shards, self.config.shutdown_grace, drop) => {}
            failed = pages => match failed? {},
        }
        Ok(self.shared.metrics.summary())
    }
}

async fn serve_pages(
    server: Option<MetricsServer>,
    shared: &Shared,
    listener: &Listener,
) -> anyhow::Result<Infallible> {
    let Some(server) = server else {
        return pending().await;
    };
    let page = MetricsPage::new();
    let file = listener.file();
    server
        .serve(
            || shared.metrics.render(&page),
            || file.as_ref().and_then(|file| file.problem()),
        )
        .await
}
