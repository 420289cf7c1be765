//! A daemon, from its start to its end.

use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, bail};
use daemon_kit::{MetricsServer, RateLimitedLog, SocketFile, UnixSocket, accept, finish_within};
use issue_rpc::{check_peer, check_socket_folder, database_identity, socket_path};
use issue_store::{Options, Store};
use nix::sys::socket::SockType;
use tokio::net::UnixListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::interval;

use crate::committer::Health;
use crate::config::Config;
use crate::connection::Connections;
use crate::counts::{Counts, add};
use crate::database_files::DatabaseFiles;
use crate::instance_lock::InstanceLock;
use crate::service::{Identity, Services};
use crate::workers::{Context, Outcome, ThreadPanicked, Workers};

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1_024;
const SWEEP: Duration = Duration::from_secs(1);

type OutcomeReceiver = UnboundedReceiver<Result<Vec<Outcome>, ThreadPanicked>>;

/// A daemon that is already listening.
#[derive(Debug)]
pub struct Daemon {
    connections: Rc<Connections>,
    outcomes: OutcomeReceiver,
    listener: UnixListener,
    /// None for a socket that was passed to the process: it belongs to the one who passed it.
    socket_file: Option<SocketFile>,
    metrics: Option<MetricsServer>,
    grace: Duration,
    lock: InstanceLock,
}

impl Daemon {
    /// Locks and opens the database, and listens. Needs a Tokio runtime with I/O and time.
    ///
    /// # Errors
    /// Another daemon serves the database, it cannot be opened, or an address cannot be listened on.
    pub fn start(config: Config, passed: Option<OwnedFd>) -> anyhow::Result<Self> {
        create_folder(&config.database)?;
        let database = database_identity(&config.database)
            .with_context(|| format!("cannot use {}", config.database.display()))?;
        let socket = match (&passed, config.socket) {
            (Some(passed), _) => path_of(passed)?,
            (None, Some(given)) => given,
            (None, None) => {
                let socket = socket_path(&database);
                create_folder(&socket)?;
                check_socket_folder(&database, &socket)?;
                socket
            }
        };
        let lock = InstanceLock::acquire(&database, &socket)?;
        let options = Options {
            durability: config.durability,
            prefix: config.prefix,
            ..Options::default()
        };
        let store = Store::open(&database, options)?;
        store.check_structure()?;
        let context = Context {
            identity: Arc::new(Identity {
                files: Arc::new(DatabaseFiles::new(&database)),
                database,
                socket: socket.clone(),
                durability: config.durability,
                is_compatible: config.is_compatible,
            }),
            counts: Arc::<Counts>::default(),
            health: Arc::new(Mutex::new(Health::Healthy)),
        };
        let metrics = config.metrics_addr.map(|address| {
            MetricsServer::bind(address, "choose another address with --metrics-addr")
        });
        let metrics = metrics.transpose()?;
        let (sender, outcomes) = unbounded_channel();
        let workers = Workers::start(&store, config.limits.queued, &context, &sender)?;
        let services = Services::new(context.identity, context.counts, context.health);
        // Last, so that clients connect only to a daemon that can answer.
        let (listener, socket_file) = match passed {
            Some(passed) => (passed, None),
            None => {
                let (listener, file) = listen(&socket)?;
                (listener, Some(file))
            }
        };
        let listener = net::UnixListener::from(listener);
        listener
            .set_nonblocking(true)
            .context("cannot make the socket non-blocking")?;
        Ok(Self {
            connections: Rc::new(Connections::new(config.limits, services, workers)),
            outcomes,
            listener: UnixListener::from_std(listener).context("cannot watch the socket")?,
            socket_file,
            metrics,
            grace: config.shutdown_grace,
            lock,
        })
    }

    /// Returns the path of the socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.connections.services().identity.socket
    }

    /// Returns the address of the metrics.
    #[must_use]
    pub fn metrics_address(&self) -> Option<std::net::SocketAddr> {
        self.metrics
            .as_ref()
            .and_then(|server| server.address().ok())
    }

    /// Serves until `shutdown` is ready or a client asks for the end. Then answers what was accepted, for at most the
    /// time of grace. Must run in a [`LocalSet`](tokio::task::LocalSet).
    ///
    /// # Errors
    /// The metrics cannot be served, a thread has panicked, or clients have not read their answers in time.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> anyhow::Result<()> {
        let Self {
            connections,
            mut outcomes,
            listener,
            socket_file,
            metrics,
            grace,
            lock,
        } = self;
        let mut serving = JoinSet::new();
        let served = async {
            let ended = tokio::select! {
                () = shutdown => Ok(()),
                () = connections.stop_requested() => Ok(()),
                ended = serve_metrics(metrics, &connections, socket_file.as_ref()) => ended,
                () = sweep(&connections) => Ok(()),
                () = accept_all(&listener, &connections, &mut serving) => Ok(()),
            };
            drop(listener);
            drop(socket_file);
            connections.end_input();
            (ended, finish_within(&mut serving, grace, |_| ()).await)
        };
        let (ended, in_time) = tokio::select! {
            served = served => served,
            lost = pass_outcomes(&connections, &mut outcomes) => return Err(lost.into()),
        };
        let connections = Rc::into_inner(connections).context("a connection outlived its task")?;
        connections.finish();
        drop(lock);
        if !in_time {
            bail!(
                "some clients had not read their answers after {grace:?}: they were disconnected"
            );
        }
        ended
    }
}

