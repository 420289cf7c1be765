//! The server: accepting, and the answer to each request.

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

use crate::asked::Asked;
use crate::counts::{Counts, Open};
use crate::listener::{Connection, Listener};
use crate::pattern::Pattern;
use crate::script::{Aborted, Script};

/// A request may be this long.
const BODY_LIMIT: usize = 1 << 20;
/// The header field that names a pattern.
const TEST_PATTERN: &str = "x-test-pattern";
/// What accepting waits after an error, which is most likely a lack of descriptors.
const PAUSE: Duration = Duration::from_millis(10);

/// How requests are answered that say nothing else.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What the answer is like.
    pub pattern: Pattern,
    /// Contents of an answer.
    pub tokens: u32,
    /// The time before each content.
    pub delay: Duration,
    /// What a request must bring as `Authorization: Bearer …`; `None` for nothing.
    pub key: Option<String>,
}

/// A server that does not listen yet.
#[derive(Debug)]
pub struct Server {
    settings: Settings,
    counts: Arc<Counts>,
}

type Answer = Response<UnsyncBoxBody<Bytes, Aborted>>;

impl Server {
    /// A server with these settings.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            counts: Arc::default(),
        }
    }

    /// What it has seen, also while it runs.
    #[must_use]
    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }

    /// Serves until `shutdown` is ready and breaks off what is open then. Dropping the future does
    /// the same.
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
                    Err(_) => sleep(PAUSE).await,
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>, socket: Arc<OwnedFd>) -> Answer {
        match (request.method(), request.uri().path()) {
            (&Method::POST, "/v1/chat/completions") => {}
            (&Method::GET, "/healthz") => return whole(StatusCode::OK, "\"ok\"\n".to_owned()),
            (&Method::GET, "/counts") => return whole(StatusCode::OK, self.counts.json()),
            _ => return error(StatusCode::NOT_FOUND, "POST /v1/chat/completions"),
        }
        if !self.admits(&request) {
            return error(StatusCode::UNAUTHORIZED, "a wrong key, or none");
        }
        // A reset is for one connection, and an HTTP/2 connection has other streams.
        let resets = request.version() < Version::HTTP_2;
        let header = request.headers().get(TEST_PATTERN).cloned();
        let header = header
            .as_ref()
            .map(|value| value.to_str().unwrap_or_default());
        let asked = match Limited::new(request, BODY_LIMIT).collect().await {
            Ok(body) => Asked::parse(header, &body.to_bytes()),
            Err(failure) => Err(failure.to_string()),
        };
        // Counted once it is whole: what is taken back before that was never asked.
        let open = Open::new(Arc::clone(&self.counts));
        match asked {
            Ok(asked) => {
                let abort = move || {
                    if resets {
                        reset_on_close(&socket);
                    }
                };
                self.play(asked, open, abort).await
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

    async fn play(&self, asked: Asked, open: Open, abort: impl Fn() + Send + 'static) -> Answer {
        let Settings { tokens, delay, .. } = self.settings;
        let pattern = asked.pattern.unwrap_or(self.settings.pattern);
        match pattern {
            Pattern::StallHead => {
                let _held = open;
                std::future::pending().await
            }
            Pattern::Status(status) => {
                let status = StatusCode::from_u16(status).expect("400 to 599 are statuses");
                finished(open, error(status, "as the pattern wants it"))
            }
            Pattern::NotSse => {
                let text = json!({"object": "chat.completion", "choices": []}).to_string();
                finished(open, whole(StatusCode::OK, text))
            }
            _ => {
                let script = Script::new(pattern, asked, (tokens, delay), open, abort);
                let mut response = Response::new(script.boxed_unsync());
                let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
                response.headers_mut().insert(CONTENT_TYPE, kind);
                response
            }
        }
    }
}

/// Serves a connection; `socket` is a second descriptor of it.
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
    // An error here is the client's, or what a pattern wants.
    let _ = builder
        .serve_connection(TokioIo::new(client), service)
        .await;
}

/// Has the connection reset when it is closed, in place of being ended in good order. Of Unix
/// sockets there is no such thing: they just close.
fn reset_on_close(socket: &OwnedFd) {
    let at_once = linger {
        l_onoff: 1,
        l_linger: 0,
    };
    let _ = setsockopt(socket, sockopt::Linger, &at_once);
}

/// An answer that is over as soon as it is begun.
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
