//! A worker: one thread, one runtime, with its listeners and its connections.

use std::cell::{Cell, RefCell};
use std::io;
use std::net;
use std::num::NonZeroU32;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net as unix;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use daemon_kit::accept;
use nix::sys::socket::{Shutdown, shutdown};
use slab::Slab;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::Notify;
use tokio::task::{JoinSet, spawn_local};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::REFUSAL;
use crate::conditions::http_date;
use crate::connection::{Common, Connection, Order, Stream, Timeouts};
use crate::conversation::{Ended, serve};
use crate::counts::{Counter, Counts};
use crate::fair_queue::FairQueue;
use crate::files::Folder;
use crate::listener::{Listening, Protocol};
use crate::resources::Resources;
use crate::stop::Stop;

/// Interval between two checks of the connections.
const TICK: Duration = Duration::from_millis(250);
/// Number of bytes that are read at once.
const BUFFER: usize = 16 << 10;
/// Time for a client to notice that it was refused or disconnected.
const LINGER: Duration = Duration::from_secs(1);
/// Maximum number of such connections; further ones are closed at once.
const LINGERING: usize = 64;

const TOO_SLOW: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// State that the connections of a worker share.
pub(crate) struct Worker {
    pub(crate) resources: Resources,
    pub(crate) counts: Counts,
    pub(crate) folder: Folder,
    /// The buffer into which all connections read.
    pub(crate) buffer: RefCell<Vec<u8>>,
    /// The date of responses.
    pub(crate) date: RefCell<String>,
    common: Rc<Common>,
    timeouts: Timeouts,
    connections: RefCell<Slab<Rc<Connection>>>,
    lingering: Cell<usize>,
    /// Notified when a connection has ended.
    ended: Notify,
}

/// An admitted connection. Dropping it frees its entry and its count, also if its task panics.
struct Admitted {
    worker: Rc<Worker>,
    index: usize,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.worker.connections.borrow_mut().remove(self.index);
        self.worker.counts.close();
        self.worker.ended.notify_one();
    }
}

enum Listener {
    Tcp { listener: TcpListener, secure: bool },
    Unix(UnixListener),
}

/// Serves until it is asked to stop, then until its requests are answered or the grace period ends.
pub(crate) fn run(
    resources: Resources,
    root: Arc<OwnedFd>,
    counts: Counts,
    listeners: Vec<Listening>,
    stop: &Stop,
) -> anyhow::Result<()> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .context("cannot start a Tokio runtime")?;
    let worker = Rc::new(Worker::new(resources, root, counts));
    runtime.block_on(worker.serve(listeners, stop))
}

impl Worker {
    fn new(resources: Resources, root: Arc<OwnedFd>, counts: Counts) -> Self {
        let performance = &resources.config.performance;
        let piece = performance.response_buffer_size.get();
        let ticks = |seconds: NonZeroU32| {
            let ticks = u64::from(seconds.get()) * 1000 / TICK.as_millis() as u64;
            u32::try_from(ticks).unwrap_or(u32::MAX)
        };
        Self {
            folder: Folder::new(root, resources.config.cache.enabled, piece),
            timeouts: Timeouts {
                head: ticks(performance.connection_timeout),
                idle: ticks(performance.keep_alive_timeout),
            },
            resources,
            counts,
            buffer: RefCell::new(vec![0; BUFFER]),
            date: RefCell::new(date()),
            common: Rc::new(Common {
                clock: Cell::new(0),
                queue: FairQueue::default(),
                counts,
            }),
            connections: RefCell::default(),
            lingering: Cell::new(0),
            ended: Notify::new(),
        }
    }

    async fn serve(self: &Rc<Self>, listeners: Vec<Listening>, stop: &Stop) -> anyhow::Result<()> {
        let mut accepting = JoinSet::new();
        for listening in listeners {
            let listener = Listener::new(listening).context("cannot watch a listener")?;
            accepting.spawn_local(Rc::clone(self).accept_all(listener));
        }
        let looking = spawn_local(Rc::clone(self).check_timeouts());
        let scheduling = spawn_local(self.common.queue.clone().run());
        stop.requested()
            .await
            .context("cannot wait for the stop signal")?;
        accepting.shutdown().await;
        let grace = self.resources.config.performance.shutdown_grace;
        let grace = Duration::from_secs(grace.into());
        if timeout(grace, self.drain()).await.is_err() {
            tracing::warn!(
                open = self.connections.borrow().len(),
                "the grace period is over"
            );
        }
        looking.abort();
        scheduling.abort();
        Ok(())
    }

    /// Lets all connections end after their requests in flight, and waits for them.
    async fn drain(&self) {
        for (_, connection) in &*self.connections.borrow() {
            connection.order(Order::Drain);
        }
        while !self.connections.borrow().is_empty() {
            self.ended.notified().await;
        }
    }

    async fn accept_all(self: Rc<Self>, listener: Listener) {
        loop {
            let (connection, secure) = listener.accept(&self).await;
            self.admit(connection, secure);
        }
    }

