//! A connection: its socket, its state, and the orders it gets.
//!
//! Requests have no timers. The worker checks all connections a few times a second ([`Connection::judge`]) and orders
//! those to end that have taken too long.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::{self, ErrorKind::Interrupted, ErrorKind::WouldBlock};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv, send};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::counts::{Counter, Counts};
use crate::fair_queue::FairQueue;

/// State that all connections of a worker use. One pointer to it keeps an idle connection small.
#[derive(Debug)]
pub(crate) struct Common {
    /// The clock of the worker, which counts ticks: connections read it without a system call.
    pub(crate) clock: Cell<u32>,
    /// The queue of large bodies.
    pub(crate) queue: FairQueue,
    pub(crate) counts: Counts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No byte of a request has arrived.
    Idle,
    /// Part of a request head or of a TLS handshake has arrived.
    Head,
    /// This many requests are being answered.
    Busy(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    None,
    /// Finish what is in flight, then end.
    Drain,
    /// End: the client took too long for its request.
    TimedOut,
    /// End: the client was idle for too long, or did not read.
    Expired,
    Close,
}

/// Timeouts, in ticks of the worker's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    pub(crate) head: u32,
    pub(crate) idle: u32,
}

#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection, as its task, its requests and its worker see it.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: RefCell<Stream>,
    phase: Cell<Phase>,
    /// Tick at which the phase began, or at which the client last accepted a write.
    since: Cell<u32>,
    /// True while a write waits for the client.
    blocked: Cell<bool>,
    /// True once a request is left without an answer: no write shows then that the client has left.
    stalled: Cell<bool>,
    /// True once a request was answered before the end of its body.
    unread_body: Cell<bool>,
    /// True with HTTP/2, which has several requests at once: bytes between them are not a request head.
    multiplexed: Cell<bool>,
    order: Cell<Order>,
    task: RefCell<Option<Waker>>,
    pub(crate) common: Rc<Common>,
}

impl Connection {
    pub(crate) fn new(stream: Stream, common: Rc<Common>) -> Rc<Self> {
        Rc::new(Self {
            stream: RefCell::new(stream),
            phase: Cell::new(Phase::Idle),
            since: Cell::new(common.clock.get()),
            blocked: Cell::new(false),
            stalled: Cell::new(false),
            unread_body: Cell::new(false),
            multiplexed: Cell::new(false),
            order: Cell::new(Order::None),
            task: RefCell::new(None),
            common,
        })
    }

    pub(crate) fn multiplex(&self) {
        self.multiplexed.set(true);
        self.enter(Phase::Idle);
    }

    fn enter(&self, phase: Phase) {
        self.phase.set(phase);
        self.since.set(self.common.clock.get());
    }

    /// Notes that the beginning of a request has come together with the one before.
    pub(crate) fn begin_head(&self) {
        if self.phase.get() == Phase::Idle {
            self.enter(Phase::Head);
        }
    }

    /// Begins a request; the returned guard lives as long as its response.
    pub(crate) fn begin(self: &Rc<Self>) -> Busy {
        let others = match self.phase.get() {
            Phase::Busy(requests) => requests,
            _ => 0,
        };
        self.enter(Phase::Busy(others + 1));
        Busy(Rc::clone(self))
    }

    /// Leaves a request without an answer until the client ends its side of the connection.
    pub(crate) fn stall(&self) {
        self.stalled.set(true);
    }

    /// Leaves the body of a request unread.
    pub(crate) fn leave_body(&self) {
        self.unread_body.set(true);
    }

    /// Returns true if the client may still be sending at the end of the connection: it has sent a body, or something
    /// behind its last request, that nobody reads.
    pub(crate) fn has_unread(&self) -> bool {
        let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        let waiting = |socket: BorrowedFd<'_>| recv(socket.as_raw_fd(), &mut [0], flags);
        self.unread_body.get() || self.with_socket(waiting).is_ok_and(|length| length > 0)
    }

    /// Returns true if the client has ended its side of the connection, whatever it sent before.
    pub(crate) fn is_ended(&self) -> bool {
        self.with_socket(|socket| {
            let ended = PollFlags::from_bits_retain(nix::libc::POLLRDHUP);
            let mut polled = [PollFd::new(socket, ended)];
            poll(&mut polled, PollTimeout::ZERO) == Ok(1)
        })
    }

    /// Returns an order if the connection has taken too long in its phase, or nobody waits for it any more.
    pub(crate) fn judge(&self, timeouts: Timeouts) -> Order {
        let age = self.common.clock.get().wrapping_sub(self.since.get());
        match self.phase.get() {
            _ if self.stalled.get() && self.is_ended() => Order::Close,
            _ if self.blocked.get() && age > timeouts.head => Order::Expired,
            Phase::Head if age > timeouts.head => Order::TimedOut,
            Phase::Idle if age > timeouts.idle => Order::Expired,
            _ => Order::None,
        }
    }

    /// Gives an order, which the task follows when it is next polled.
    pub(crate) fn order(&self, order: Order) {
        self.order.set(order);
        if let Some(task) = self.task.borrow().as_ref() {
            task.wake_by_ref();
        }
    }

