//! The task of a WebSocket: it reads, and writes the frames that the socket did not take at once.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead as _, Join, ReadBuf, copy, sink};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::spawn_local;
use tokio::time::timeout;

use crate::counts::Count;
use crate::disconnect_reason::DisconnectReason;
use crate::engine::frame::Frame;
use crate::engine::websocket::{Decoder, Fault, Message, close_frame};
use crate::server::late_end::LateEnd;
use crate::server::worker::{Held, Worker};
use crate::session::Session;

/// Bytes per read. All connections of a worker read into the same buffer.
const INPUT: usize = 64 * 1024;
/// Time for a client to read why it was disconnected.
const LINGER: Duration = Duration::from_secs(1);

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The reading side of a WebSocket.
#[derive(Debug)]
struct Reader {
    stream: OwnedReadHalf,
    decoder: Decoder,
}

/// Serves a session that begins over WebSocket.
pub(crate) async fn serve(held: Held, upgrade: OnUpgrade) {
    let Some((read, write, early)) = take_stream(upgrade).await else {
        return;
    };
    let session = held.session();
    if !session.connection.open_websocket(write) {
        return;
    }
    session
        .connection
        .send(Frame::from_text(&session.handshake(&[])));
    let mut reader = Reader::new(read, held.worker());
    let fed = reader
        .decoder
        .feed(&mut early.to_vec(), |message| session.receive(message));
    if let Err(fault) = fed {
        session.refuse(fault);
    }
    spawn_local(reader.run(held));
}

/// Serves a WebSocket that takes over from long-polling (the probe of Engine.IO). Until then, the session is polled.
pub(crate) async fn serve_upgrade(worker: Rc<Worker>, session: Arc<Session>, upgrade: OnUpgrade) {
    let limit = worker.engine.config.upgrade_timeout;
    let taken = timeout(limit, async {
        let (read, write, early) = take_stream(upgrade).await?;
        let mut reader = Reader::new(read, &worker);
        let mut probe = Probe::new(&worker, &session, write);
        let fed = reader
            .decoder
            .feed(&mut early.to_vec(), |message| probe.receive(message));
        let mut fed = fed.map_err(Ended::Fault);
        while fed.is_ok() && probe.held.is_none() {
            fed = poll_fn(|context| {
                reader.poll_feed(context, &worker, |message| probe.receive(message))
            })
            .await;
        }
        let held = probe.held?;
        // A frame that came with the last one of the probe.
        if let Err(Ended::Fault(fault)) = fed {
            session.refuse(fault);
        }
        Some((reader, held))
    });
    if let Ok(Some((reader, held))) = taken.await {
        worker.engine.counts.add(Count::Upgrades, 1);
        spawn_local(reader.run(held));
    } else {
        session.end_upgrade();
    }
}

/// Closes a WebSocket that names a session which has one already, as the reference does: after the handshake.
pub(crate) async fn turn_away(upgrade: OnUpgrade) {
    let Some((mut read, write, _)) = take_stream(upgrade).await else {
        return;
    };
    // A new connection has room for it.
    let _ = write.try_write(close_frame(None).as_bytes());
    // Closing with unread bytes would reset the connection, and the close frame would be lost.
    let _ = timeout(LINGER, copy(&mut read, &mut sink())).await;
}

/// Takes the socket back from hyper, whose buffers are freed.
async fn take_stream(upgrade: OnUpgrade) -> Option<(OwnedReadHalf, OwnedWriteHalf, Bytes)> {
    let upgraded = upgrade.await.ok()?;
    let parts = upgraded.downcast::<TokioIo<Join<LateEnd, OwnedWriteHalf>>>();
    let parts = parts.ok()?;
    let (read, write) = parts.io.into_inner().into_inner();
    Some((read.into_inner(), write, parts.read_buf))
}

impl Reader {
    fn new(stream: OwnedReadHalf, worker: &Worker) -> Self {
        Self {
            stream,
            decoder: Decoder::new(worker.engine.config.max_payload),
        }
    }

