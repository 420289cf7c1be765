//! An HTTP/1.1 server for `/metrics`, `/healthz` and further pages of a daemon.

use std::convert::Infallible;
use std::future::ready;
use std::net::{self, IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::Context as _;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, WWW_AUTHENTICATE};
use hyper::http::uri::Authority;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, server::conn::http1};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};

use crate::accept::accept;

/// Maximum time for a client to send its request head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// A GET or HEAD request for a page.
#[derive(Debug, Clone)]
pub struct PageRequest {
    /// The path as received, not decoded.
    pub path: String,
    /// The `Authorization` header, if any.
    pub authorization: Option<String>,
    /// The client's address.
    pub peer: SocketAddr,
}

/// A response page.
#[derive(Debug, Clone)]
pub struct Page {
    /// The HTTP status code.
    pub status: u16,
    /// The `Content-Type`.
    pub content_type: &'static str,
    /// The content.
    pub body: String,
    /// The `WWW-Authenticate` header, for status 401.
    pub challenge: Option<&'static str>,
}

impl Page {
    /// Creates a page in the Prometheus text format.
    #[must_use]
    pub fn metrics(body: String) -> Self {
        Self {
            status: 200,
            content_type: "text/plain; version=0.0.4; charset=utf-8",
            body,
            challenge: None,
        }
    }

    /// Creates the `/healthz` of a daemon that cannot do its work.
    #[must_use]
    pub fn problem(text: String) -> Self {
        Self {
            status: 503,
            content_type: "text/plain; charset=utf-8",
            body: text + "\n",
            challenge: None,
        }
    }
}

/// The listener of the pages. It is already listening: a scraper that connects waits until it is served.
#[derive(Debug)]
pub struct MetricsServer {
    listener: net::TcpListener,
}

impl MetricsServer {
    /// Listens on an address. `remedy` completes the error message: "choose another port with --metrics-port".
    ///
    /// # Errors
    /// The address can't be listened on, most often because it is in use.
    pub fn bind(address: SocketAddr, remedy: &str) -> anyhow::Result<Self> {
        let listener = net::TcpListener::bind(address)
            .with_context(|| format!("cannot listen on {address} for the metrics ({remedy})"))?;
        listener
            .set_nonblocking(true)
            .context("cannot make the metrics listener non-blocking")?;
        Ok(Self { listener })
    }

    /// Returns the address, with the port that the system chose if it was 0.
    ///
    /// # Errors
    /// The system call fails.
    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        self.listener
            .local_addr()
            .context("cannot determine the address of the metrics")
    }

    /// Serves the output of `metrics` as `/metrics`, and `/healthz`: `ok`, or a `problem` of the daemon with status
    /// 503. Ends only with an error: dropping the future closes the connections. The future is `Send` if the functions
    /// may be shared between threads. Needs a Tokio runtime with I/O and time.
    ///
    /// # Errors
    /// The runtime cannot watch the listener.
    pub async fn serve(
        self,
        metrics: impl Fn() -> String,
        problem: impl Fn() -> Option<String>,
    ) -> anyhow::Result<Infallible> {
        self.serve_with(|request| {
            ready(match request.path.as_str() {
                "/metrics" => Some(Page::metrics(metrics())),
                "/healthz" => problem().map(Page::problem),
                _ => None,
            })
        })
        .await
    }

    /// Like [`serve`](Self::serve), but with the pages returned by `answer`. Without one, `/healthz` is `ok`.
    ///
    /// # Errors
    /// The runtime cannot watch the listener.
    pub async fn serve_with<A>(
        self,
        answer: impl Fn(PageRequest) -> A,
    ) -> anyhow::Result<Infallible>
    where
        A: Future<Output = Option<Page>>,
    {
        let listener = TcpListener::from_std(self.listener)
            .context("cannot watch the listener of the metrics")?;
        let mut connections = FuturesUnordered::new();
        loop {
            tokio::select! {
                (client, peer) = accept(&listener, |_| ()) => {
                    connections.push(serve_client(client, peer, &answer));
                }
                Some(()) = connections.next() => {}
            }
        }
    }
}

async fn serve_client<A>(client: TcpStream, peer: SocketAddr, answer: &impl Fn(PageRequest) -> A)
where
    A: Future<Output = Option<Page>>,
{
    // Only pages of this machine's browsers reach a loopback address by a name of their own.
    let is_loopback = client
        .local_addr()
        .is_ok_and(|address| address.ip().to_canonical().is_loopback());
    let service = service_fn(|request| async move {
        if is_loopback && !names_an_address(&request) {
            let problem = "this is a loopback address: use it, or localhost, instead of a name\n";
            return Ok(text(StatusCode::MISDIRECTED_REQUEST, problem));
        }
        Ok::<_, Infallible>(respond(&request, peer, answer).await)
    });
    // An error here is the client's: it disconnected, or did not speak HTTP.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        // A client that has ended its side may wait for its answer (RFC 9112, 9.6).
        .half_close(true)
        .serve_connection(TokioIo::new(client), service)
        .await;
}

/// Returns true if a request names an address, `localhost` or nothing as its host. A web page whose own name leads to
/// this machine names that.
fn names_an_address(request: &Request<Incoming>) -> bool {
    let Some(host) = request.headers().get(HOST) else {
        return true;
    };
    let authority = Authority::try_from(host.as_bytes());
    authority.is_ok_and(|authority| {
        let name = authority.host().trim_matches(['[', ']']);
        name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
    })
}

