//! The sockets around the broker: a task that accepts, one per connection, one that writes, and one for timers.

mod client;

use std::cell::RefCell;
use std::fmt::Display;
use std::io;
use std::net::{self, SocketAddr};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use daemon_kit::{MetricsPage, MetricsServer, accept, finish_within, open_files};
use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinSet, yield_now};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::broker::Broker;
use crate::log::{self, Log};
use crate::management::Management;
use crate::options::Config;

/// Minimum bytes of the buffer that all connections read into.
const BUFFER: usize = 256 * 1024;
/// Receive buffer of a client's socket; Linux uses twice as much. Without this limit it would grow to megabytes, which
/// only adds latency, since publishers that are ahead fill it.
const RECEIVE_BUFFER: u32 = 256 * 1024;
/// Connections that may wait to be accepted; the kernel limits it to `net.core.somaxconn`.
const BACKLOG: u32 = 65_535;
/// Seconds of silence after which a peer is probed, six times in another minute. This finds vanished peers that agreed
/// on no heartbeat, or that are not being read. The system's default is two hours.
const KEEPALIVE_IDLE: u32 = 60;
const KEEPALIVE_INTERVAL: u32 = 10;
const KEEPALIVE_COUNT: u32 = 6;
/// Descriptors reserved for everything but clients: the log's files, scrapers, and the runtime. 100 idle clients must
/// not prevent storing.
const RESERVED: u64 = 32;

/// A broker that is already listening: connecting clients wait until [`Server::run`].
#[derive(Debug)]
pub struct Server {
    config: Rc<Config>,
    listener: net::TcpListener,
    metrics: Option<MetricsServer>,
    broker: Broker,
    /// Messages restored from the data folder; `None` if nothing is stored.
    pub recovered: Option<usize>,
    /// Problems found in the data folder at the start and their handling, a line each.
    pub findings: Vec<String>,
    /// Notified when the log has made progress.
    log_woke: Arc<Notify>,
}

/// State shared by the tasks. They run in one thread and hold no borrow across an await.
pub(crate) type SharedState = Rc<RefCell<ServerState>>;

#[derive(Debug)]
pub(crate) struct ServerState {
    pub(crate) broker: Broker,
    input: Vec<u8>,
    started: Instant,
}

impl ServerState {
    /// Returns the broker after setting its time.
    fn turn(&mut self) -> &mut Broker {
        let since = self.started.elapsed().as_millis();
        self.broker.now = u64::try_from(since).unwrap_or(u64::MAX);
        &mut self.broker
    }
}

impl Server {
    /// Restores the queues from the data folder, then listens for clients and for scrapers. It needs a Tokio runtime
    /// with I/O.
    ///
    /// # Errors
    /// The step that failed and the reason: an address in use, or no permission.
    pub fn bind(config: Config) -> anyhow::Result<Self> {
        let log_woke = Arc::new(Notify::new());
        let mut findings = Vec::new();
        let open = |dir: &PathBuf| {
            let woke = Arc::clone(&log_woke);
            let opened = log::LogOptions::fitting(dir).and_then(|options| {
                if config.salvage
                    && let Some(salvage) = log::salvage(dir, options)?
                {
                    findings.extend(describe(&salvage));
                }
                Log::open(dir, options, move || woke.notify_one())
            });
            opened.with_context(|| {
                let dir = dir.display();
                format!("cannot open the data folder {dir} (--data-dir, BROKER_DATA_DIR)")
            })
        };
        let opened = config.data_dir.as_ref().map(open).transpose()?;
        let config = Rc::new(config);
        let mut broker = Broker::new(Rc::clone(&config));
        let mut recovered = None;
        if let Some((log, found)) = opened {
            let stored = found.messages.len();
            if let Some(path) = &found.empty {
                let path = path.display();
                findings.push(format!(
                    "{path}: removed: it is empty, as after a crash between the creation of a segment and its first write"
                ));
            }
            let restored = broker.open_store(log, found)?;
            let lost = stored.saturating_sub(restored);
            if lost > 0 {
                findings.push(format!(
                    "{lost} messages were skipped: their queues are not among the definitions"
                ));
            }
            recovered = Some(restored);
        }
        let listener = listen(config.listen).with_context(|| {
            let remedy = "choose another address with --listen or BROKER_LISTEN";
            format!("cannot listen on {} ({remedy})", config.listen)
        })?;
        let bind_metrics = |address| {
            let remedy = "choose another address with --metrics-addr or BROKER_METRICS_ADDR";
            MetricsServer::bind(address, remedy)
        };
        Ok(Self {
            listener,
            metrics: config.metrics_addr.map(bind_metrics).transpose()?,
            broker,
            recovered,
            findings,
            log_woke,
            config,
        })
    }