    fn admit(self: &Rc<Self>, connection: Rc<Connection>, secure: bool) {
        if !self.counts.open(self.resources.limits) {
            if !secure {
                connection.write_raw(REFUSAL);
            }
            spawn_local(Rc::clone(self).close_gracefully(connection));
            return;
        }
        let admitted = Admitted {
            index: self.connections.borrow_mut().insert(Rc::clone(&connection)),
            worker: Rc::clone(self),
        };
        spawn_local(async move {
            let worker = &admitted.worker;
            let ended = serve(worker, &connection, secure).await;
            if matches!(ended, Ended::TimedOut | Ended::Idle) {
                worker.counts.add(Counter::Timeouts, 1);
            }
            match ended {
                Ended::Well | Ended::Idle if !connection.has_unread() => {}
                Ended::Well | Ended::Idle | Ended::Refused => {
                    Box::pin(Rc::clone(worker).close_gracefully(connection)).await;
                }
                Ended::TimedOut => {
                    if !secure {
                        worker.counts.answered(408, 1);
                        connection.write_raw(TOO_SLOW);
                    }
                    Box::pin(Rc::clone(worker).close_gracefully(connection)).await;
                }
            }
        });
    }

    /// Closes a connection whose client may still be sending. Closing with unread bytes would reset the connection and
    /// lose the response.
    async fn close_gracefully(self: Rc<Self>, connection: Rc<Connection>) {
        if self.lingering.get() >= LINGERING {
            return;
        }
        self.lingering.set(self.lingering.get() + 1);
        connection.with_socket(|socket| {
            let _ = shutdown(socket.as_raw_fd(), Shutdown::Write);
        });
        // Ends when the client closes, or after the timeout.
        let _ = timeout(LINGER, connection.discard()).await;
        self.lingering.set(self.lingering.get() - 1);
    }

    async fn check_timeouts(self: Rc<Self>) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.tick();
        }
    }

    /// Advances the clock, and orders connections to end that have taken too long.
    fn tick(&self) {
        let clock = &self.common.clock;
        clock.set(clock.get().wrapping_add(1));
        self.date.replace(date());
        for (_, connection) in &*self.connections.borrow() {
            match connection.judge(self.timeouts) {
                Order::None => {}
                order => connection.order(order),
            }
        }
    }
}

/// Returns the date of this second.
fn date() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    http_date(now.map_or(0, |now| now.as_secs()))
}

impl Listener {
    fn new(Listening { socket, protocol }: Listening) -> io::Result<Self> {
        if protocol == Protocol::Unix {
            let listener = unix::UnixListener::from(socket);
            return UnixListener::from_std(listener).map(Self::Unix);
        }
        let listener = TcpListener::from_std(net::TcpListener::from(socket))?;
        let secure = protocol == Protocol::Https;
        Ok(Self::Tcp { listener, secure })
    }

    async fn accept(&self, worker: &Worker) -> (Rc<Connection>, bool) {
        let failed = |error: &io::Error| {
            worker.counts.add(Counter::AcceptErrors, 1);
            tracing::warn!(%error, "cannot accept; retrying in 10 ms");
        };
        let (stream, secure) = match self {
            Self::Tcp { listener, secure } => {
                let (stream, _) = accept(listener, failed).await;
                (Stream::Tcp(stream), *secure)
            }
            Self::Unix(listener) => (Stream::Unix(accept(listener, failed).await), false),
        };
        let connection = Connection::new(stream, Rc::clone(&worker.common));
        (connection, secure)
    }
}

impl Connection {
    /// Reads and discards bytes up to the end.
    async fn discard(&self) {
        // On the heap: it would enlarge the future of every connection, but few get here.
        let mut buffer = vec![0; 4096];
        loop {
            if self.readable().await.is_err() {
                return;
            }
            match self.read_raw(&mut buffer) {
                Ok(0) => return,
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod simulated_peers;

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::Path;

    use daemon_kit::MetricsPage;

    use super::*;
    use crate::counts::{Limits, Shared};
    use crate::files;
    use crate::options::Config;

    /// Returns what a worker for the files of this folder uses.
    pub(super) fn resources(root: &Path, max: u64) -> Resources {
        Resources {
            config: Arc::new(Config::default()),
            counters: Shared::new(1).unwrap(),
            page: Arc::new(MetricsPage::new()),
            limits: Limits { max, room: max },
            root: Some(Arc::new(files::open(root).unwrap())),
            tls: None,
        }
    }

    #[test]
    fn a_connection_whose_task_panics_leaves_no_entry() {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default());
        let runtime = runtime.unwrap();
        let _entered = runtime.enter();
        let folder = tempfile::tempdir().unwrap();
        let resources = resources(folder.path(), 1);
        let counts = resources.counters.worker(0, 1, 0);
        let root = resources.root.clone().unwrap();
        let worker = Rc::new(Worker::new(resources, root, counts));
        let connect = || {
            let (mut client, server) = unix::UnixStream::pair().unwrap();
            server.set_nonblocking(true).unwrap();
            client.write_all(b"GET / HTTP/1.1\r\n").unwrap();
            let stream = Stream::Unix(tokio::net::UnixStream::from_std(server).unwrap());
            let connection = Connection::new(stream, Rc::clone(&worker.common));
            (client, connection)
        };
        let (_client, connection) = connect();
        // The task panics when it reads, because the socket is borrowed.
        connection
            .with_socket(|_| {
                runtime.block_on(async {
                    worker.admit(Rc::clone(&connection), false);
                    timeout(Duration::from_secs(30), worker.ended.notified()).await
                })
            })
            .expect("the connection has ended");
        assert!(worker.connections.borrow().is_empty());
        let (_client, connection) = connect();
        runtime.block_on(async { worker.admit(connection, false) });
        assert_eq!(worker.connections.borrow().len(), 1, "there is room again");
    }
}
