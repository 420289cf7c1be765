//! The HTTP clients of the backend.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Response, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::OnceCell;
use tokio::time::timeout;
use tower_service::Service;

use super::address::BackendAddress;
use super::chat::BackendRequest;
use super::failure::BackendFailure;
use super::key::Key;

/// Maximum number of idle HTTP/1.1 connections, and how long they are kept.
const IDLE: usize = 256;
const IDLE_TIME: Duration = Duration::from_secs(30);
/// Number of streams on one HTTP/2 connection. RFC 9113 §6.5.2 recommends servers to allow no fewer than 100; requests
/// above a lower limit wait.
const STREAMS: usize = 100;
/// Number of bytes that the backend may send ahead on a stream whose client does not read.
const STREAM_WINDOW: u32 = 64 << 10;
/// The same for the whole connection: large enough that full streams leave it open to the others.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * STREAMS as u32;
/// Number of bytes of an HTTP/1.1 response that are read ahead.
const READ_AHEAD: usize = 64 << 10;
/// Timeout of a ping. A connection without an answer is given up, so that no more requests are sent to an unreachable
/// backend.
const PING: Duration = Duration::from_secs(10);

/// The connection preface of HTTP/2 (RFC 9113 §3.4), with an empty SETTINGS frame.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// Length of a frame header (RFC 9113 §4.1).
const FRAME_HEAD: usize = 9;
/// Time for a server to show that it supports HTTP/2.
const PREFACE_TIMEOUT: Duration = Duration::from_secs(1);

/// The header field that selects the response of a test backend.
const TEST_PATTERN: &str = "x-test-pattern";
const AGENT: &str = concat!("streaming-daemon/", env!("CARGO_PKG_VERSION"));

/// The HTTP version used with the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Http {
    /// HTTP/1.1: one connection per open stream.
    #[value(name = "1")]
    One,
    /// HTTP/2 with prior knowledge: up to 100 streams per connection.
    #[value(name = "2")]
    Two,
    /// HTTP/2 if the backend responds to its preface, otherwise HTTP/1.1.
    Auto,
}

/// The clients of one backend, which open connections as they are needed.
///
/// With HTTP/1.1 one client has all connections, and the most recently used one is used next. With HTTP/2 a client has
/// one connection, so there is a client for every [`STREAMS`] open requests.
#[derive(Debug)]
pub(super) struct Clients {
    address: BackendAddress,
    http: Http,
    key: Option<Key>,
    /// The result of `Http::Auto`.
    is_http2: OnceCell<bool>,
    /// Each further `Arc` of a client is an open request.
    clients: Mutex<Vec<Arc<HttpClient>>>,
}

#[derive(Debug)]
pub(super) enum HttpClient {
    Tcp(Client<HttpConnector, Full<Bytes>>),
    Unix(Client<UnixConnector, Full<Bytes>>),
}

impl Clients {
    pub(super) fn new(address: BackendAddress, http: Http, key: Option<Key>) -> Self {
        Self {
            address,
            http,
            key,
            is_http2: OnceCell::new(),
            clients: Mutex::default(),
        }
    }

    /// Sends a request and waits for the head of its response. The client must be kept as long as the response is read.
    pub(super) async fn send(
        &self,
        request: BackendRequest,
    ) -> Result<(Response<Incoming>, Arc<HttpClient>), BackendFailure> {
        let is_http2 = match self.http {
            Http::One => false,
            Http::Two => true,
            Http::Auto => {
                let probe = || speaks_http2(&self.address);
                let spoken = self.is_http2.get_or_try_init(probe).await;
                *spoken.map_err(BackendFailure::Connect)?
            }
        };
        let client = self.client(is_http2);
        let response = client.send(self.http_request(request)).await?;
        Ok((response, client))
    }

    /// Returns a client that has room for a request.
    fn client(&self, is_http2: bool) -> Arc<HttpClient> {
        let limit = if is_http2 { STREAMS } else { usize::MAX };
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = |client: &&Arc<HttpClient>| Arc::strong_count(client) <= limit;
        if let Some(client) = clients.iter().find(has_room) {
            return Arc::clone(client);
        }
        let client = Arc::new(HttpClient::new(&self.address, is_http2));
        clients.push(Arc::clone(&client));
        client
    }

    fn http_request(&self, request: BackendRequest) -> Request<Full<Bytes>> {
        let mut http = Request::new(Full::new(request.body));
        *http.method_mut() = Method::POST;
        *http.uri_mut() = self.address.uri.clone();
        let headers = http.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        if let Some(key) = &self.key {
            headers.insert(AUTHORIZATION, key.header().clone());
        }
        if let Some(pattern) = request.test_pattern {
            headers.insert(TEST_PATTERN, pattern);
        }
        http
    }
}

impl HttpClient {
    fn new(address: &BackendAddress, is_http2: bool) -> Self {
        let mut builder = Client::builder(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIME)
            .pool_max_idle_per_host(IDLE)
            .http1_max_buf_size(READ_AHEAD)
            .http2_only(is_http2)
            .http2_initial_stream_window_size(STREAM_WINDOW)
            .http2_initial_connection_window_size(CONNECTION_WINDOW)
            .http2_initial_max_send_streams(STREAMS)
            .http2_keep_alive_interval(PING)
            .http2_keep_alive_timeout(PING);
        match &address.socket {
            Some(path) => Self::Unix(builder.build(UnixConnector(Arc::clone(path)))),
            None => {
                let mut connector = HttpConnector::new();
                connector.set_nodelay(true);
                Self::Tcp(builder.build(connector))
            }
        }
    }

    /// Sends a request. It is sent again only if its connection closed before it was sent (RFC 9110 §9.2.2).
    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Error> {
        match self {
            Self::Tcp(client) => client.request(request).await,
            Self::Unix(client) => client.request(request).await,
        }
    }
}

/// Connects to a Unix socket, whatever the address of a request is.
#[derive(Debug, Clone)]
pub(super) struct UnixConnector(Arc<Path>);

impl Service<Uri> for UnixConnector {
    type Response = TokioIo<UnixStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let path = Arc::clone(&self.0);
        Box::pin(async move { UnixStream::connect(path).await.map(TokioIo::new) })
    }
}

/// Returns true if the backend supports HTTP/2.
async fn speaks_http2(address: &BackendAddress) -> io::Result<bool> {
    if let Some(path) = &address.socket {
        return Ok(answers_preface(UnixStream::connect(path).await?).await);
    }
    let stream = TcpStream::connect(address.host_and_port()).await?;
    Ok(answers_preface(stream).await)
}

/// Returns true if the server starts with a SETTINGS frame. A server that does not know the preface sends something
/// else, or nothing.
async fn answers_preface(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> bool {
    let first_frame = async {
        stream.write_all(PREFACE).await?;
        let mut head = [0; FRAME_HEAD];
        stream.read_exact(&mut head).await?;
        Ok::<_, io::Error>(head)
    };
    let head = timeout(PREFACE_TIMEOUT, first_frame).await;
    // The frame type is SETTINGS, on stream 0.
    matches!(head, Ok(Ok([_, _, _, 4, _, 0, 0, 0, 0])))
}
