//! A pool of connections to the backend.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Response, Uri};
use tokio::sync::{Mutex as AsyncMutex, OnceCell};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::base::Base;
use super::chat::Ask;
use super::failure::BackendFailure;
use super::key::Key;
use super::wire::{Body, Connection2, Http, STREAMS, connect1, connect2, speaks_http2};

/// Maximum number of idle HTTP/1.1 connections, and how long they are kept.
const IDLE: usize = 256;
const IDLE_TIME: Duration = Duration::from_secs(30);
/// Maximum number of attempts to send a request. A connection may turn out to be closed just when it is reused; the
/// request goes to the next one if the connection returns it untouched.
const TRIES: usize = 3;

/// The header field that selects the response of a test backend.
const TEST_PATTERN: &str = "x-test-pattern";
const AGENT: &str = concat!("streaming-daemon/", env!("CARGO_PKG_VERSION"));

/// A pool that opens connections as they are needed.
///
/// With HTTP/1.1 a request has its own connection, and the most recently used one is used next. With HTTP/2 it shares a
/// connection with up to 99 others.
#[derive(Debug)]
pub(super) struct Pool {
    base: Base,
    http: Http,
    key: Option<Key>,
    /// The result of `Http::Auto`.
    is_http2: OnceCell<bool>,
    idle: Mutex<VecDeque<Idle>>,
    /// Held while connecting, so that requests that arrive meanwhile share the new connection.
    connecting: AsyncMutex<()>,
    multiplexed: Mutex<Vec<Multiplexed>>,
    /// The tasks that serve the connections. Dropping the pool closes them.
    tasks: Mutex<JoinSet<()>>,
}

#[derive(Debug)]
struct Idle {
    sender: http1::SendRequest<Body>,
    since: Instant,
}

#[derive(Debug, Clone)]
struct Multiplexed {
    sender: http2::SendRequest<Body>,
    /// Number of streams that the backend allows. Each further `Arc` of this is a stream in use.
    slots: Arc<AtomicUsize>,
}

/// The part of a connection that a request holds.
pub(super) enum Lease {
    /// The whole connection.
    Whole(http1::SendRequest<Body>),
    /// A stream of the connection.
    Stream { _slot: Arc<AtomicUsize> },
}

type Sent = (Response<Incoming>, Lease);

impl Pool {
    pub(super) fn new(base: Base, http: Http, key: Option<Key>) -> Self {
        Self {
            base,
            http,
            key,
            is_http2: OnceCell::new(),
            idle: Mutex::default(),
            connecting: AsyncMutex::default(),
            multiplexed: Mutex::default(),
            tasks: Mutex::default(),
        }
    }

    /// Sends a request and waits for the head of its response.
    pub(super) async fn send(&self, ask: Ask) -> Result<Sent, BackendFailure> {
        let is_http2 = match self.http {
            Http::One => false,
            Http::Two => true,
            Http::Auto => {
                let asked = || speaks_http2(&self.base);
                *self.is_http2.get_or_try_init(asked).await?
            }
        };
        if is_http2 {
            self.send2(ask).await
        } else {
            self.send1(ask).await
        }
    }

    async fn send1(&self, ask: Ask) -> Result<Sent, BackendFailure> {
        let path = Uri::from(self.base.path.clone());
        let mut request = self.request(path, ask);
        let host = HeaderValue::from_str(self.base.authority.as_str());
        let host = host.expect("an authority is a header value");
        request.headers_mut().insert(HOST, host);
        for _ in 1..TRIES {
            let Some(mut sender) = self.take_idle() else {
                break;
            };
            match sender.try_send_request(request).await {
                Ok(response) => return Ok((response, Lease::Whole(sender))),
                Err(failed) => request = given_back(failed)?,
            }
        }
        let (mut sender, connection) = connect1(&self.base).await?;
        self.spawn(connection);
        let response = sender.send_request(request).await?;
        Ok((response, Lease::Whole(sender)))
    }

