//! The presence service as the application of a server.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use anyhow::Context as _;
use daemon_kit::{MetricsPage, MetricsServer};
use socketio_server::{App, DisconnectReason, EchoApp, Event, Server, ServerConfig, Socket};
use tokio::sync::watch;

use crate::maintenance::Maintenance;
use crate::metrics::Metrics;
use crate::node::{ClusterSettings, Node};
use crate::presence::{Clock, Presence, Request, Session, Settings};

/// The configuration of a presence daemon.
#[derive(Debug, Clone)]
pub struct Config {
    /// The settings of the server.
    pub server: ServerConfig,
    /// The address for clients.
    pub listen: SocketAddr,
    /// The address of `/metrics` and `/healthz`; `None` if they are not served.
    pub metrics_addr: Option<SocketAddr>,
    /// The limits and times of the service.
    pub presence: Settings,
    /// Interval between two checks for silent members.
    pub reaper_interval: std::time::Duration,
    /// The Redis of several nodes.
    pub cluster: Option<ClusterSettings>,
    /// Serves an echo for the public test suites of the protocols, instead of presence.
    pub serves_echo: bool,
}

/// A presence daemon that is already listening.
#[derive(Debug)]
pub struct Daemon {
    server: Server,
    metrics: Metrics,
    maintenance: Maintenance,
    /// Becomes true once the first attempt to reach Redis has ended; `None` for a single node.
    has_tried: Option<watch::Receiver<bool>>,
}

impl Daemon {
    /// Listens, and starts the thread that removes silent members.
    ///
    /// # Errors
    /// An address can't be listened on or understood, or the system refuses a thread.
    pub fn bind(config: Config) -> anyhow::Result<Self> {
        let clock = Clock::new();
        let presence = Arc::new(match config.cluster {
            None => Presence::new(config.presence),
            Some(_) => Presence::with_cluster(config.presence),
        });
        let application: Arc<dyn App> = if config.serves_echo {
            Arc::new(EchoApp)
        } else {
            Arc::new(Application {
                presence: Arc::clone(&presence),
                clock,
            })
        };
        let node = config
            .cluster
            .map(|settings| Node::new(Arc::clone(&presence), settings, clock))
            .transpose()?;
        let bind_metrics =
            |address| MetricsServer::bind(address, "choose another address with --metrics-addr");
        let address = config.listen;
        let server = Server::bind(config.server, application, address).with_context(|| {
            let remedy = "choose another port with --port, or another address with --bind";
            format!("cannot listen on {address} ({remedy})")
        })?;
        Ok(Self {
            metrics: Metrics {
                server: config.metrics_addr.map(bind_metrics).transpose()?,
                page: MetricsPage::new(),
                transport: server.counts(),
                presence: Arc::clone(&presence),
                node: node.as_ref().map(Node::counts),
            },
            server,
            has_tried: node.as_ref().map(Node::has_tried),
            maintenance: Maintenance::start(presence, clock, config.reaper_interval, node)?,
        })
    }

    /// Returns the address for clients, with the port that the system chose if it was 0.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Returns the address of the metrics.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.server.as_ref()?.address().ok()
    }

    /// Serves until `shutdown` is ready; see [`Server::run`]. A node of several first tries to reach Redis, so that its
    /// first clients see the members of the other nodes.
    ///
    /// # Errors
    /// A worker failed.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> anyhow::Result<()> {
        let mut shutdown = pin!(shutdown);
        let tried = async {
            if let Some(mut has_tried) = self.has_tried {
                // An error means that the thread has ended: there is nothing to wait for.
                let _ = has_tried.wait_for(|tried| *tried).await;
            }
        };
        let ended = tokio::select! {
            () = tried => tokio::select! {
                ended = self.server.run(shutdown) => ended,
                failed = self.metrics.serve() => failed.map(|never| match never {}),
            },
            () = &mut shutdown => Ok(()),
        };
        self.maintenance.stop();
        ended
    }
}

/// The presence service behind the main namespace.
#[derive(Debug)]
struct Application {
    presence: Arc<Presence<Arc<Socket>>>,
    clock: Clock,
}

impl App for Application {
    fn event(&self, socket: &Arc<Socket>, event: Event<'_>) {
        let request = Request {
            name: event.name,
            arguments: event.arguments,
            ack: event.ack,
            is_binary: !event.attachments.is_empty(),
        };
        let session = socket.data::<Session<Arc<Socket>>>();
        self.presence
            .request(session, socket.id(), socket, request, self.clock.now_ms());
    }

    fn disconnect(&self, socket: &Arc<Socket>, reason: DisconnectReason) {
        let session = socket.data::<Session<Arc<Socket>>>();
        let is_broken = reason != DisconnectReason::Client;
        self.presence
            .disconnect(session, is_broken, self.clock.now_ms());
    }
}
