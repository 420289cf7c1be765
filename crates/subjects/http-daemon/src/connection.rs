//! A connection: its socket, its state, and the orders it gets.
//!
//! Requests have no timers. The worker checks all connections a few times a second ([`Connection::judge`]) and orders
//! those to end that have taken too long.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv, send};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::counts::{Counter, Counts};
use crate::fair_queue::FairQueue;

/// The clock of a worker, which counts ticks: connections read it without a system call.
pub(crate) type Clock = Rc<Cell<u32>>;

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
    clock: Clock,
    /// The queue of large bodies.
    pub(crate) queue: FairQueue,
    counts: Counts,
}

impl Connection {
    pub(crate) fn new(stream: Stream, clock: Clock, queue: FairQueue, counts: Counts) -> Rc<Self> {
        Rc::new(Self {
            stream: RefCell::new(stream),
            phase: Cell::new(Phase::Idle),
            since: Cell::new(clock.get()),
            blocked: Cell::new(false),
            stalled: Cell::new(false),
            unread_body: Cell::new(false),
            multiplexed: Cell::new(false),
            order: Cell::new(Order::None),
            task: RefCell::new(None),
            clock,
            queue,
            counts,
        })
    }

    pub(crate) fn multiplex(&self) {
        self.multiplexed.set(true);
        self.enter(Phase::Idle);
    }

    fn enter(&self, phase: Phase) {
        self.phase.set(phase);
        self.since.set(self.clock.get());
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
        let age = self.clock.get().wrapping_sub(self.since.get());
        match self.phase.get() {
            _ if self.stalled.get() && self.is_ended() => Order::Close,
            _ if self.blocked.get() && age > timeouts.head => Order::Expired,
            Phase::Head if age > timeouts.head => Order::TimedOut,
            Phase::Idle if age > timeouts.idle => Order::Expired,
            _ => Order::None,
        }
    }

    /// Returns true while a write waits for the client; the connection's task is woken when it goes on. Always false
    /// for HTTP/2, whose streams have their own flow control.
    pub(crate) fn is_blocked(&self, cx: &Context<'_>) -> bool {
        let is_blocked = self.blocked.get() && !self.multiplexed.get();
        if is_blocked {
            self.keep_task(cx);
        }
        is_blocked
    }

    fn keep_task(&self, cx: &Context<'_>) {
        let mut task = self.task.borrow_mut();
        match &mut *task {
            Some(task) => task.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
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
        self.keep_task(cx);
        self.order.get()
    }

    /// Runs a future until it ends or the connection is ordered to end. The future goes first: a request that has
    /// arrived when the end is requested counts as in flight.
    pub(crate) async fn unless_ordered<T>(
        &self,
        running: impl Future<Output = T>,
    ) -> Result<T, Order> {
        let mut running = pin!(running);
        std::future::poll_fn(|cx| match (running.as_mut().poll(cx), self.ordered(cx)) {
            (Poll::Ready(done), _) => Poll::Ready(Ok(done)),
            (Poll::Pending, Order::None) => Poll::Pending,
            (Poll::Pending, order) => Poll::Ready(Err(order)),
        })
        .await
    }

    /// Waits until there is something to read.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        std::future::poll_fn(|cx| match &*self.stream.borrow() {
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
        self.counts
            .add(Counter::SentBytes, written.unwrap_or(0) as u64);
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

impl Wire {
    fn written(&self, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &polled {
            Poll::Pending => {
                if !self.0.blocked.replace(true) {
                    self.0.since.set(self.0.clock.get());
                }
            }
            Poll::Ready(written) => {
                let length = written.as_ref().copied().unwrap_or(0);
                self.0.counts.add(Counter::SentBytes, length as u64);
                if self.0.blocked.replace(false) {
                    self.0.since.set(self.0.clock.get());
                    // A body may be waiting for this.
                    if let Some(task) = self.0.task.borrow().as_ref() {
                        task.wake_by_ref();
                    }
                }
            }
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
        self.written(polled)
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
        self.written(polled)
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
