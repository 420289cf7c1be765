//! The presence service as the application of a server.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use daemon_kit::MetricsPage;
use serde_json::value::RawValue;
use tokio::sync::watch;

use crate::app::{App, DisconnectReason, Event};
use crate::cluster::{ClusterSettings, Counts, Node};
use crate::config::ServerConfig;
use crate::echo::EchoApp;
use crate::maintenance::Maintenance;
use crate::presence::{Clock, Presence, Request, Session, Settings};
use crate::server::Server;
use crate::socket::Socket;

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
        let counts = config.cluster.is_some().then(Arc::<Counts>::default);
        let application: Arc<dyn App> = if config.serves_echo {
            Arc::new(EchoApp)
        } else {
            Arc::new(Application {
                presence: Arc::clone(&presence),
                clock,
                counts: counts.clone(),
            })
        };
        let node = match config.cluster.zip(counts) {
            None => None,
            Some((settings, counts)) => {
                Some(Node::new(Arc::clone(&presence), counts, settings, clock)?)
            }
        };
        let has_tried = node.as_ref().map(Node::has_tried);
        Ok(Self {
            has_tried,
            server: Server::bind(
                config.server,
                application,
                config.listen,
                config.metrics_addr,
            )?,
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
        self.server.metrics_address()
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
            () = tried => self.server.run(shutdown).await,
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
    counts: Option<Arc<Counts>>,
}

impl App for Application {
    fn admit(&self, namespace: &str, _auth: Option<&RawValue>) -> Result<(), String> {
        match namespace {
            "/" => Ok(()),
            _ => Err("Invalid namespace".to_owned()),
        }
    }

    fn connect(&self, _socket: &Arc<Socket>, _auth: Option<&RawValue>) {}

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

    fn metrics(&self, page: &MetricsPage) {
        self.presence.set_metrics(page);
        if let Some(counts) = &self.counts {
            counts.set_on(page);
        }
    }
}