    async fn send2(&self, ask: Ask) -> Result<Sent, BackendFailure> {
        let mut request = self.request(self.base.uri(), ask);
        let mut tries = 0;
        loop {
            let Multiplexed { mut sender, slots } = self.multiplexed().await?;
            tries += 1;
            match sender.try_send_request(request).await {
                Ok(response) => return Ok((response, Lease::Stream { _slot: slots })),
                Err(failed) if tries == TRIES => return Err(failed.into_error().into()),
                Err(failed) => {
                    request = given_back(failed)?;
                    let is_other = |other: &Multiplexed| !Arc::ptr_eq(&other.slots, &slots);
                    lock(&self.multiplexed).retain(is_other);
                }
            }
        }
    }

    fn request(&self, uri: Uri, ask: Ask) -> Request<Body> {
        let mut request = Request::new(Full::new(ask.body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        if let Some(key) = &self.key {
            headers.insert(AUTHORIZATION, key.header().clone());
        }
        if let Some(pattern) = ask.test_pattern {
            headers.insert(TEST_PATTERN, pattern);
        }
        request
    }

    /// Returns a stream of an HTTP/2 connection. A request waits for a connection attempt only if no stream is free.
    async fn multiplexed(&self) -> Result<Multiplexed, BackendFailure> {
        if let Some(found) = self.take_slot() {
            return Ok(found);
        }
        let _connecting = self.connecting.lock().await;
        // Taken from the connection that was awaited here, or that has become free meanwhile.
        if let Some(found) = self.take_slot() {
            return Ok(found);
        }
        let (sender, connection) = connect2(&self.base).await?;
        let slots = Arc::new(AtomicUsize::new(STREAMS));
        self.spawn(serve(connection, Arc::clone(&slots)));
        let new = Multiplexed { sender, slots };
        lock(&self.multiplexed).push(new.clone());
        Ok(new)
    }

    fn take_slot(&self) -> Option<Multiplexed> {
        let mut all = lock(&self.multiplexed);
        all.retain(|connection| !connection.sender.is_closed());
        all.iter().find(|connection| connection.has_room()).cloned()
    }

    /// Takes the most recently used idle connection, if it is still open.
    fn take_idle(&self) -> Option<http1::SendRequest<Body>> {
        let mut idle = lock(&self.idle);
        while let Some(Idle { sender, .. }) = idle.pop_back() {
            if sender.is_ready() {
                return Some(sender);
            }
        }
        None
    }

    /// Returns a connection that is ready for the next request to the pool.
    pub(super) fn put_back(&self, sender: http1::SendRequest<Body>) {
        let mut idle = lock(&self.idle);
        let now = Instant::now();
        idle.push_back(Idle { sender, since: now });
        let is_old = |idle: &Idle| idle.since + IDLE_TIME < now;
        while idle.len() > IDLE || idle.front().is_some_and(is_old) {
            idle.pop_front();
        }
    }

    fn spawn(&self, connection: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(connection);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Multiplexed {
    fn has_room(&self) -> bool {
        // Two references belong to the pool and to the connection.
        let taken = Arc::strong_count(&self.slots).saturating_sub(2);
        taken < self.slots.load(Relaxed)
    }
}

/// Serves a connection and follows the number of streams that the backend allows.
async fn serve(mut connection: Connection2, slots: Arc<AtomicUsize>) {
    // Its error is also reported to the requests it had.
    let _ = poll_fn(|context| {
        let served = Pin::new(&mut connection).poll(context);
        let allowed = connection.current_max_send_streams().min(STREAMS);
        slots.store(allowed, Relaxed);
        served
    })
    .await;
}

/// Returns the request if the connection failed before it processed any of it: a request that the backend may have seen
/// is not sent again (RFC 9110 §9.2.2).
fn given_back(mut failed: TrySendError<Request<Body>>) -> Result<Request<Body>, BackendFailure> {
    match failed.take_message() {
        Some(request) => Ok(request),
        None => Err(failed.into_error().into()),
    }
}
