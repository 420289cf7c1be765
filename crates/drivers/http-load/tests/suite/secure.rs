//! A hyper server, with a certificate that is generated for it.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use harness_testing::certificate::Certificate;
use harness_testing::peer;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::LOCATION;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tempfile::NamedTempFile;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

/// The response body of every request but `/redirect/N`, which starts a chain of N redirects, and `/length`, which
/// answers with the length of the request's body.
pub(crate) const CONTENT: &str = "hello over any version";

/// The protocols of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spoken {
    /// HTTP/1.1 and HTTP/2 over TLS.
    Https,
    /// HTTP/1.1 over TLS, without ALPN.
    Https1,
    /// HTTP/2 without TLS.
    Http2,
}

/// A server that listens until it is dropped.
pub(crate) struct Secure {
    address: SocketAddr,
    scheme: &'static str,
    pem: String,
    seen: Arc<Seen>,
    _runtime: Runtime,
}

#[derive(Default)]
struct Seen {
    requests: AtomicU64,
    now: AtomicU64,
    most: AtomicU64,
}

impl Secure {
    pub(crate) fn start(spoken: Spoken) -> Self {
        Self::showing(spoken, false)
    }

    /// Starts a server with a CA certificate, like one of `openssl req -x509`.
    pub(crate) fn showing_a_ca(spoken: Spoken) -> Self {
        Self::showing(spoken, true)
    }

    fn showing(spoken: Spoken, is_ca: bool) -> Self {
        let certificate = Certificate::new("localhost", is_ca);
        let mut config = certificate.server(None);
        if spoken == Spoken::Https {
            config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        }
        let acceptor = (spoken != Spoken::Http2).then(|| TlsAcceptor::from(Arc::new(config)));
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        runtime.spawn(accept(listener, acceptor, Arc::clone(&seen)));
        Self {
            address,
            scheme: if spoken == Spoken::Http2 {
                "http"
            } else {
                "https"
            },
            pem: certificate.pem,
            seen,
            _runtime: runtime,
        }
    }

    pub(crate) fn url(&self, host: &str) -> String {
        format!("{}://{host}:{}/", self.scheme, self.address.port())
    }

    /// Returns a file with its certificate.
    pub(crate) fn certificate(&self) -> NamedTempFile {
        let file = NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &self.pem).unwrap();
        file
    }

    pub(crate) fn requests(&self) -> u64 {
        self.seen.requests.load(SeqCst)
    }

    /// Returns the maximum number of concurrent requests.
    pub(crate) fn most_at_once(&self) -> u64 {
        self.seen.most.load(SeqCst)
    }
}

/// Starts a server that plays a part on each connection after the handshake. Returns its URL.
pub(crate) fn serve_by(
    act: impl Fn(&mut StreamOwned<ServerConnection, TcpStream>) -> io::Result<()>
    + Send
    + Sync
    + 'static,
) -> String {
    serve_with(Certificate::new("localhost", false).server(None), act)
}

/// The same with a configuration of its own.
pub(crate) fn serve_with(
    config: ServerConfig,
    act: impl Fn(&mut StreamOwned<ServerConnection, TcpStream>) -> io::Result<()>
    + Send
    + Sync
    + 'static,
) -> String {
    let config = Arc::new(config);
    let address = peer::serve(move |tcp| {
        let tls = ServerConnection::new(Arc::clone(&config)).unwrap();
        act(&mut StreamOwned::new(tls, tcp))
    });
    format!("https://{address}/")
}

async fn accept(listener: TcpListener, acceptor: Option<TlsAcceptor>, seen: Arc<Seen>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, seen) = (acceptor.clone(), Arc::clone(&seen));
        tokio::spawn(async move {
            let Some(acceptor) = acceptor else {
                return serve(stream, true, seen).await;
            };
            // A client that does not trust the certificate leaves.
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            serve(stream, is_http2, seen).await;
        });
    }
}

async fn serve<S>(stream: S, is_http2: bool, seen: Arc<Seen>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let seen = Arc::clone(&seen);
        async move {
            seen.requests.fetch_add(1, SeqCst);
            let now = seen.now.fetch_add(1, SeqCst) + 1;
            seen.most.fetch_max(now, SeqCst);
            // Lets the other requests arrive.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            seen.now.fetch_sub(1, SeqCst);
            if request.uri().path() == "/length" {
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let length = body.len().to_string();
                return Ok(Response::new(Full::new(Bytes::from(length))));
            }
            Ok::<_, Infallible>(answer(request.uri().path()))
        }
    });
    let io = TokioIo::new(stream);
    // The client ends the connection.
    let _ = if is_http2 {
        http2::Builder::new(TokioExecutor::new())
            .serve_connection(io, service)
            .await
    } else {
        http1::Builder::new().serve_connection(io, service).await
    };
}

fn answer(path: &str) -> Response<Full<Bytes>> {
    let left = path.strip_prefix("/redirect/");
    let left = left.and_then(|left| left.parse::<u32>().ok());
    let Some(left) = left.and_then(|left| left.checked_sub(1)) else {
        return Response::new(Full::new(Bytes::from(CONTENT)));
    };
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = StatusCode::FOUND;
    let location = format!("{left}").parse().unwrap();
    answer.headers_mut().insert(LOCATION, location);
    answer
}

/// Reads until the end of a request without a body, and returns its head.
pub(crate) fn request(connection: &mut impl io::Read) -> io::Result<String> {
    let mut seen = Vec::new();
    while !seen.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        connection.read_exact(&mut byte)?;
        seen.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&seen).into_owned())
}
