//! Counts what goes over a connection, inside of TLS: what HTTP itself takes, as the other engine counts it.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use harness::clock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What the connections of a worker have carried since it was last asked.
#[derive(Debug, Default)]
pub(super) struct Totals {
    /// Bytes while an operation was open that counts.
    pub(super) received: Cell<u64>,
    pub(super) sent: Cell<u64>,
    /// Bytes while there was none.
    pub(super) received_of_warmup: Cell<u64>,
    pub(super) sent_of_warmup: Cell<u64>,
}

/// What goes over one connection.
#[derive(Debug)]
pub(super) struct Meter {
    totals: Rc<Totals>,
    /// Whether times are taken too.
    times: bool,
    /// Grows with everything that happens on the connection.
    moves: Cell<u64>,
    /// Operations on it that count. Bytes count while there is one.
    pub(super) counted: Cell<u32>,
    /// When something was last sent.
    pub(super) written: Cell<u64>,
    /// When something first came after that was reset to 0.
    pub(super) first_byte: Cell<u64>,
}

impl Meter {
    pub(super) fn new(totals: &Rc<Totals>, times: bool) -> Rc<Self> {
        Rc::new(Self {
            totals: Rc::clone(totals),
            times,
            moves: Cell::new(0),
            counted: Cell::new(0),
            written: Cell::new(0),
            first_byte: Cell::new(0),
        })
    }

    /// Something happens.
    pub(super) fn moved(&self) {
        self.moves.set(self.moves.get() + 1);
    }

    /// Changes as long as something happens.
    pub(super) fn moves(&self) -> u64 {
        self.moves.get()
    }

    fn received(&self, length: usize) {
        self.moved();
        if length > 0 && self.times && self.first_byte.get() == 0 {
            self.first_byte.set(clock::now());
        }
        let total = match self.counted.get() {
            0 => &self.totals.received_of_warmup,
            _ => &self.totals.received,
        };
        total.set(total.get() + length as u64);
    }

    fn sent(&self, length: usize) {
        self.moved();
        if self.times {
            self.written.set(clock::now());
        }
        let total = match self.counted.get() {
            0 => &self.totals.sent_of_warmup,
            _ => &self.totals.sent,
        };
        total.set(total.get() + length as u64);
    }
}

/// A stream whose bytes are counted.
#[derive(Debug)]
pub(super) struct Metered<S> {
    stream: S,
    meter: Rc<Meter>,
}

impl<S> Metered<S> {
    pub(super) fn new(stream: S, meter: &Rc<Meter>) -> Self {
        let meter = Rc::clone(meter);
        Self { stream, meter }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        self.meter.received(buffer.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let length = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.meter.sent(length);
        Poll::Ready(Ok(length))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, pieces))?;
        self.meter.sent(length);
        Poll::Ready(Ok(length))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
