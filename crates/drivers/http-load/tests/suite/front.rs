//! An HTTP/2 front of a server of HTTP/1.1: each of its connections has one to that server.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::Mutex;

/// A front that listens until it is dropped.
pub(crate) struct Front {
    address: SocketAddr,
    _runtime: Runtime,
}

impl Front {
    /// Starts a front of the server at an address.
    pub(crate) fn start(server: SocketAddr) -> Self {
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, server));
            }
        });
        Self {
            address,
            _runtime: runtime,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/x", self.address)
    }
}

/// Forwards the requests of a connection. When the server closes its own, the client gets a GOAWAY.
async fn forward(client: TcpStream, server: SocketAddr) {
    let server = TokioIo::new(TcpStream::connect(server).await.unwrap());
    let (sender, connection) = http1::handshake(server).await.unwrap();
    let sender = Arc::new(Mutex::new(sender));
    let service = service_fn(move |request| send(Arc::clone(&sender), request));
    let builder = http2::Builder::new(TokioExecutor::new());
    let serving = builder.serve_connection(TokioIo::new(client), service);
    if let Either::Right((_, mut serving)) = select(pin!(serving), pin!(connection)).await {
        serving.as_mut().graceful_shutdown();
        let _ = serving.await;
    }
}

async fn send(
    sender: Arc<Mutex<http1::SendRequest<Full<Bytes>>>>,
    request: Request<Incoming>,
) -> hyper::Result<Response<Incoming>> {
    let (mut head, body) = request.into_parts();
    let target = std::mem::take(&mut head.uri);
    let host = target.authority().unwrap().as_str().parse().unwrap();
    head.headers.insert(HOST, host);
    head.uri = target.path_and_query().unwrap().as_str().parse().unwrap();
    head.version = Version::HTTP_11;
    let body = Full::new(body.collect().await?.to_bytes());
    let request = Request::from_parts(head, body);
    sender.lock().await.send_request(request).await
}
