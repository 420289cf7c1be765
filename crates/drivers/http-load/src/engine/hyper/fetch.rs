//! The request before the run, with the engine's protocol.

use std::pin::pin;

use anyhow::{Context as _, anyhow, bail};
use futures_util::future::{Either, select};
use http_body_util::BodyExt as _;
use hyper::Response;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::TokioIo;
use load::clock;
use load::net::dial::dial;
use load::net::sources::Sources;
use load::net::url::ServerUrl;

use super::Prepared;
use super::dial::{ConnectError, open};
use super::executor::LocalExecutor;
use super::fault;
use super::sender::Sender;
use crate::check::sample::{Content, Fetched, PREFLIGHT_TIMEOUT, TIMED_OUT, no_connection};
use crate::roles::redirect::RedirectTarget;
use crate::settings::Settings;

/// Sends one request on its own connection: the first of a run, or the target of a redirect.
pub(crate) fn fetch(
    settings: &Settings,
    server: &ServerUrl,
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
    server: &ServerUrl,
    prepared: &Prepared,
    hop: Option<&RedirectTarget>,
) -> anyhow::Result<Fetched> {
    let peer = &server.peer;
    let began = clock::now();
    let socket = dial(peer, &mut Sources::none());
    let opened = open(prepared.tls.as_ref(), settings.http2, socket, began).await;
    let (stream, _) = opened.map_err(|error| match error {
        ConnectError::Tls(why) => anyhow!(why),
        ConnectError::Socket(error) => no_connection(peer, &error),
    })?;
    let io = TokioIo::new(stream);
    let local = LocalExecutor::default();
    let (mut sender, connection) = if settings.http2 {
        let builder = http2::Builder::new(local.clone());
        let (sender, connection) = builder.handshake(io).await?;
        (Sender::Many(sender), Either::Left(connection))
    } else {
        let (sender, connection) = prepared.http1.handshake(io).await?;
        (Sender::One(sender), Either::Right(connection))
    };
    let asked = async {
        let request = prepared.messages.request(0, hop);
        let may_be_http1 = settings.http2 && !server.tls;
        let response = sender.send(request).await;
        let response = response.map_err(|error| unreadable(error, may_be_http1))?;
        if !settings.http2 {
            let is_head = settings.method == "HEAD";
            fault::framing(is_head, &response).context("the response can't be read")?;
        }
        read(response).await
    };
    let driving = async {
        // The request reports the reason of its end.
        let _ = connection.await;
        std::future::pending().await
    };
    select(pin!(asked), pin!(driving)).await.factor_first().0
}

async fn read(mut response: Response<Incoming>) -> anyhow::Result<Fetched> {
    let mut content = Content::default();
    for (name, value) in response.headers() {
        content.field(name.as_str(), value.as_bytes());
    }
    let mut length = 0;
    while let Some(frame) = response.frame().await {
        if let Some(data) = frame.map_err(|error| unreadable(error, false))?.data_ref() {
            length += data.len() as u64;
            content.update(data);
        }
    }
    Ok(content.fetched(response.status().as_u16(), length))
}

/// Explains a response that can't be read; `may_be_http1` if nothing has said that the server speaks HTTP/2.
fn unreadable(error: hyper::Error, may_be_http1: bool) -> anyhow::Error {
    let kind = fault::kind(&error);
    let remedy = if may_be_http1 {
        ": if the server speaks only HTTP/1.1, leave out --http2"
    } else {
        ""
    };
    anyhow::Error::new(error).context(format!("the response can't be read ({kind}){remedy}"))
}
