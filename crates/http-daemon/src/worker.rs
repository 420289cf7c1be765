//! A worker: one thread, one runtime, with its listeners and its connections.

use std::cell::{Cell, RefCell};
use std::io;
use std::net;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net as unix;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use daemon_kit::{MetricsPage, accept};
use nix::sys::socket::{Shutdown, shutdown};
use slab::Slab;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::Notify;
use tokio::task::{JoinSet, spawn_local};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_rustls::TlsAcceptor;

use crate::REFUSAL;
use crate::clock::Clock;
use crate::config::Config;
use crate::connection::{Connection, Order, Timeouts};
use crate::conversation::{Ended, serve};
use crate::counts::{Counts, Shared};
use crate::files::Folder;
use crate::listener::Listeners;
use crate::sink::Limits;
use crate::stop::Stop;
use crate::turns::Turns;

/// Interval between two checks of the connections.
const TICK: Duration = Duration::from_millis(250);
/// Time for a client to notice that it was refused or disconnected.
const LINGER: Duration = Duration::from_secs(1);
/// Maximum number of such connections; further ones are closed at once.
const LINGERING: usize = 64;

const TOO_SLOW: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// The parts of a worker.
pub(crate) struct Parts {
    pub(crate) config: Arc<Config>,
    pub(crate) counts: Counts,
    pub(crate) shared: Shared,
    pub(crate) page: Arc<MetricsPage>,
    pub(crate) limits: Limits,
    pub(crate) tls: Option<TlsAcceptor>,
}

/// State that the connections of a worker share.
pub(crate) struct Worker {
    pub(crate) config: Arc<Config>,
    pub(crate) counts: Counts,
    pub(crate) shared: Shared,
    pub(crate) page: Arc<MetricsPage>,
    pub(crate) folder: Folder,
    pub(crate) tls: Option<TlsAcceptor>,
    limits: Limits,
    clock: Clock,
    turns: Turns,
    timeouts: Timeouts,
    connections: RefCell<Slab<Rc<Connection>>>,
    lingering: Cell<usize>,
    /// Notified when a connection has ended.
    ended: Notify,
}

enum Listener {
    Tcp { listener: TcpListener, secure: bool },
    Unix(UnixListener),
}

/// Serves until it is asked to stop, then until its requests are answered or the grace period ends.
pub(crate) fn run(parts: Parts, listeners: Listeners, stop: &Stop) -> anyhow::Result<()> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .context("cannot start a Tokio runtime")?;
    let worker = Rc::new(Worker::new(parts)?);
    runtime.block_on(worker.serve(listeners, stop))
}

impl Worker {
    fn new(parts: Parts) -> anyhow::Result<Self> {
        let Parts {
            config,
            counts,
            shared,
            page,
            limits,
            tls,
        } = parts;
        let ticks =
            |time: Duration| u32::try_from(time.as_millis() / TICK.as_millis()).unwrap_or(u32::MAX);
        Ok(Self {
            folder: Folder::open(&config.root, config.caches, config.response_buffer)?,
            timeouts: Timeouts {
                head: ticks(config.connection_timeout),
                idle: ticks(config.keep_alive_timeout),
            },
            config,
            counts,
            shared,
            page,
            tls,
            limits,
            clock: Clock::default(),
            turns: Turns::default(),
            connections: RefCell::default(),
            lingering: Cell::new(0),
            ended: Notify::new(),
        })
    }

    async fn serve(self: &Rc<Self>, listeners: Listeners, stop: &Stop) -> anyhow::Result<()> {
        let mut accepting = JoinSet::new();
        for listener in Listener::all(listeners).context("cannot watch the listeners")? {
            accepting.spawn_local(Rc::clone(self).accept_all(listener));
        }
        let looking = spawn_local(Rc::clone(self).check_timeouts());
        let turning = spawn_local(self.turns.clone().run());
        stop.requested()
            .await
            .context("cannot wait for the stop signal")?;
        accepting.shutdown().await;
        for (_, connection) in &*self.connections.borrow() {
            connection.order(Order::Drain);
        }
        let drained = async {
            while !self.connections.borrow().is_empty() {
                self.ended.notified().await;
            }
        };
        if timeout(self.config.shutdown_grace, drained).await.is_err() {
            tracing::warn!(
                open = self.connections.borrow().len(),
                "the grace period is over"
            );
        }
        looking.abort();
        turning.abort();
        Ok(())
    }

    async fn accept_all(self: Rc<Self>, listener: Listener) {
        loop {
            let (connection, secure) = listener.accept(&self).await;
            self.admit(connection, secure);
        }
    }

    fn admit(self: &Rc<Self>, connection: Rc<Connection>, secure: bool) {
        if !self.counts.open(self.limits.max, self.limits.room) {
            if !secure {
                connection.write_raw(REFUSAL);
            }
            spawn_local(Rc::clone(self).close_gracefully(connection));
            return;
        }
        let place = self.connections.borrow_mut().insert(Rc::clone(&connection));
        let worker = Rc::clone(self);
        spawn_local(async move {
            let ended = serve(&worker, &connection, secure).await;
            worker.connections.borrow_mut().remove(place);
            match ended {
                Ended::Well => {}
                Ended::TimedOut => {
                    worker.counts.timed_out();
                    if !secure {
                        worker.counts.answered(408, 1);
                        connection.write_raw(TOO_SLOW);
                    }
                    Rc::clone(&worker).close_gracefully(connection).await;
                }
                Ended::Idle => worker.counts.timed_out(),
                Ended::Refused => Rc::clone(&worker).close_gracefully(connection).await,
            }
            worker.counts.close();
            worker.ended.notify_one();
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

    /// Orders connections to end that have taken too long.
    async fn check_timeouts(self: Rc<Self>) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.clock.tick();
            for (_, connection) in &*self.connections.borrow() {
                match connection.judge(self.timeouts) {
                    Order::None => {}
                    order => connection.order(order),
                }
            }
        }
    }
}

impl Listener {
    fn all(listeners: Listeners) -> io::Result<Vec<Self>> {
        let tcp = |socket: OwnedFd, secure| {
            let listener = TcpListener::from_std(net::TcpListener::from(socket))?;
            io::Result::Ok(Self::Tcp { listener, secure })
        };
        let mut all = vec![tcp(listeners.http, false)?];
        if let Some(socket) = listeners.https {
            all.push(tcp(socket, true)?);
        }
        if let Some(socket) = listeners.unix {
            all.push(Self::Unix(UnixListener::from_std(
                unix::UnixListener::from(socket),
            )?));
        }
        Ok(all)
    }

    async fn accept(&self, worker: &Worker) -> (Rc<Connection>, bool) {
        let (clock, turns) = (worker.clock.clone(), worker.turns.clone());
        let failed = |error: &io::Error| {
            worker.counts.accept_failed();
            tracing::warn!(%error, "cannot accept; retrying in 10 ms");
        };
        match self {
            Self::Tcp { listener, secure } => {
                let (stream, _) = accept(listener, failed).await;
                (
                    Connection::tcp(stream, clock, turns, worker.counts),
                    *secure,
                )
            }
            Self::Unix(listener) => {
                let stream = accept(listener, failed).await;
                (Connection::unix(stream, clock, turns, worker.counts), false)
            }
        }
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