    /// Returns the address for clients, with the port that the system chose if none was set.
    ///
    /// # Errors
    /// The system call fails.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns the address of the metrics.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref()?.address().ok()
    }

    /// Serves until `shutdown` is ready, then closes all connections (320) and gives their clients the grace time to
    /// answer. It needs a Tokio runtime with I/O and time, and a `LocalSet`. Dropping the future closes everything at
    /// once.
    ///
    /// # Errors
    /// The listeners cannot be registered with the runtime.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> anyhow::Result<()> {
        let config = self.config;
        let state = Rc::new(RefCell::new(ServerState {
            broker: self.broker,
            input: vec![0; BUFFER.max(3 * config.frame_max as usize)],
            started: Instant::now(),
        }));
        let mut helpers = JoinSet::new();
        helpers.spawn_local(await_log(Rc::clone(&state), self.log_woke));
        let mut pages = JoinSet::new();
        if let Some(server) = self.metrics {
            let management = Rc::new(Management {
                state: Rc::clone(&state),
                clients: self
                    .listener
                    .local_addr()
                    .context("cannot read the address of the client listener")?,
                metrics_address: server.address()?,
                page: MetricsPage::new(),
            });
            let answer = move |request| Rc::clone(&management).answer(request);
            pages.spawn_local(server.serve_with(answer));
        }
        helpers.spawn_local(write(Rc::clone(&state)));
        helpers.spawn_local(sweep(Rc::clone(&state)));
        let mut clients = JoinSet::new();
        let listener =
            TcpListener::from_std(self.listener).context("cannot register the client listener")?;
        tokio::select! {
            () = shutdown => {}
            ended = accept_all(&listener, &state, &mut clients, config.max_connections) => ended?,
            Some(ended) = helpers.join_next() => pass_on(ended).unwrap_or_default(),
            Some(ended) = pages.join_next() => {
                pass_on(ended).transpose()?;
            }
        }
        drop(listener);
        state.borrow_mut().turn().shut_down();
        // Clients that do not answer are closed with their tasks.
        finish_within(&mut clients, config.shutdown_grace, |ended| {
            pass_on(ended);
        })
        .await;
        state.borrow_mut().turn().close_store()
    }
}

/// Describes a salvage, with a line for each segment and one for the total.
fn describe(salvage: &log::Salvage) -> Vec<String> {
    let segments = salvage.segments.iter().map(ToString::to_string);
    let (messages, definitions) = (salvage.messages, salvage.definitions);
    let all = format!(
        "salvaged {messages} messages and {definitions} definitions; messages settled or deleted in an unreadable part may reappear; the original segments are in {}",
        salvage.aside.display()
    );
    segments.chain([all]).collect()
}

/// Returns the result of a task; `None` if it was aborted. Resumes its panic in the process, because the state may be
/// inconsistent.
fn pass_on<T>(ended: Result<T, JoinError>) -> Option<T> {
    ended
        .map_err(|error| match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(canceled) => canceled,
        })
        .ok()
}

