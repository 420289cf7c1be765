//! The connections to the backend, used again and again.

use std::collections::VecDeque;
use std::fmt;
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

/// Idle connections of HTTP/1.1 that are kept, and for how long.
const IDLE: usize = 256;
const IDLE_TIME: Duration = Duration::from_secs(30);
/// A connection may turn out to be closed just when it is used again. Then the request, if the
/// connection gives it back untouched, goes to the next one, so many times.
const TRIES: usize = 3;

/// How a backend that is made for tests is to answer.
const TEST_PATTERN: &str = "x-test-pattern";
const AGENT: &str = concat!("streaming-daemon/", env!("CARGO_PKG_VERSION"));

/// Opens connections as they are needed.
///
/// With HTTP/1.1 a request has a connection to itself, and the one used last is used next. With
/// HTTP/2 it shares one with up to 99 others.
pub(super) struct Pool {
    base: Base,
    http: Http,
    key: Option<Key>,
    /// What `Http::Auto` found.
    is_http2: OnceCell<bool>,
    idle: Mutex<VecDeque<Idle>>,
    /// Held while connecting, so that requests that come meanwhile share what comes of it.
    connecting: AsyncMutex<()>,
    multiplexed: Mutex<Vec<Multiplexed>>,
    /// Serve the connections. Dropping the pool closes them.
    tasks: Mutex<JoinSet<()>>,
}

struct Idle {
    sender: http1::SendRequest<Body>,
    since: Instant,
}

#[derive(Clone)]
struct Multiplexed {
    sender: http2::SendRequest<Body>,
    /// Each request holds a further one.
    places: Arc<Places>,
}

/// The streams of a connection: as many are taken as there are further `Arc`s of this.
#[derive(Debug)]
pub(super) struct Places {
    allowed: AtomicUsize,
}

/// What a request holds of a connection.
pub(super) enum Lease {
    /// All of it.
    Whole(http1::SendRequest<Body>),
    /// One of its streams.
    Stream { _place: Arc<Places> },
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

    /// Sends a request and waits for the head of its answer.
    pub(super) async fn send(&self, ask: Ask) -> Result<Sent, BackendFailure> {
        let is_http2 = match self.http {
            Http::One => false,
            Http::Two => true,
            Http::Auto => {
                let asked = || speaks_http2(&self.base);
                *self.is_http2.get_or_try_init(asked).await?
            }
        };
        match is_http2 {
            false => self.send1(ask).await,
            true => self.send2(ask).await,
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
            let Multiplexed { mut sender, places } = self.multiplexed().await?;
            tries += 1;
            match sender.try_send_request(request).await {
                Ok(response) => return Ok((response, Lease::Stream { _place: places })),
                Err(failed) if tries == TRIES => return Err(failed.into_error().into()),
                Err(failed) => {
                    request = given_back(failed)?;
                    let is_other = |other: &Multiplexed| !Arc::ptr_eq(&other.places, &places);
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

    /// A place on a connection of HTTP/2. Only who finds none waits for somebody's connecting.
    async fn multiplexed(&self) -> Result<Multiplexed, BackendFailure> {
        if let Some(found) = self.take_place() {
            return Ok(found);
        }
        let _connecting = self.connecting.lock().await;
        // What came of the connecting that this waited for, or has become free meanwhile.
        if let Some(found) = self.take_place() {
            return Ok(found);
        }
        let (sender, connection) = connect2(&self.base).await?;
        let places = Arc::new(Places {
            allowed: AtomicUsize::new(STREAMS),
        });
        self.spawn(serve(connection, Arc::clone(&places)));
        let new = Multiplexed { sender, places };
        lock(&self.multiplexed).push(new.clone());
        Ok(new)
    }

    fn take_place(&self) -> Option<Multiplexed> {
        let mut all = lock(&self.multiplexed);
        all.retain(|connection| !connection.sender.is_closed());
        all.iter().find(|connection| connection.has_room()).cloned()
    }

    /// The idle connection that was used last, if it is still open.
    fn take_idle(&self) -> Option<http1::SendRequest<Body>> {
        let mut idle = lock(&self.idle);
        while let Some(Idle { sender, .. }) = idle.pop_back() {
            if sender.is_ready() {
                return Some(sender);
            }
        }
        None
    }

    /// Takes back what is ready for the next request.
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
        // One is the pool's own, and one that of the connection.
        let taken = Arc::strong_count(&self.places).saturating_sub(2);
        taken < self.places.allowed.load(Relaxed)
    }
}

/// Serves a connection and keeps an eye on how many streams the backend allows.
async fn serve(mut connection: Connection2, places: Arc<Places>) {
    // Its error is that of the requests it had, which hear of it too.
    let _ = poll_fn(|context| {
        let served = Pin::new(&mut connection).poll(context);
        let allowed = connection.current_max_send_streams().min(STREAMS);
        places.allowed.store(allowed, Relaxed);
        served
    })
    .await;
}

/// The request, if the connection failed before it did anything with it: a request that the backend
/// may have seen is not sent again (RFC 9110 §9.2.2).
fn given_back(mut failed: TrySendError<Request<Body>>) -> Result<Request<Body>, BackendFailure> {
    match failed.take_message() {
        Some(request) => Ok(request),
        None => Err(failed.into_error().into()),
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = formatter.debug_struct("Pool");
        all.field("base", &self.base).field("http", &self.http);
        all.finish_non_exhaustive()
    }
}