async fn respond<A>(
    request: &Request<Incoming>,
    peer: SocketAddr,
    answer: &impl Fn(PageRequest) -> A,
) -> Response<Full<Bytes>>
where
    A: Future<Output = Option<Page>>,
{
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    let path = request.uri().path();
    let is_health = path == "/healthz";
    let authorization = request.headers().get(AUTHORIZATION);
    let authorization = authorization.and_then(|value| value.to_str().ok());
    let page_request = PageRequest {
        path: path.to_owned(),
        authorization: authorization.map(str::to_owned),
        peer,
    };
    let Some(page) = answer(page_request).await else {
        if is_health {
            return text(StatusCode::OK, "ok\n");
        }
        return text(
            StatusCode::NOT_FOUND,
            "page not found; try /metrics or /healthz\n",
        );
    };
    let status = StatusCode::from_u16(page.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = text(status, page.body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(page.content_type));
    if let Some(challenge) = page.challenge {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    response
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn exchange(address: SocketAddr, request: &str) -> String {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        client.read_to_string(&mut response).await.unwrap();
        response
    }

    #[tokio::test]
    async fn metrics_and_health_are_served_and_nothing_else() {
        let server = MetricsServer::bind(([127, 0, 0, 1], 0).into(), "").unwrap();
        let address = server.address().unwrap();
        let scrapes = async {
            for (request, status, content) in [
                ("GET /metrics", "200", "test_open 1\n"),
                ("HEAD /metrics", "200", "version=0.0.4"),
                ("GET /healthz", "200", "ok\n"),
                ("GET /", "404", "try /metrics"),
                ("POST /metrics", "405", "GET and HEAD"),
            ] {
                let request =
                    format!("{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
                let response = exchange(address, &request).await;
                let expected = format!("HTTP/1.1 {status}");
                assert!(response.starts_with(&expected), "{request}{response}");
                assert!(response.contains(content), "{request}{response}");
            }
        };
        tokio::select! {
            ended = server.serve(|| "test_open 1\n".to_owned(), || None) => panic!("{ended:?}"),
            () = scrapes => {}
        }
    }

    #[tokio::test]
    async fn a_page_of_another_name_is_refused_on_loopback() {
        let server = MetricsServer::bind(([127, 0, 0, 1], 0).into(), "").unwrap();
        let address = server.address().unwrap();
        let requests = async {
            for (host, status) in [
                ("Host: 127.0.0.1:9090\r\n", "200"),
                ("Host: [::1]:9090\r\n", "200"),
                ("Host: LocalHost\r\n", "200"),
                ("", "200"),
                ("Host: rebound.example:9090\r\n", "421"),
                ("Host: localhost.example\r\n", "421"),
                ("Host: 127.0.0.1.example\r\n", "421"),
                ("Host: \r\n", "421"),
            ] {
                let request = format!("GET /metrics HTTP/1.0\r\n{host}\r\n");
                let response = exchange(address, &request).await;
                let expected = format!("HTTP/1.0 {status}");
                assert!(response.starts_with(&expected), "{request}{response}");
            }
        };
        tokio::select! {
            ended = server.serve(String::new, || None) => panic!("{ended:?}"),
            () = requests => {}
        }
    }

    #[tokio::test]
    async fn a_client_that_ends_its_side_gets_its_page() {
        let server = MetricsServer::bind(([127, 0, 0, 1], 0).into(), "").unwrap();
        let address = server.address().unwrap();
        let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let scrapes = async {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(request).await.unwrap();
            // After an answer, the server waits for data: it finds the next request together with the end.
            assert_ne!(client.read(&mut [0; 1024]).await.unwrap(), 0);
            client.write_all(request).await.unwrap();
            client.shutdown().await.unwrap();
            let mut response = String::new();
            client.read_to_string(&mut response).await.unwrap();
            assert!(response.ends_with("test_open 1\n"), "{response}");
        };
        tokio::select! {
            ended = server.serve(|| "test_open 1\n".to_owned(), || None) => panic!("{ended:?}"),
            () = scrapes => {}
        }
    }

    #[tokio::test]
    async fn further_pages_see_the_authorization_and_may_challenge() {
        let server = MetricsServer::bind(([127, 0, 0, 1], 0).into(), "").unwrap();
        let address = server.address().unwrap();
        let answer = |request: PageRequest| async move {
            let is_known = request.authorization.as_deref() == Some("Basic x");
            Some(Page {
                status: if is_known { 200 } else { 401 },
                content_type: "application/json",
                body: "{}".to_owned(),
                challenge: (!is_known).then_some("Basic realm=\"test\""),
            })
        };
        let head = "GET /api HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
        let scrapes = async {
            let refused = exchange(address, &format!("{head}\r\n")).await;
            assert!(
                refused.contains("401 ") && refused.contains("realm="),
                "{refused}"
            );
            let known = format!("{head}Authorization: Basic x\r\n\r\n");
            let accepted = exchange(address, &known).await;
            assert!(accepted.contains("application/json"), "{accepted}");
        };
        tokio::select! {
            ended = server.serve_with(answer) => panic!("{ended:?}"),
            () = scrapes => {}
        }
    }

    #[test]
    fn an_address_in_use_is_reported_with_the_remedy() {
        let first = MetricsServer::bind(([127, 0, 0, 1], 0).into(), "").unwrap();
        let error = MetricsServer::bind(first.address().unwrap(), "use --metrics-addr");
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("for the metrics (use --metrics-addr)"),
            "{error}"
        );
    }
}