/// Passes outcomes to their connections, until a thread panics.
async fn pass_outcomes(
    connections: &Connections,
    outcomes: &mut OutcomeReceiver,
) -> ThreadPanicked {
    loop {
        match outcomes.recv().await {
            Some(Ok(batch)) => connections.complete(batch),
            Some(Err(panicked)) => return panicked,
            // The threads outlive the connections.
            None => std::future::pending().await,
        }
    }
}

async fn sweep(connections: &Connections) {
    let mut ticks = interval(SWEEP);
    loop {
        ticks.tick().await;
        connections.sweep();
    }
}

async fn serve_metrics(
    server: Option<MetricsServer>,
    connections: &Connections,
    socket_file: Option<&SocketFile>,
) -> anyhow::Result<()> {
    match server {
        Some(server) => server
            .serve(
                || connections.services().page(),
                || {
                    let unreachable = socket_file.and_then(SocketFile::problem);
                    unreachable.or_else(|| connections.services().problem())
                },
            )
            .await
            .map(|never| match never {}),
        None => std::future::pending().await,
    }
}

async fn accept_all(
    listener: &UnixListener,
    connections: &Rc<Connections>,
    serving: &mut JoinSet<()>,
) {
    let log = RateLimitedLog::new(env!("CARGO_PKG_NAME"), 5);
    loop {
        let stream = accept(listener, |error| {
            log.warn(format_args!("cannot accept a connection: {error}"))
        })
        .await;
        // Removes the tasks that have ended.
        while serving.try_join_next().is_some() {}
        if check_peer(&stream).is_err() {
            add(&connections.services().counts.refused, 1);
            log.warn("refused a connection of another user");
            continue;
        }
        let connections = Rc::clone(connections);
        serving.spawn_local(async move { connections.serve(stream).await });
    }
}

/// Creates the folder of the database for this user alone, if only it is missing.
fn create_folder(database: &Path) -> anyhow::Result<()> {
    match database.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.exists() => {
            let created = std::fs::DirBuilder::new().mode(0o700).create(folder);
            created.with_context(|| format!("cannot create the folder {}", folder.display()))
        }
        _ => Ok(()),
    }
}

fn listen(path: &Path) -> anyhow::Result<(OwnedFd, SocketFile)> {
    // The folder of a socket that is not beside its database.
    create_folder(path)?;
    let socket = UnixSocket {
        kind: SockType::Stream,
        mode: 0o600,
        backlog: BACKLOG,
    };
    socket.bind(path)
}

fn path_of(passed: &OwnedFd) -> anyhow::Result<PathBuf> {
    let listener =
        net::UnixListener::from(passed.try_clone().context("cannot use the passed socket")?);
    let address = listener
        .local_addr()
        .context("cannot use the passed socket")?;
    Ok(address
        .as_pathname()
        .map(Path::to_owned)
        .unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use issue_store::Durability;
    use tokio::task::LocalSet;

    use super::*;
    use crate::config::Limits;

    #[tokio::test]
    async fn a_daemon_ends_when_a_thread_that_it_needs_has_panicked() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config {
            database: folder.path().join("issues.db"),
            socket: None,
            durability: Durability::None,
            prefix: None,
            is_compatible: false,
            metrics_addr: None,
            shutdown_grace: Duration::from_secs(600),
            limits: Limits::default(),
        };
        let mut daemon = Daemon::start(config, None).unwrap();
        let (sender, outcomes) = unbounded_channel();
        daemon.outcomes = outcomes;
        sender.send(Err(ThreadPanicked("writer"))).unwrap();
        let socket = daemon.socket().to_owned();
        let ended = LocalSet::new().run_until(daemon.run(pending())).await;
        assert!(ended.unwrap_err().to_string().contains("writer"));
        assert!(!socket.exists(), "its socket is removed");
    }
}
