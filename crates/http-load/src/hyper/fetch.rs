//! The request before the run, with the engine's protocol.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;

use anyhow::{Context as _, anyhow, bail};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use load::clock;
use load::net::dial::dial;
use load::net::sources::Sources;

use super::Prepared;
use super::dial::{ConnectError, Stream, open};
use super::fault;
use super::local_executor::LocalExecutor;
use crate::redirect::{LOCATION, RedirectTarget};
use crate::sample::{Content, Fetched, PREFLIGHT_TIMEOUT, TIMED_OUT, connecting};
use crate::settings::Settings;
use crate::target::Server;

/// Sends one request on its own connection: the first of a run, or the target of a redirect.
///
/// # Errors
/// No connection, no response in time, or an invalid one.
pub(crate) fn fetch(
    settings: &Settings,
    server: &Server,
    hop: Option<&RedirectTarget>,
) -> anyhow::Result<Fetched> {
    let prepared = Prepared::new(settings, server)?;
    let fetch = || -> anyhow::Result<Fetched> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot create a Tokio runtime")?;
        let asked = async {
            let asked = send_request(settings, server, &prepared, hop);
            let asked = tokio::time::timeout(PREFLIGHT_TIMEOUT, asked).await;
            asked.unwrap_or_else(|_| bail!(TIMED_OUT))
        };
        tokio::task::LocalSet::new().block_on(&runtime, asked)
    };
    // The caller may be on a thread that drives a runtime, where a second one can't block.
    let asked = std::thread::scope(|scope| scope.spawn(fetch).join());
    asked.unwrap_or_else(|_| bail!("the request before the run panicked"))
}

async fn send_request(
    settings: &Settings,
    server: &Server,
    prepared: &Prepared,
    hop: Option<&RedirectTarget>,
) -> anyhow::Result<Fetched> {
    let peer = &server.peer;
    let began = clock::now();
    let socket = dial(peer, &mut Sources::none());
    let opened = open(server, prepared.tls.as_ref(), settings.http2, socket, began).await;
    let (stream, _) = opened.map_err(|error| match error {
        ConnectError::Tls(why) => anyhow!(why),
        ConnectError::Socket(errno) => anyhow!(io::Error::from(errno)).context(connecting(peer)),
        ConnectError::Runtime(error) => anyhow!(error).context(connecting(peer)),
    })?;
    let io = TokioIo::new(stream);
    let request = prepared.messages.request(0, hop);
    let is_head = settings.method == "HEAD";
    match settings.http2 {
        true => many(io, request).await,
        false => one(io, request, prepared, is_head).await,
    }
}

async fn one(
    io: TokioIo<Stream>,
    request: Request<Full<Bytes>>,
    prepared: &Prepared,
    is_head: bool,
) -> anyhow::Result<Fetched> {
    let (mut sender, mut connection) = prepared.http1.handshake(io).await?;
    let asked = async {
        let response = sender.send_request(request).await.map_err(unreadable)?;
        fault::framing(is_head, &response).context("the response can't be read")?;
        read(response).await
    };
    let mut asked = pin!(asked);
    let mut over = false;
    poll_fn(|context| {
        loop {
            if let Poll::Ready(sample) = asked.as_mut().poll(context) {
                return Poll::Ready(sample);
            }
            if over || Pin::new(&mut connection).poll(context).is_pending() {
                return Poll::Pending;
            }
            over = true;
        }
    })
    .await
}

async fn many(io: TokioIo<Stream>, request: Request<Full<Bytes>>) -> anyhow::Result<Fetched> {
    let local = LocalExecutor::default();
    let (mut sender, connection) = http2::Builder::new(local.clone()).handshake(io).await?;
    let driving = async {
        // The request reports the reason of its end.
        let _ = connection.await;
        std::future::pending().await
    };
    let asked = async {
        let response = sender.send_request(request).await;
        read(response.map_err(unreadable)?).await
    };
    futures_util::future::select(pin!(asked), pin!(driving))
        .await
        .factor_first()
        .0
}

async fn read(mut response: Response<Incoming>) -> anyhow::Result<Fetched> {
    let location = response.headers().get(LOCATION);
    let mut content = Content::default();
    content.location = location.map(|value| value.as_bytes().to_vec());
    let mut length = 0;
    while let Some(frame) = response.frame().await {
        if let Some(data) = frame.map_err(unreadable)?.data_ref() {
            length += data.len() as u64;
            content.update(data);
        }
    }
    Ok(content.fetched(response.status().as_u16(), length))
}

fn unreadable(error: hyper::Error) -> anyhow::Error {
    let kind = fault::kind(&error);
    anyhow::Error::new(error).context(format!("the response can't be read ({kind})"))
}
