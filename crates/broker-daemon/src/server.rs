//! The sockets around the broker: accepting, one task per connection, one that writes, one for what is due.

use std::cell::RefCell;
use std::io;
use std::net::{self, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};

use crate::broker::Broker;
use crate::config::Config;
use crate::connection::Phase;
use crate::http;
use crate::log::{self, Log, Recovered};
use crate::queue::ConnectionId;

/// What one read may bring. All connections read into the same buffer.
const READ: usize = 256 * 1024;
/// Bytes that wait in the kernel for a client's turn; Linux takes twice as much. What it would let grow to megabytes is
/// latency, since publishers that are ahead find room there.
const RECEIVE_BUFFER: u32 = 256 * 1024;
/// What one read of a publisher may bring whose messages pile up: so that the acknowledgements of the consumers come in
/// between. With whole reads, 20 publishers and 20 consumers of 100 messages in advance each went at 5 to 1.
const READ_AHEAD: usize = 16 * 1024;
/// Connections that may wait to be accepted; the kernel cuts it to `net.core.somaxconn`.
const BACKLOG: u32 = 65_535;
/// What accepting waits after an error, which is most likely a lack of descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// A broker that listens already: a client that connects now waits until [`Server::run`].
#[derive(Debug)]
pub struct Server {
    config: Config,
    listener: net::TcpListener,
    pages: Option<net::TcpListener>,
    store: Option<(Log, Recovered)>,
    /// The log has something new to say.
    log_woke: Arc<Notify>,
}

/// What the tasks share. They run in one thread and hold it across no await.
type Shared = Rc<RefCell<State>>;

#[derive(Debug)]
struct State {
    broker: Broker,
    input: Vec<u8>,
    started: Instant,
}

impl State {
    /// The broker, with the time set.
    fn turn(&mut self) -> &mut Broker {
        let since = self.started.elapsed().as_millis();
        self.broker.now = u64::try_from(since).unwrap_or(u64::MAX);
        &mut self.broker
    }
}

impl Server {
    /// Listens, for clients and for scrapers. Needs a Tokio runtime with I/O.
    ///
    /// # Errors
    /// What could not be made and why: an address in use, no permission.
    pub fn bind(config: Config) -> anyhow::Result<Self> {
        let log_woke = Arc::new(Notify::new());
        let open = |dir: &PathBuf| {
            let woke = Arc::clone(&log_woke);
            Log::open(dir, log::Options::default(), move || woke.notify_one()).with_context(|| {
                format!(
                    "opening the data in {} (--data-dir, BROKER_DATA_DIR)",
                    dir.display()
                )
            })
        };
        let store = config.data_dir.as_ref().map(open).transpose()?;
        let listener = listen(config.listen, BACKLOG).with_context(|| {
            format!(
                "listening on {} (another address: --listen or BROKER_LISTEN)",
                config.listen
            )
        })?;
        let bind_pages = |address| {
            listen(address, 128).with_context(|| {
                format!("listening on {address} for the metrics (another address: --metrics-addr or BROKER_METRICS_ADDR)")
            })
        };
        Ok(Self {
            listener,
            pages: config.metrics_addr.map(bind_pages).transpose()?,
            store,
            log_woke,
            config,
        })
    }

    /// Where clients connect; the port that the system chose, if it was asked to.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Where the metrics are served.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.pages.as_ref()?.local_addr().ok()
    }

    /// Serves until `shutdown` is ready, then closes all connections (320) and gives their clients the grace time to
    /// answer. Needs a Tokio runtime with I/O and time, and a `LocalSet`. Dropping the future closes everything at
    /// once.
    ///
    /// # Errors
    /// When the listeners cannot be watched.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> anyhow::Result<()> {
        let config = Rc::new(self.config);
        let state = Rc::new(RefCell::new(State {
            broker: Broker::new(Rc::clone(&config)),
            input: vec![0; READ.max(3 * config.frame_max as usize)],
            started: Instant::now(),
        }));
        if let Some((log, recovered)) = self.store {
            state.borrow_mut().turn().open_store(log, recovered)?;
        }
        let mut helpers = JoinSet::new();
        helpers.spawn_local(await_log(Rc::clone(&state), self.log_woke));
        if let Some(pages) = self.pages {
            let pages = TcpListener::from_std(pages).context("watching the metrics address")?;
            let state = Rc::clone(&state);
            let page = Rc::new(move || state.borrow().broker.page());
            helpers.spawn_local(http::serve(pages, page));
        }
        helpers.spawn_local(write(Rc::clone(&state)));
        helpers.spawn_local(sweep(Rc::clone(&state)));
        let mut clients = JoinSet::new();
        let listener =
            TcpListener::from_std(self.listener).context("watching the address of clients")?;
        tokio::select! {
            () = shutdown => {}
            () = accept(&listener, &state, &mut clients, config.max_connections) => {}
        }
        drop(listener);
        state.borrow_mut().turn().shut_down();
        let left = async { while clients.join_next().await.is_some() {} };
        // Whoever does not answer is closed with the tasks.
        let _ = timeout(config.shutdown_grace, left).await;
        clients.shutdown().await;
        state.borrow_mut().turn().close_store()
    }
}

fn listen(address: SocketAddr, backlog: u32) -> anyhow::Result<net::TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_reuseaddr(true)?;
    // Clients' sockets inherit it.
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    socket.bind(address)?;
    Ok(socket.listen(backlog)?.into_std()?)
}

/// Accepts clients for ever.
async fn accept(listener: &TcpListener, state: &Shared, clients: &mut JoinSet<()>, most: usize) {
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => {
                    if let Some(client) = admit(socket, state, most) {
                        clients.spawn_local(client);
                    }
                }
                // Descriptors come back when clients leave, and those who wait do so in the accept queue.
                Err(_) => sleep(PAUSE).await,
            },
            Some(_) = clients.join_next() => {}
        }
    }
}