    /// Serves the session until it ends. It is a task of its own, which is smaller than the task of a handshake: each
    /// message finds less of it outside the cache.
    async fn run(mut self, held: Held) {
        let reason = poll_fn(|context| self.poll_end(context, &held)).await;
        // The application handles the end before the client has read the close frame.
        drop(held);
        if reason == DisconnectReason::SlowConsumer {
            // Otherwise the kernel would keep the unread bytes for minutes.
            let _ = self.stream.as_ref().set_zero_linger();
        }
        if matches!(
            reason,
            DisconnectReason::ProtocolError | DisconnectReason::Shutdown
        ) {
            // Closing with unread bytes would reset the connection, and the close frame would be lost. The timer is boxed:
            // it is larger than the rest of the task, and few connections need it.
            let discard = timeout(LINGER, poll_fn(|context| self.poll_discard(context)));
            let _ = Box::pin(discard).await;
        }
    }

    fn poll_end(&mut self, context: &mut Context<'_>, held: &Held) -> Poll<DisconnectReason> {
        let session = held.session();
        loop {
            if let Poll::Ready(reason) = session.connection.poll_end(context) {
                return Poll::Ready(reason);
            }
            let fed = self.poll_feed(context, held.worker(), |message| session.receive(message));
            match ready!(fed) {
                Ok(()) => {}
                Err(Ended::Lost) => session.connection.close(DisconnectReason::ConnectionLost),
                Err(Ended::Fault(fault)) => session.refuse(fault),
            }
        }
    }

    /// Reads once, and passes the messages that are complete to `receive`.
    fn poll_feed(
        &mut self,
        context: &mut Context<'_>,
        worker: &Worker,
        receive: impl FnMut(Message<'_>) -> Result<(), Fault>,
    ) -> Poll<Result<(), Ended>> {
        // The buffer is taken and not borrowed, because the application runs in between.
        let mut buffer = BUFFER.take();
        buffer.resize(INPUT, 0);
        let polled = self.poll_read(context, &mut buffer);
        let fed = polled.map(|read| match read {
            Ok(0) | Err(_) => Err(Ended::Lost),
            Ok(length) => {
                worker
                    .engine
                    .counts
                    .add(Count::BytesReceived, length as u64);
                let fed = self.decoder.feed(&mut buffer[..length], receive);
                fed.map_err(Ended::Fault)
            }
        });
        BUFFER.set(buffer);
        fed
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    /// Reads until the client has closed.
    fn poll_discard(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut buffer = [0; 1024];
        while let Ok(1..) = ready!(self.poll_read(context, &mut buffer)) {}
        Poll::Ready(())
    }
}

/// The end of a connection while reading.
#[derive(Debug)]
enum Ended {
    Lost,
    Fault(Fault),
}

/// A WebSocket that is about to take over.
struct Probe<'a> {
    worker: &'a Rc<Worker>,
    session: &'a Arc<Session>,
    /// Taken once the WebSocket takes over.
    stream: Option<OwnedWriteHalf>,
    is_probed: bool,
    /// The session, once the WebSocket has taken over: from then on nothing else ends it.
    held: Option<Held>,
}

impl<'a> Probe<'a> {
    fn new(worker: &'a Rc<Worker>, session: &'a Arc<Session>, stream: OwnedWriteHalf) -> Self {
        Self {
            worker,
            session,
            stream: Some(stream),
            is_probed: false,
            held: None,
        }
    }

    fn receive(&mut self, message: Message<'_>) -> Result<(), Fault> {
        let Some(stream) = &self.stream else {
            return self.session.receive(message);
        };
        match message {
            Message::Text("2probe") if !self.is_probed => {
                // A new connection has room for it.
                let answer = Frame::from_text("3probe");
                let written = stream.try_write(answer.as_bytes());
                written.map_err(|_| Fault::Protocol)?;
                self.is_probed = true;
                self.session.connection.set_probed(true);
            }
            Message::Text("5") if self.is_probed => {
                let stream = self.stream.take().ok_or(Fault::Protocol)?;
                if !self.session.connection.open_websocket(stream) {
                    return Err(Fault::Protocol);
                }
                self.held = Some(self.worker.hold(Arc::clone(self.session)));
            }
            Message::Pong => {}
            _ => {
                let close = close_frame(Some(Fault::Protocol.code()));
                let _ = stream.try_write(close.as_bytes());
                return Err(Fault::Protocol);
            }
        }
        Ok(())
    }
}