fn listen(address: SocketAddr) -> anyhow::Result<net::TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_reuseaddr(true)?;
    // Clients' sockets inherit these options.
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    setsockopt(&socket, sockopt::KeepAlive, &true)?;
    setsockopt(&socket, sockopt::TcpKeepIdle, &KEEPALIVE_IDLE)?;
    setsockopt(&socket, sockopt::TcpKeepInterval, &KEEPALIVE_INTERVAL)?;
    setsockopt(&socket, sockopt::TcpKeepCount, &KEEPALIVE_COUNT)?;
    socket.bind(address)?;
    Ok(socket.listen(BACKLOG)?.into_std()?)
}

/// Accepts clients for ever.
async fn accept_all(
    listener: &TcpListener,
    state: &SharedState,
    clients: &mut JoinSet<()>,
    most: u32,
) -> anyhow::Result<()> {
    let room = open_files::limit()?.saturating_sub(RESERVED).max(1);
    loop {
        let has_room = (clients.len() as u64) < room;
        let cannot_accept = |reason: &dyn Display| state.borrow_mut().broker.cannot_accept(reason);
        if !has_room {
            cannot_accept(&"the limit of open files is reached: raise it (ulimit -n)");
        }
        let accepted = accept(listener, |error| cannot_accept(error));
        tokio::select! {
            // On errors, descriptors are freed when clients leave; waiting clients stay in the accept queue.
            (socket, _) = accepted, if has_room => {
                if let Some(client) = admit(socket, state, most) {
                    clients.spawn_local(client);
                }
            }
            Some(ended) = clients.join_next() => pass_on(ended).unwrap_or_default(),
        }
    }
}

fn admit(
    socket: TcpStream,
    state: &SharedState,
    most: u32,
) -> Option<impl Future<Output = ()> + 'static> {
    let mut borrowed = state.borrow_mut();
    let broker = borrowed.turn();
    if broker.connections.len() >= most as usize {
        broker.counts.connections_refused += 1;
        return None;
    }
    // Output is already batched.
    socket.set_nodelay(true).ok()?;
    let socket = Rc::new(socket);
    let (id, wake) = broker.connect(Some(Rc::clone(&socket)));
    Some(client::serve(Rc::clone(state), id, socket, wake))
}

impl ServerState {
    /// Writes the connections' output. Returns true if the broker has left work for another turn.
    fn write_all(&mut self) -> bool {
        let broker = self.turn();
        // First, so that the disk works while sockets are written.
        broker.flush_log();
        broker.flush_all();
        // Room in outputs may have let consumers continue.
        broker.finish_turn();
        broker.scheduler.has_more()
    }
}

/// Writes the connections' output after all readable connections of this turn of the runtime have been read: this task
/// is scheduled after theirs.
async fn write(state: SharedState) {
    let wake = Rc::clone(&state.borrow().broker.scheduler.wake);
    loop {
        wake.notified().await;
        let has_more = state.borrow_mut().write_all();
        if has_more {
            // Other tasks run in between.
            yield_now().await;
        }
    }
}

/// Continues work that waited for the disk.
async fn await_log(state: SharedState, woke: Arc<Notify>) {
    loop {
        woke.notified().await;
        let mut borrowed = state.borrow_mut();
        borrowed.turn().finish_turn();
        borrowed.broker.flush_log();
    }
}

/// Runs the timers: expiry to the millisecond, heartbeats and deadlines twice a second.
async fn sweep(state: SharedState) {
    let mut seconds = interval(Duration::from_millis(500));
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let changed = Rc::clone(&state.borrow().broker.scheduler.timer_changed);
    loop {
        let (due, started) = {
            let borrowed = state.borrow();
            (borrowed.broker.scheduler.next_deadline(), borrowed.started)
        };
        let expiry = async {
            match due {
                Some(due) => sleep_until(started + Duration::from_millis(due)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = seconds.tick() => state.borrow_mut().turn().sweep(),
            () = expiry => {
                state.borrow_mut().turn().expire();
                // More may be due; other tasks run in between.
                yield_now().await;
            }
            () = changed.notified() => {}
        }
    }
}