    /// Returns the current order; the task is woken by the next one.
    pub(crate) fn ordered(&self, cx: &Context<'_>) -> Order {
        let mut task = self.task.borrow_mut();
        match &mut *task {
            Some(task) => task.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        self.order.get()
    }

    /// Runs a future until it ends or the connection is ordered to end. The future goes first: a request that has
    /// arrived when the end is requested counts as in flight.
    pub(crate) fn unless_ordered<T>(
        &self,
        running: impl Future<Output = T> + Unpin,
    ) -> impl Future<Output = Result<T, Order>> {
        self.until(running, |order| order != Order::None)
    }

    /// Runs what answers a request, which an order to drain lets finish.
    pub(crate) fn unless_broken_off<T>(
        &self,
        running: impl Future<Output = T> + Unpin,
    ) -> impl Future<Output = Result<T, Order>> {
        self.until(running, |order| {
            !matches!(order, Order::None | Order::Drain)
        })
    }

    // Not async: that would hold the future twice, and idle connections wait in this one.
    fn until<T>(
        &self,
        mut running: impl Future<Output = T> + Unpin,
        ends: impl Fn(Order) -> bool,
    ) -> impl Future<Output = Result<T, Order>> {
        poll_fn(
            move |cx| match (Pin::new(&mut running).poll(cx), self.ordered(cx)) {
                (Poll::Ready(done), _) => Poll::Ready(Ok(done)),
                (Poll::Pending, order) if ends(order) => Poll::Ready(Err(order)),
                (Poll::Pending, _) => Poll::Pending,
            },
        )
    }

    /// Returns true once the connection shall end after its request.
    pub(crate) fn is_draining(&self) -> bool {
        self.order.get() != Order::None
    }

    /// Waits until there is something to read.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        poll_fn(|cx| match &*self.stream.borrow() {
            Stream::Tcp(stream) => stream.poll_read_ready(cx),
            Stream::Unix(stream) => stream.poll_read_ready(cx),
        })
        .await
    }

    /// Writes as much as possible at once, bypassing other writers, and the runtime, which does not know a new socket.
    pub(crate) fn write_raw(&self, bytes: &[u8]) {
        // A client that has left or does not read gets less.
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        let written = self.with_socket(|socket| send(socket.as_raw_fd(), bytes, flags));
        self.common
            .counts
            .add(Counter::SentBytes, written.unwrap_or(0) as u64);
    }

    /// Makes a system call that writes to the socket, as soon as that takes something. The call returns the number of
    /// bytes that it has written.
    pub(crate) async fn write_with(
        &self,
        mut call: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        poll_fn(|cx| {
            let polled = loop {
                let stream = &*self.stream.borrow();
                let ready = match stream {
                    Stream::Tcp(tcp) => tcp.poll_write_ready(cx),
                    Stream::Unix(unix) => unix.poll_write_ready(cx),
                };
                match ready {
                    Poll::Ready(Ok(())) => {}
                    other => break other.map_ok(|()| 0),
                }
                // The runtime must see a WouldBlock, so the call goes through it.
                let written = match stream {
                    Stream::Tcp(tcp) => tcp.try_io(Interest::WRITABLE, || call(tcp.as_fd())),
                    Stream::Unix(unix) => unix.try_io(Interest::WRITABLE, || call(unix.as_fd())),
                };
                match written {
                    Err(error) if matches!(error.kind(), WouldBlock | Interrupted) => {}
                    written => break Poll::Ready(written),
                }
            };
            self.written(polled)
        })
        .await
    }

    fn written(&self, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &polled {
            Poll::Pending => {
                if !self.blocked.replace(true) {
                    self.since.set(self.common.clock.get());
                }
            }
            Poll::Ready(written) => {
                let length = written.as_ref().copied().unwrap_or(0);
                self.common.counts.add(Counter::SentBytes, length as u64);
                if self.blocked.replace(false) {
                    self.since.set(self.common.clock.get());
                }
            }
        }
        polled
    }

    /// Reads available bytes, bypassing other readers.
    pub(crate) fn read_raw(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match &*self.stream.borrow() {
            Stream::Tcp(stream) => stream.try_read(buffer),
            Stream::Unix(stream) => stream.try_read(buffer),
        }
    }

    /// Reads available bytes without consuming them.
    pub(crate) fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        let stream = &*self.stream.borrow();
        // The runtime must see a WouldBlock, so the read goes through it.
        match stream {
            Stream::Tcp(tcp) => tcp.try_io(Interest::READABLE, || {
                Ok(recv(tcp.as_raw_fd(), buffer, flags)?)
            }),
            Stream::Unix(unix) => unix.try_io(Interest::READABLE, || {
                Ok(recv(unix.as_raw_fd(), buffer, flags)?)
            }),
        }
    }

    /// Passes the socket to a function, for calls that the runtime does not offer.
    pub(crate) fn with_socket<T>(&self, use_it: impl FnOnce(BorrowedFd<'_>) -> T) -> T {
        match &*self.stream.borrow() {
            Stream::Tcp(stream) => use_it(stream.as_fd()),
            Stream::Unix(stream) => use_it(stream.as_fd()),
        }
    }
}

/// A request that is being answered, until this is dropped.
#[derive(Debug)]
pub(crate) struct Busy(Rc<Connection>);

impl Busy {
    pub(crate) fn connection(&self) -> &Rc<Connection> {
        &self.0
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.enter(match self.0.phase.get() {
            Phase::Busy(requests) if requests > 1 => Phase::Busy(requests - 1),
            _ => Phase::Idle,
        });
    }
}

/// The byte stream of a connection.
#[derive(Debug)]
pub(crate) struct Wire(pub(crate) Rc<Connection>);

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = match &mut *self.0.stream.borrow_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        };
        if buffer.filled().len() > before && self.0.phase.get() == Phase::Idle {
            self.0.enter(if self.0.multiplexed.get() {
                Phase::Idle
            } else {
                Phase::Head
            });
        }
        polled
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = match &mut *self.0.stream.borrow_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        };
        self.0.written(polled)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = match &mut *self.0.stream.borrow_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Stream::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
        };
        self.0.written(polled)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Sockets have nothing to flush.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self.0.stream.borrow_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
