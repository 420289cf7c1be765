//! Response bodies.

use std::future::poll_fn;
use std::io;
use std::mem;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep};

use crate::byte_ranges::ByteRanges;
use crate::connection::Busy;
use crate::fair_queue::Ticket;
use crate::files::{Content, Pieces};

/// The body of a response. While it lives, the connection is not idle.
#[derive(Debug)]
pub(crate) struct Body {
    source: Source,
    ticket: Ticket,
    busy: Busy,
}

/// Maximum size of in-memory content that is sent at once. Larger content takes turns with other bodies, in pieces of
/// this size.
const LARGEST_AT_ONCE: usize = 256 << 10;
/// Maximum size of the piece of a file that the kernel sends in its turn, which takes about 90 µs. With pieces of 256 KiB,
/// 1 MiB takes a third more CPU time.
const LARGEST_SENT: usize = 1 << 20;

#[derive(Debug)]
enum Source {
    Whole(Bytes),
    File(Pieces),
    Parts(ByteRanges),
    /// The same piece, repeated; without a pace, the length is not announced.
    Repeated {
        piece: Bytes,
        left: u32,
        pace: Option<Pace>,
    },
}

#[derive(Debug)]
struct Pace {
    delay: Duration,
    sleep: Pin<Box<Sleep>>,
}

impl Body {
    fn new(source: Source, busy: Busy) -> Self {
        Self {
            source,
            ticket: Ticket::default(),
            busy,
        }
    }

    pub(crate) fn whole(bytes: impl Into<Bytes>, busy: Busy) -> Self {
        Self::new(Source::Whole(bytes.into()), busy)
    }

    pub(crate) fn emptied(mut self) -> Self {
        self.source = Source::Whole(Bytes::new());
        self
    }

    pub(crate) fn content(content: Content, busy: Busy) -> Self {
        match content {
            Content::Whole(bytes) => Self::whole(bytes, busy),
            Content::Pieces(pieces) => Self::new(Source::File(pieces), busy),
        }
    }

    /// Creates a body of several ranges of a file.
    pub(crate) fn parts(parts: ByteRanges, busy: Busy) -> Self {
        Self::new(Source::Parts(parts), busy)
    }

    /// Creates a body of unknown length, which HTTP/1.1 sends in chunks.
    pub(crate) fn chunked(piece: Bytes, left: u32, busy: Busy) -> Self {
        let pace = None;
        Self::new(Source::Repeated { piece, left, pace }, busy)
    }

    /// Creates a body of known length, with a delay before each of its pieces.
    pub(crate) fn paced(piece: Bytes, left: u32, delay: Duration, busy: Busy) -> Self {
        let sleep = Box::pin(sleep(delay));
        let pace = Some(Pace { delay, sleep });
        Self::new(Source::Repeated { piece, left, pace }, busy)
    }
}

impl Body {
    /// Takes the content out of a body that is completely in memory.
    pub(crate) fn take_whole(&mut self) -> Bytes {
        match &mut self.source {
            Source::Whole(bytes) if bytes.len() <= LARGEST_AT_ONCE => mem::take(bytes),
            _ => Bytes::new(),
        }
    }

    /// Returns true if the rest is in a file, which [`send_file`](Self::send_file) sends.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.source, Source::File(_))
    }

    /// Sends the rest of a file to the socket of its connection, in pieces that take turns with other bodies.
    ///
    /// # Errors
    /// An I/O error, or a file that has become shorter: its length was announced, so the connection must end.
    pub(crate) async fn send_file(&mut self) -> io::Result<()> {
        let connection = Rc::clone(self.busy.connection());
        while let Source::File(pieces) = &mut self.source
            && pieces.left > 0
        {
            if pieces.left > LARGEST_AT_ONCE as u64 {
                poll_fn(|cx| self.ticket.poll(&connection.common.queue, cx)).await;
            }
            let send = |socket: BorrowedFd<'_>| pieces.send(socket, LARGEST_SENT);
            connection.write_with(send).await?;
        }
        Ok(())
    }
}

impl Source {
    /// Returns true if the body is so large that others would wait for it.
    fn is_large(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.len() > LARGEST_AT_ONCE,
            Self::File(pieces) => pieces.left > 0,
            Self::Parts(parts) => parts.left > 0,
            Self::Repeated { left, pace, .. } => *left > 0 && pace.is_none(),
        }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let body = &mut *self;
        if body.source.is_large() {
            ready!(body.ticket.poll(&body.busy.connection().common.queue, cx));
        }
        let bytes = match &mut body.source {
            Source::Whole(bytes) => Ok(bytes.split_to(bytes.len().min(LARGEST_AT_ONCE))),
            Source::File(pieces) => pieces.next(),
            Source::Parts(parts) => parts.next(),
            Source::Repeated { left: 0, .. } => return Poll::Ready(None),
            Source::Repeated { piece, left, pace } => {
                if let Some(pace) = pace {
                    ready!(pace.sleep.as_mut().poll(cx));
                    pace.sleep.as_mut().reset(Instant::now() + pace.delay);
                }
                *left -= 1;
                Ok(piece.clone())
            }
        };
        Poll::Ready(match bytes {
            Ok(bytes) if bytes.is_empty() => None,
            other => Some(other.map(Frame::data)),
        })
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Whole(bytes) => bytes.is_empty(),
            Source::File(pieces) => pieces.left == 0,
            Source::Parts(parts) => parts.left == 0,
            Source::Repeated { left, .. } => *left == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Source::File(pieces) => SizeHint::with_exact(pieces.left),
            Source::Parts(parts) => SizeHint::with_exact(parts.left),
            Source::Repeated { pace: None, .. } => SizeHint::new(),
            Source::Repeated { piece, left, .. } => {
                SizeHint::with_exact(piece.len() as u64 * u64::from(*left))
            }
        }
    }
}
