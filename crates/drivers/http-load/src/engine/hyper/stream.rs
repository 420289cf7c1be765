//! Byte counters of connections, above TLS: they count HTTP bytes, as the other engine does.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use load::clock;
use load::recorder::Recorder;
use measure::counters::Counter;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::dial::Stream;
use crate::outcome::count;

/// Counters and times of one connection.
#[derive(Debug)]
pub(super) struct IoCounters {
    record: Recorder,
    /// True if times are recorded too.
    times: bool,
    /// Incremented by every event of the connection.
    progress: Cell<u64>,
    /// Number of its open operations, and of those that count.
    open: Cell<u32>,
    counted: Cell<u32>,
    /// Time of the last write.
    pub(super) written: Cell<u64>,
    /// Time of the first read after this was reset to 0.
    pub(super) first_byte: Cell<u64>,
}

impl IoCounters {
    pub(super) fn new(record: Recorder, times: bool) -> Rc<Self> {
        Rc::new(Self {
            record,
            times,
            progress: Cell::new(0),
            open: Cell::new(0),
            counted: Cell::new(0),
            written: Cell::new(0),
            first_byte: Cell::new(0),
        })
    }

    /// Registers that an operation begins.
    pub(super) fn begin(&self, is_counted: bool) {
        self.open.update(|open| open + 1);
        self.counted
            .update(|counted| counted + u32::from(is_counted));
    }

    /// Registers that an operation, which has begun, ends.
    pub(super) fn end(&self, is_counted: bool) {
        self.open.update(|open| open - 1);
        self.counted
            .update(|counted| counted - u32::from(is_counted));
    }

    pub(super) fn record_progress(&self) {
        self.progress.set(self.progress.get() + 1);
    }

    /// Returns the event count, which changes as long as the connection makes progress.
    pub(super) fn progress(&self) -> u64 {
        self.progress.get()
    }

    fn received(&self, length: usize) {
        self.record_progress();
        if length > 0 && self.times && self.first_byte.get() == 0 {
            self.first_byte.set(clock::now());
        }
        self.count(count::BYTES, length);
    }

    fn sent(&self, length: usize) {
        self.record_progress();
        if self.times {
            self.written.set(clock::now());
        }
        self.count(count::BYTES_SENT, length);
    }

    /// Bytes without an open operation, such as the preface of HTTP/2, count: they are not of the warm-up's operations,
    /// and must be in the total if they are in the measured time.
    fn count(&self, counter: Counter, bytes: usize) {
        let counts = self.counted.get() > 0 || self.open.get() == 0;
        self.record.count_of(counts, counter, bytes as u64);
    }
}

/// A byte stream whose bytes are counted.
#[derive(Debug)]
pub(super) struct CountingStream {
    stream: Stream,
    counters: Rc<IoCounters>,
}

impl CountingStream {
    pub(super) fn new(stream: Stream, counters: &Rc<IoCounters>) -> Self {
        let counters = Rc::clone(counters);
        Self { stream, counters }
    }
}

impl AsyncRead for CountingStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        self.counters.received(buffer.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for CountingStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let length = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.counters.sent(length);
        Poll::Ready(Ok(length))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, pieces))?;
        self.counters.sent(length);
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
