//! A client that ends its side of the connection with its last request.

use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::tcp::OwnedReadHalf;

/// The reading half of a client's socket, which reports the end of the data one turn late.
///
/// hyper drops a request when it sees the end, even before it has asked for the answer. After this turn, the answers
/// that need not wait are sent, as by the reference. A poll that waits for packets is cancelled: the client may be gone.
#[derive(Debug)]
pub(crate) struct LateEnd {
    stream: OwnedReadHalf,
    has_ended: bool,
}

impl LateEnd {
    pub(crate) fn new(stream: OwnedReadHalf) -> Self {
        Self {
            stream,
            has_ended: false,
        }
    }

    pub(crate) fn into_inner(self) -> OwnedReadHalf {
        self.stream
    }
}

impl AsyncRead for LateEnd {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if buffer.filled().len() == before && !mem::replace(&mut self.has_ended, true) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}
