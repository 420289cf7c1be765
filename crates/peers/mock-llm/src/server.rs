//! The server: accepts connections and responds to requests.

use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use nix::libc::linger;
use nix::sys::socket::{setsockopt, sockopt};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::asked::ChatRequest;
use crate::counts::{Counts, Open};
use crate::listener::{Connection, Listener};
use crate::options::Settings;
use crate::pattern::Pattern;
use crate::script::{Aborted, Script};

/// Maximum length of a request body.
const BODY_LIMIT: usize = 1 << 20;
/// The header field that names a pattern.
const TEST_PATTERN: &str = "x-test-pattern";
/// Pause after a failed accept, most likely for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A server that is not listening yet.
#[derive(Debug)]
pub struct Server {
    settings: Settings,
    counts: Arc<Counts>,
}

type Answer = Response<UnsyncBoxBody<Bytes, Aborted>>;

impl Server {
    /// Creates a server with these settings.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            counts: Arc::default(),
        }
    }

    /// Returns the counters, which can be read while the server runs.
    #[must_use]
    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }

    /// Serves until `shutdown` is ready, then aborts open connections. Dropping the future does the same.
    pub async fn run(self, listener: Listener, shutdown: impl Future<Output = ()>) {
        let server = Arc::new(self);
        let mut connections = JoinSet::new();
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => return,
                accepted = listener.accept() => match accepted {
                    Ok((Connection::Tcp(client), socket)) => {
                        connections.spawn(serve(client, socket, Arc::clone(&server)));
                    }
                    Ok((Connection::Unix(client), socket)) => {
                        connections.spawn(serve(client, socket, Arc::clone(&server)));
                    }
                    Err(_) => sleep(ACCEPT_PAUSE).await,
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>, socket: Arc<OwnedFd>) -> Answer {
        match (request.method(), request.uri().path()) {
            (&Method::POST, "/v1/chat/completions") => {}
            (&Method::GET, "/healthz" | "/health") => {
                return whole(StatusCode::OK, "\"ok\"\n".to_owned());
            }
            (&Method::GET, "/counts") => return whole(StatusCode::OK, self.counts.json()),
            _ => return error(StatusCode::NOT_FOUND, "POST /v1/chat/completions"),
        }
        if !self.admits(&request) {
            return error(StatusCode::UNAUTHORIZED, "wrong or missing key");
        }
        // A reset closes the whole connection, but an HTTP/2 connection has other streams.
        let resets = request.version() < Version::HTTP_2;
        let header = request.headers().get(TEST_PATTERN).cloned();
        let header = header
            .as_ref()
            .map(|value| value.to_str().unwrap_or_default());
        let chat = match Limited::new(request, BODY_LIMIT).collect().await {
            Ok(body) => ChatRequest::parse(header, &body.to_bytes()),
            Err(failure) => Err(failure.to_string()),
        };
        // Counted once it is complete: a request canceled earlier does not count.
        let open = Open::new(Arc::clone(&self.counts));
        match chat {
            Ok(chat) => {
                let abort = move || {
                    if resets {
                        reset_on_close(&socket);
                    }
                };
                self.play(chat, open, abort).await
            }
            Err(complaint) => finished(open, error(StatusCode::BAD_REQUEST, &complaint)),
        }
    }

    fn admits(&self, request: &Request<Incoming>) -> bool {
        let Some(key) = &self.settings.key else {
            return true;
        };
        let brought = request.headers().get(AUTHORIZATION);
        brought.is_some_and(|value| value.as_bytes() == format!("Bearer {key}").as_bytes())
    }

    async fn play(
        &self,
        chat: ChatRequest,
        open: Open,
        abort: impl Fn() + Send + 'static,
    ) -> Answer {
        let Settings { tokens, delay, .. } = self.settings;
        let pattern = chat.pattern.unwrap_or(self.settings.pattern);
        match pattern {
            Pattern::StallHead => {
                let _held = open;
                std::future::pending().await
            }
            Pattern::Status(status) => {
                let status = StatusCode::from_u16(status).expect("400 to 599 are statuses");
                finished(open, error(status, "as the pattern defines"))
            }
            Pattern::NotSse => {
                let text = json!({"object": "chat.completion", "choices": []}).to_string();
                finished(open, whole(StatusCode::OK, text))
            }
            _ => {
                let script = Script::new(pattern, chat, (tokens, delay), open, abort);
                let mut response = Response::new(script.boxed_unsync());
                let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
                response.headers_mut().insert(CONTENT_TYPE, kind);
                response
            }
        }
    }
}

/// Serves a connection; `socket` is a second descriptor of its socket.
async fn serve(
    client: impl AsyncRead + AsyncWrite + Unpin + 'static,
    socket: OwnedFd,
    server: Arc<Server>,
) {
    server.counts.connected();
    let socket = Arc::new(socket);
    let service = service_fn(|request| {
        let answer = Arc::clone(&server).answer(request, Arc::clone(&socket));
        async { Ok::<_, Infallible>(answer.await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new());
    builder.http2().timer(TokioTimer::new());
    // An error here is the client's, or part of a pattern.
    let _ = builder
        .serve_connection(TokioIo::new(client), service)
        .await;
}

/// Makes closing the connection reset it, instead of ending it in good order. Unix sockets have no reset: they just
/// close.
fn reset_on_close(socket: &OwnedFd) {
    let at_once = linger {
        l_onoff: 1,
        l_linger: 0,
    };
    let _ = setsockopt(socket, sockopt::Linger, &at_once);
}

/// Returns a response, and counts its request as finished.
fn finished(mut open: Open, answer: Answer) -> Answer {
    open.finish();
    answer
}

fn error(status: StatusCode, message: &str) -> Answer {
    let object = json!({"error": {
        "message": message,
        "type": "mock_error",
        "code": status.as_u16(),
    }});
    whole(status, object.to_string())
}

fn whole(status: StatusCode, json: String) -> Answer {
    let body = Full::new(Bytes::from(json)).map_err(Aborted::from);
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
