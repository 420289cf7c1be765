//! The sending side of a connection: a queue that any thread may add to, and the transport that empties it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::net::tcp::OwnedWriteHalf;

use crate::counts::{Count, Counts};
use crate::disconnect_reason::DisconnectReason;
use crate::engine::frame::Frame;

/// Bytes of frames that are copied together for one system call: the kernel takes 0.2 µs longer for a list of two.
const COPIED: usize = 16 * 1024;
/// The packet that does nothing.
const NOOP: &str = "6";

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The sending side of a connection. It outlives the transport: frames that are sent later are dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    outbound: Mutex<Outbound>,
    /// A ping was sent and not answered.
    pub(crate) awaits_pong: AtomicBool,
    limit: usize,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Outbound {
    queue: VecDeque<Frame>,
    /// Bytes in the queue, without what is written of the first frame.
    bytes: usize,
    /// Bytes from the head of the queue to the end of an answer that exceeded the limit: they do not count towards it.
    uncounted: usize,
    /// Bytes of the first frame that are written.
    written: usize,
    /// A thread will flush.
    is_scheduled: bool,
    /// The send buffer of the socket is full; the task of the session waits until it has room.
    is_blocked: bool,
    transport: Transport,
    end: Option<DisconnectReason>,
    /// A request polls.
    is_polled: bool,
    /// A WebSocket is about to take over: polls are answered at once.
    is_probed: bool,
    /// The task that owns the session.
    task: Option<Waker>,
    /// The request that polls.
    poll: Option<Waker>,
}

/// The transport that empties the queue.
#[derive(Debug, Default)]
enum Transport {
    /// Requests take the queue.
    #[default]
    Polling,
    /// The queue is written as it fills.
    WebSocket(OwnedWriteHalf),
    Closed,
}

impl Connection {
    /// Creates a connection that is polled. More than `limit` bytes in its queue end it, but one answer may be of any
    /// length.
    pub(crate) fn new(limit: usize, counts: Arc<Counts>) -> Arc<Self> {
        Arc::new(Self {
            outbound: Mutex::default(),
            awaits_pong: AtomicBool::new(false),
            limit,
            counts,
        })
    }

    /// Queues frames, if the connection is open. Returns true if the caller must see to it that they are flushed.
    pub(super) fn queue(&self, frames: impl IntoIterator<Item = Frame>, is_answer: bool) -> bool {
        let mut outbound = self.lock();
        if outbound.end.is_some() {
            return false;
        }
        // A client that asks on without reading answers is slow, too.
        let may_exceed = is_answer && outbound.uncounted == 0;
        for frame in frames {
            let length = frame.as_bytes().len();
            if !self.has_room(&mut outbound, length) && !may_exceed {
                outbound.close(DisconnectReason::SlowConsumer);
                return false;
            }
            self.counts.add(Count::FramesSent, 1);
            outbound.bytes += length;
            outbound.queue.push_back(frame);
            if may_exceed && outbound.bytes - outbound.uncounted > self.limit {
                outbound.uncounted = outbound.bytes;
            }
        }
        let is_due = !outbound.is_scheduled && !outbound.is_blocked && !outbound.queue.is_empty();
        outbound.is_scheduled |= is_due;
        is_due
    }

    /// Returns true if the queue has room for this many more bytes. An empty queue takes a frame of any length.
    fn has_room(&self, outbound: &mut Outbound, length: usize) -> bool {
        let fits = |outbound: &Outbound| {
            let counted = outbound.bytes - outbound.uncounted;
            outbound.queue.is_empty() || counted.saturating_add(length) <= self.limit
        };
        if !fits(outbound) {
            // The client may be faster than this turn of the worker.
            outbound.flush(&self.counts);
        }
        fits(outbound)
    }

    /// Writes as much of the queue as the socket takes, or wakes the request that polls.
    pub(crate) fn flush(&self) {
        let mut outbound = self.lock();
        outbound.is_scheduled = false;
        outbound.flush(&self.counts);
    }

