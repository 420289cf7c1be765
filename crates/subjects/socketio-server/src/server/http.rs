//! The HTTP side of a client's connection.

use std::convert::Infallible;
use std::rc::Rc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::join;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::counts::Count;
use crate::server::late_end::LateEnd;
use crate::server::service::respond;
use crate::server::worker::{Open, Worker};

/// Bytes that the head of a request may have; longer ones are answered with 431.
const MAX_HEAD: usize = 16 * 1024;

/// Serves the requests of a connection, until it ends or becomes a WebSocket.
pub(crate) async fn serve(worker: Rc<Worker>, stream: TcpStream, _open: Open) {
    serve_requests(&worker, stream).await;
    worker.engine.counts.add(Count::HttpEnded, 1);
}

async fn serve_requests(worker: &Rc<Worker>, stream: TcpStream) {
    let config = &worker.engine.config;
    // A connection that sends nothing costs none of hyper's buffers.
    let first = tokio::select! {
        first = timeout(config.head_timeout, stream.readable()) => first.is_ok_and(|ready| ready.is_ok()),
        () = worker.stopped() => false,
    };
    if !first {
        return;
    }
    let service = service_fn(|request| {
        let worker = Rc::clone(worker);
        async move { Ok::<_, Infallible>(respond(&worker, request).await) }
    });
    let (read, write) = stream.into_split();
    let stream = join(LateEnd::new(read), write);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(config.head_timeout)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // Freed when it becomes a WebSocket.
    let mut connection = Box::pin(connection);
    // An error here is the client's: it disconnected, or did not speak HTTP.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = worker.stopped() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