fn admit(
    socket: TcpStream,
    state: &Shared,
    most: usize,
) -> Option<impl Future<Output = ()> + 'static> {
    let mut borrowed = state.borrow_mut();
    let broker = borrowed.turn();
    if broker.connection_count() >= most {
        broker.counts.connections_refused += 1;
        return None;
    }
    // What is written is gathered already.
    socket.set_nodelay(true).ok()?;
    let socket = Rc::new(socket);
    let (id, wake) = broker.connect(Some(Rc::clone(&socket)));
    Some(serve(Rc::clone(state), id, socket, wake))
}

/// What a connection wants of its socket.
enum Want {
    Ready(Interest),
    /// To be woken.
    Nothing,
    End,
}

/// Serves one client to its end.
async fn serve(state: Shared, id: ConnectionId, socket: Rc<TcpStream>, wake: Rc<Notify>) {
    loop {
        let want = state.borrow_mut().wanted(id);
        let interest = match want {
            Want::End => break,
            Want::Ready(interest) => interest,
            Want::Nothing => {
                wake.notified().await;
                continue;
            }
        };
        tokio::select! {
            biased;
            () = wake.notified() => {}
            ready = socket.ready(interest) => {
                let Ok(ready) = ready else { break };
                if ready.is_writable() && interest.is_writable() {
                    let mut borrowed = state.borrow_mut();
                    borrowed.turn().flush(id, true);
                    borrowed.broker.finish_turn();
                }
                if ready.is_readable() && interest.is_readable() {
                    let read = state.borrow_mut().read(id, &socket);
                    match read {
                        Read::Some => {}
                        Read::Full => yield_now().await,
                        Read::End => break,
                    }
                }
            }
        }
    }
    let mut borrowed = state.borrow_mut();
    borrowed.turn().disconnect(id);
}

enum Read {
    Some,
    /// As much as there was room for: there may be more.
    Full,
    End,
}

impl State {
    /// What a connection wants now. Processes its backlog first, if it need not wait any more.
    fn wanted(&mut self, id: ConnectionId) -> Want {
        let Some(connection) = self.broker.connection(id) else {
            return Want::End;
        };
        if connection.phase == Phase::Closed && connection.output.pending() == 0 {
            return Want::End;
        }
        if connection.may_go_on() {
            let backlog = std::mem::take(&mut connection.backlog);
            self.turn().receive(id, &backlog);
        }
        let Some(connection) = self.broker.connection(id) else {
            return Want::End;
        };
        let reads = connection.phase != Phase::Closed && !connection.is_held();
        match (reads, connection.is_stuck) {
            (true, true) => Want::Ready(Interest::READABLE | Interest::WRITABLE),
            (true, false) => Want::Ready(Interest::READABLE),
            (false, true) => Want::Ready(Interest::WRITABLE),
            (false, false) => Want::Nothing,
        }
    }

    /// Reads once, after the beginning of a frame that was read before, and processes what there is.
    fn read(&mut self, id: ConnectionId, socket: &TcpStream) -> Read {
        let Some(connection) = self.broker.connection(id) else {
            return Read::End;
        };
        let begun = connection.backlog.len();
        let mut input = std::mem::take(&mut self.input);
        input[..begun].copy_from_slice(&connection.backlog);
        let room = match connection.is_ahead {
            true => READ_AHEAD,
            false => input.len() - begun,
        };
        let outcome = match socket.try_read(&mut input[begun..begun + room]) {
            Ok(0) => Read::End,
            Ok(length) => {
                let broker = self.turn();
                broker.counts.bytes_received += length as u64;
                broker.receive(id, &input[..begun + length]);
                if length == room {
                    Read::Full
                } else {
                    // The socket is empty: this spares the read that would say so.
                    let empty = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
                    let _ = socket.try_io(Interest::READABLE, empty);
                    Read::Some
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Read::Some,
            Err(_) => Read::End,
        };
        self.input = input;
        outcome
    }
}

/// Writes what connections have, after all that were readable in this turn of the runtime have been read: its turn
/// comes behind theirs.
async fn write(state: Shared) {
    let wake = Rc::clone(&state.borrow().broker.wake);
    loop {
        wake.notified().await;
        let mut borrowed = state.borrow_mut();
        let broker = borrowed.turn();
        // First, so that the disk works while sockets are written.
        broker.flush_log();
        let mut dirty = broker.take_dirty();
        for id in dirty.drain(..) {
            broker.flush(id, false);
        }
        // Room in outputs may have let consumers go on.
        broker.finish_turn();
    }
}

/// What waited for the disk goes on.
async fn await_log(state: Shared, woke: Arc<Notify>) {
    loop {
        woke.notified().await;
        let mut borrowed = state.borrow_mut();
        borrowed.turn().finish_turn();
        borrowed.broker.flush_log();
    }
}

/// What happens by time: expiry to the millisecond, heartbeats and deadlines twice a second.
async fn sweep(state: Shared) {
    let mut seconds = interval(Duration::from_millis(500));
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let changed = Rc::clone(&state.borrow().broker.timer_changed);
    loop {
        let (due, started) = {
            let borrowed = state.borrow();
            (borrowed.broker.next_deadline(), borrowed.started)
        };
        let expiry = async {
            match due {
                Some(due) => sleep_until(started + Duration::from_millis(due)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = seconds.tick() => state.borrow_mut().turn().sweep(),
            () = expiry => state.borrow_mut().turn().expire(),
            () = changed.notified() => {}
        }
    }
}