    /// Waits for the end of the connection. Meanwhile it writes the rest of the queue whenever a full socket has room
    /// again. Only the task of the session calls it.
    pub(crate) fn poll_end(&self, context: &mut Context<'_>) -> Poll<DisconnectReason> {
        let mut outbound = self.lock();
        loop {
            if let Some(reason) = outbound.end {
                return Poll::Ready(reason);
            }
            keep_waker(&mut outbound.task, context);
            if !outbound.is_blocked {
                return Poll::Pending;
            }
            let Transport::WebSocket(stream) = &outbound.transport else {
                return Poll::Pending;
            };
            let ready = stream.as_ref().poll_write_ready(context);
            match ready {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) => {
                    outbound.is_blocked = false;
                    outbound.flush(&self.counts);
                }
                Poll::Ready(Err(_)) => outbound.close(DisconnectReason::ConnectionLost),
            }
        }
    }

    /// Waits for the end of a connection that is polled. Returns `None` once a WebSocket has taken over.
    pub(crate) fn poll_end_of_polling(
        &self,
        context: &Context<'_>,
    ) -> Poll<Option<DisconnectReason>> {
        let mut outbound = self.lock();
        if !matches!(outbound.transport, Transport::Polling) {
            return Poll::Ready(None);
        }
        if outbound.end.is_some() {
            return Poll::Ready(outbound.end);
        }
        keep_waker(&mut outbound.task, context);
        Poll::Pending
    }

    /// Notes that a request polls. Returns false if another one does.
    pub(crate) fn begin_poll(&self) -> bool {
        !mem::replace(&mut self.lock().is_polled, true)
    }

    /// Notes that no request polls any more.
    pub(crate) fn end_poll(&self) {
        let mut outbound = self.lock();
        outbound.is_polled = false;
        outbound.poll = None;
    }

    /// Takes the whole queue for the request that polls, and waits while the queue is empty. Returns `None` once the
    /// connection has ended and the queue is empty. If a WebSocket takes over, the answer is a noop.
    pub(crate) fn poll_queue(&self, context: &Context<'_>) -> Poll<Option<VecDeque<Frame>>> {
        let mut outbound = self.lock();
        let is_polling = matches!(outbound.transport, Transport::Polling);
        if is_polling && !outbound.queue.is_empty() {
            (outbound.bytes, outbound.uncounted) = (0, 0);
            return Poll::Ready(Some(mem::take(&mut outbound.queue)));
        }
        if outbound.end.is_some() {
            return Poll::Ready(None);
        }
        if !is_polling || outbound.is_probed {
            return Poll::Ready(Some([Frame::from_text(NOOP)].into()));
        }
        keep_waker(&mut outbound.poll, context);
        Poll::Pending
    }

    /// Returns true once requests are no longer the transport.
    pub(crate) fn is_upgraded(&self) -> bool {
        !matches!(self.lock().transport, Transport::Polling)
    }

    /// Sets whether polls are answered at once, so that the client can change the transport.
    pub(crate) fn set_probed(&self, is_probed: bool) {
        let mut outbound = self.lock();
        outbound.is_probed = is_probed;
        if let Some(poll) = outbound.poll.take() {
            poll.wake();
        }
    }

    /// Makes a WebSocket the transport, and writes the queue to it. Returns false if the connection has ended.
    pub(crate) fn open_websocket(&self, stream: OwnedWriteHalf) -> bool {
        let mut outbound = self.lock();
        if outbound.end.is_some() {
            return false;
        }
        outbound.transport = Transport::WebSocket(stream);
        // The task of the polled session ends, and a poll gets a noop.
        outbound.wake();
        outbound.flush(&self.counts);
        true
    }

    /// Ends the connection at once.
    pub(crate) fn close(&self, reason: DisconnectReason) {
        self.lock().close(reason);
    }

    /// Ends the connection after a last frame: a close frame on a WebSocket, or a packet for the request that polls.
    pub(crate) fn close_with(
        &self,
        close: impl FnOnce() -> Frame,
        packet: &str,
        reason: DisconnectReason,
    ) {
        let mut outbound = self.lock();
        if outbound.end.is_some() {
            return;
        }
        let frame = match outbound.transport {
            Transport::Polling => Frame::from_text(packet),
            Transport::WebSocket(_) | Transport::Closed => close(),
        };
        outbound.bytes += frame.as_bytes().len();
        outbound.queue.push_back(frame);
        outbound.flush(&self.counts);
        outbound.close(reason);
    }

    /// Returns the reason for the end of the connection, if it has ended.
    pub(crate) fn end(&self) -> Option<DisconnectReason> {
        self.lock().end
    }

    /// Frees the socket and the queue after the end. A request that polls still gets the queue.
    pub(crate) fn release(&self) {
        let mut outbound = self.lock();
        outbound.task = None;
        if !(matches!(outbound.transport, Transport::Polling) && outbound.is_polled) {
            outbound.transport = Transport::Closed;
            outbound.queue = VecDeque::new();
            (outbound.bytes, outbound.uncounted) = (0, 0);
        }
    }

    /// Notes that a ping is sent. Returns false if the previous ping is not answered yet.
    pub(crate) fn begin_ping(&self) -> bool {
        !self.awaits_pong.swap(true, Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Outbound> {
        // The state is consistent wherever a panic may occur.
        self.outbound.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn keep_waker(kept: &mut Option<Waker>, context: &Context<'_>) {
    match kept {
        Some(waker) if waker.will_wake(context.waker()) => {}
        _ => *kept = Some(context.waker().clone()),
    }
}

impl Outbound {
    fn flush(&mut self, counts: &Counts) {
        if self.queue.is_empty() || self.is_blocked {
            return;
        }
        match &self.transport {
            Transport::Polling => {
                if let Some(poll) = self.poll.take() {
                    poll.wake();
                }
            }
            Transport::Closed => {}
            Transport::WebSocket(_) => match self.write(counts) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_blocked = true;
                    counts.add(Count::WritesBlocked, 1);
                    self.wake();
                }
                Err(_) => self.close(DisconnectReason::ConnectionLost),
            },
        }
    }

    fn write(&mut self, counts: &Counts) -> io::Result<()> {
        while !self.queue.is_empty() {
            let written = self.write_some()?;
            counts.add(Count::BytesSent, written as u64);
            self.settle(written);
        }
        // Memory that was just freed is in the cache, and the memory of an idle connection is not.
        self.queue = VecDeque::new();
        Ok(())
    }

    fn write_some(&self) -> io::Result<usize> {
        let Transport::WebSocket(stream) = &self.transport else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let first = self.queue.front().map_or(&[][..], |frame| frame.as_bytes());
        let first = &first[self.written..];
        if self.queue.len() == 1 || first.len() > COPIED {
            return stream.try_write(first);
        }
        SCRATCH.with_borrow_mut(|scratch| {
            scratch.clear();
            scratch.extend_from_slice(first);
            for frame in self.queue.iter().skip(1) {
                if scratch.len() + frame.as_bytes().len() > COPIED {
                    break;
                }
                scratch.extend_from_slice(frame.as_bytes());
            }
            stream.try_write(scratch)
        })
    }

    /// Removes written bytes from the queue.
    fn settle(&mut self, written: usize) {
        self.bytes = self.bytes.saturating_sub(written);
        self.uncounted = self.uncounted.saturating_sub(written);
        let mut rest = self.written + written;
        while let Some(front) = self.queue.front() {
            let length = front.as_bytes().len();
            if rest < length {
                break;
            }
            rest -= length;
            self.queue.pop_front();
        }
        self.written = rest;
    }

    fn close(&mut self, reason: DisconnectReason) {
        if self.end.is_none() {
            self.end = Some(reason);
            self.wake();
        }
    }

    fn wake(&mut self) {
        for waker in [self.task.take(), self.poll.take()].into_iter().flatten() {
            waker.wake();
        }
    }
}
