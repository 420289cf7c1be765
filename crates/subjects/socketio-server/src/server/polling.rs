//! Long-polling: a GET request waits for packets of the server, and a POST request carries packets of the client.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

use crate::counts::{Count, Counts};
use crate::disconnect_reason::DisconnectReason;
use crate::engine::connection::Connection;
use crate::engine::payload;
use crate::engine::websocket::Fault;
use crate::server::refusal::Refusal;
use crate::server::worker::{Held, Worker};
use crate::session::{Protocol, Session};

/// Time in which the poll of a client arrives that has closed its session meanwhile.
const OVERTAKEN: Duration = Duration::from_secs(1);

/// Opens a session, and returns the payload of its handshake.
pub(crate) fn open(worker: &Rc<Worker>, protocol: Protocol) -> Result<Vec<u8>, Refusal> {
    let engine = &worker.engine;
    let session = Session::new(engine, protocol).ok_or(Refusal::Full)?;
    engine.counts.add(Count::HandshakesPolling, 1);
    worker.polled.insert(&session);
    let handshake = session.handshake(&["websocket"]);
    spawn_local(hold(worker.hold(session)));
    Ok(handshake.into_bytes())
}

/// Keeps a session until it ends or a WebSocket takes over.
async fn hold(held: Held) {
    let session = Arc::clone(held.session());
    let worker = Rc::clone(held.worker());
    let connection = &session.connection;
    match poll_fn(|context| connection.poll_end_of_polling(context)).await {
        None => held.hand_over(),
        Some(DisconnectReason::Client) => {
            held.hand_over();
            session.finish(DisconnectReason::Client);
            // The client's GET may be under way on another connection.
            sleep(OVERTAKEN).await;
            worker.free(&session);
        }
        Some(_) => drop(held),
    }
}

/// Waits for packets. Returns the payload of the response.
pub(crate) async fn poll(worker: &Worker, session: &Session) -> Result<Vec<u8>, Refusal> {
    let connection = &session.connection;
    if connection.is_upgraded() {
        return Err(Refusal::BadRequest);
    }
    if !connection.begin_poll() {
        session.refuse(Fault::Protocol);
        return Err(Refusal::BadRequest);
    }
    let counts = &worker.engine.counts;
    let mut poll = Poll::begin(connection, counts);
    let frames = poll_fn(|context| connection.poll_queue(context)).await;
    poll.is_answered = true;
    let payload = payload::encode(&frames.ok_or(Refusal::UnknownSession)?);
    counts.add(Count::BytesSent, payload.len() as u64);
    Ok(payload)
}

/// A GET request that waits. If it is dropped because the client cancelled it, the session ends: packets might have
/// been lost.
struct Poll<'a> {
    connection: &'a Connection,
    counts: &'a Counts,
    is_answered: bool,
}

impl<'a> Poll<'a> {
    fn begin(connection: &'a Connection, counts: &'a Counts) -> Self {
        counts.begin_poll();
        Self {
            connection,
            counts,
            is_answered: false,
        }
    }
}

impl Drop for Poll<'_> {
    fn drop(&mut self) {
        self.connection.end_poll();
        if !self.is_answered {
            self.connection.close(DisconnectReason::ConnectionLost);
        }
        self.counts.end_poll();
    }
}

/// Handles the packets of a POST request.
pub(crate) async fn post(
    worker: &Worker,
    session: &Arc<Session>,
    body: &mut Incoming,
) -> Result<(), Refusal> {
    if session.connection.end().is_some() {
        return Err(Refusal::UnknownSession);
    }
    if session.connection.is_upgraded() {
        return Err(Refusal::BadRequest);
    }
    if session.is_posting.swap(true, Relaxed) {
        session.refuse(Fault::Protocol);
        return Err(Refusal::BadRequest);
    }
    let mut posting = Posting {
        session,
        is_read: false,
    };
    let body = read(worker, body).await;
    // A body that is too large is answered, and the session goes on.
    posting.is_read = !matches!(body, Err(Refusal::BadRequest));
    let body = body?;
    let received = payload::decode(&body, |message| session.receive(message));
    drop(posting);
    received.map_err(|fault| {
        session.refuse(fault);
        Refusal::BadRequest
    })
}

async fn read(worker: &Worker, body: &mut Incoming) -> Result<Bytes, Refusal> {
    let limit = worker.engine.config.max_payload;
    if body.size_hint().lower() > limit as u64 {
        return Err(Refusal::TooLarge);
    }
    let collected = Limited::new(body, limit).collect();
    let collected = timeout(worker.engine.config.silence_limit(), collected).await;
    let collected = collected.map_err(|_| Refusal::BadRequest)?;
    let body = collected.map_err(|error| {
        if error.is::<LengthLimitError>() {
            Refusal::TooLarge
        } else {
            Refusal::BadRequest
        }
    })?;
    let bytes = body.to_bytes();
    let counts = &worker.engine.counts;
    counts.add(Count::BytesReceived, bytes.len() as u64);
    Ok(bytes)
}

/// A POST request that is being handled. If its body does not arrive, the session ends: packets of the client are lost.
struct Posting<'a> {
    session: &'a Session,
    is_read: bool,
}

impl Drop for Posting<'_> {
    fn drop(&mut self) {
        self.session.is_posting.store(false, Relaxed);
        if !self.is_read {
            let reason = DisconnectReason::ConnectionLost;
            self.session.connection.close(reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::task::{Context, Poll as Polled, Wake, Waker};
    use std::thread::{self, Thread};

    use super::*;
    use crate::engine::frame::Frame;
    use crate::engine::websocket::close_frame;

    /// Wakes a thread.
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    /// Runs a poll function to its end on this thread.
    fn wait<T>(mut poll: impl FnMut(&mut Context<'_>) -> Polled<T>) -> T {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        loop {
            if let Polled::Ready(value) = poll(&mut Context::from_waker(&waker)) {
                return value;
            }
            thread::park();
        }
    }

    /// A GET, the POST that closes the session, and the task that ends it may run on three workers.
    #[test]
    fn a_poll_that_waits_gets_the_last_packets_of_a_session_that_ends_on_another_worker() {
        for round in 0..test_kit::scaled(3_000) {
            let connection = Connection::new(1_000, Arc::new(Counts::new(1)));
            let waits = Barrier::new(3);
            let payload = thread::scope(|scope| {
                let get = scope.spawn(|| {
                    assert!(connection.begin_poll());
                    waits.wait();
                    let frames = wait(|context| connection.poll_queue(context));
                    connection.end_poll();
                    payload::encode(&frames.expect("the queue had packets when the session ended"))
                });
                scope.spawn(|| {
                    waits.wait();
                    if round.is_multiple_of(2) {
                        connection.send(Frame::from_text("4a"));
                    }
                    connection.close_with(|| close_frame(None), "6", DisconnectReason::Client);
                });
                scope.spawn(|| {
                    waits.wait();
                    let ended = wait(|context| connection.poll_end_of_polling(context));
                    assert_eq!(ended, Some(DisconnectReason::Client));
                    connection.release();
                });
                get.join().expect("no panic")
            });
            let expected: &[&[u8]] = if round.is_multiple_of(2) {
                // The event may be taken before the session is closed.
                &[b"4a\x1e6", b"4a"]
            } else {
                &[b"6"]
            };
            assert!(expected.contains(&&*payload), "{payload:?}");
        }
    }
}
