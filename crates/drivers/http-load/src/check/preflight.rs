//! The request before the run, with its redirects.

mod http2;

use std::io::{ErrorKind, Read as _, Write as _};

use anyhow::{Context as _, bail, ensure};
use load::clock;
use load::net::dial::connect_within;
use load::net::http1::{Reader, RequestInfo};
use load::net::url::ServerUrl;
use tls_client::{Socket, tls_error};
use traffic::{Names, Values};

use super::sample::{Content, Fetched, no_connection, response_limit, timed_out};
use crate::engine::hyper;
use crate::requests::Requests;
use crate::roles::cookies::Cookies;
use crate::roles::redirect::{RedirectError, RedirectTarget, is_redirect};
use crate::settings::{Engine, Settings};
use crate::tls;

/// Maximum number of bytes of a response quoted in a message.
const MAX_QUOTED: usize = 80;

/// The remedy for a server that does not answer as one of HTTP.
const IS_IT_HTTP: &str = "check that this is an HTTP server, and write https:// if it uses TLS";

/// Returns true if a response is a record of TLS with an alert (RFC 8446 §5.1): the server expected a handshake.
fn is_tls_alert(response: &[u8]) -> bool {
    response.starts_with(&[21, 3])
}

/// Returns true if a response begins with a SETTINGS frame (RFC 9113 §3.4): the server expected HTTP/2.
fn is_http2(response: &[u8]) -> bool {
    matches!(response, [_, _, _, 4, _, 0, 0, 0, 0, ..])
}

/// Sends one request, following redirects until a non-redirect response. Each request has its own connection.
///
/// # Errors
/// No connection, no response in time, an invalid response, or a redirect that can't be followed.
pub(crate) fn fetch(
    settings: &Settings,
    server: &ServerUrl,
    requests: &Requests,
    names: &Names,
    (values, cookies): (Values<'_>, &Cookies),
) -> anyhow::Result<Fetched> {
    let mut hop: Option<RedirectTarget> = None;
    loop {
        let fetched = match settings.engine {
            Engine::Hyper => hyper::fetch(settings, server, hop.as_ref())?,
            _ if settings.http2 => {
                http2::fetch(settings, server, names, (values, cookies), hop.as_ref())?
            }
            _ => fetch_once(settings, server, requests, (values, cookies), hop.as_ref())?,
        };
        let (status, location) = (fetched.sample.status, fetched.location());
        if settings.follow == 0 || !is_redirect(status) {
            return Ok(fetched);
        }
        let now = hop.or_else(|| RedirectTarget::first(&requests.target(values.number)));
        let next = now
            .ok_or(RedirectError::Elsewhere)
            .and_then(|now| now.next(status, location, settings.follow));
        hop = Some(next.with_context(|| {
            let location = location.map(String::from_utf8_lossy);
            let shown: String = location
                .iter()
                .flat_map(|text| text.chars())
                .take(MAX_QUOTED)
                .collect();
            format!("cannot follow the redirect ({status}) to {shown:?}")
        })?);
    }
}

/// Opens a connection to a server, with TLS if it uses that.
fn connect(settings: &Settings, server: &ServerUrl) -> anyhow::Result<Socket> {
    let peer = &server.peer;
    let stream = connect_within(peer, response_limit(settings));
    let stream = stream.map_err(|error| no_connection(peer, &error))?;
    let tls = tls::client(server, settings)?;
    let mut stream = Socket::new(stream, tls.as_ref())?;
    if let Err(error) = stream.complete_handshake() {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => bail!(timed_out(settings)),
            _ if error.raw_os_error().is_some() => bail!(no_connection(peer, &error)),
            _ => bail!(tls::explain(&server.host, &error)),
        }
    }
    Ok(stream)
}

/// Reads what the server has sent; returns 0 at its end.
fn read(
    settings: &Settings,
    server: &ServerUrl,
    stream: &mut Socket,
    buffer: &mut [u8],
    give_up: u64,
) -> anyhow::Result<usize> {
    loop {
        // A server that sends single bytes slowly never hits the read timeout, and would never finish.
        ensure!(clock::now() < give_up, timed_out(settings));
        match stream.read(buffer) {
            Ok(length) => return Ok(length),
            Err(error) => match error.kind() {
                ErrorKind::Interrupted => {}
                ErrorKind::WouldBlock | ErrorKind::TimedOut => bail!(timed_out(settings)),
                // With TLS 1.3, a server refuses a client's certificate after the handshake.
                _ if tls_error(&error).is_some() => bail!(tls::explain(&server.host, &error)),
                _ => bail!("the connection ended before the response ({error}): {IS_IT_HTTP}"),
            },
        }
    }
}

fn fetch_once(
    settings: &Settings,
    server: &ServerUrl,
    requests: &Requests,
    (values, cookies): (Values<'_>, &Cookies),
    hop: Option<&RedirectTarget>,
) -> anyhow::Result<Fetched> {
    let mut stream = connect(settings, server)?;
    let mut room = Vec::new();
    let asked = RequestInfo {
        head: settings.method == "HEAD",
    };
    requests.render(values, cookies, hop, &mut room);
    stream.write_all(&room).context("cannot send the request")?;
    let mut reader = Reader::new();
    let mut content = Content::default();
    let mut buffer = vec![0; 64 * 1024];
    let mut first: Option<Vec<u8>> = None;
    let give_up = clock::now() + response_limit(settings).as_nanos() as u64;
    let answer = loop {
        let length = read(settings, server, &mut stream, &mut buffer, give_up)?;
        let piece = &buffer[..length];
        first.get_or_insert_with(|| piece[..length.min(MAX_QUOTED)].to_vec());
        let done = match length {
            0 => reader.end().map(Some),
            _ => reader
                .take(asked, piece, &mut content)
                .map(|progress| progress.done),
        };
        let begun = || String::from_utf8_lossy(first.as_deref().unwrap_or_default()).into_owned();
        if settings.events
            && done.is_ok()
            && let Some((status, body)) = content.event_stream()?
        {
            return Ok(content.fetched(status, body));
        }
        match done {
            Ok(None) => {}
            Ok(Some(answer)) => break answer,
            Err(_) if first.as_deref().is_some_and(is_tls_alert) => {
                bail!("the server answers in TLS: write https://")
            }
            Err(_) if first.as_deref().is_some_and(is_http2) => {
                bail!("the server answers in HTTP/2: add --http2")
            }
            Err(fault) => match begun() {
                begun if begun.is_empty() => {
                    bail!("the connection ended before the response: {IS_IT_HTTP}")
                }
                begun => bail!(
                    "the response can't be read ({fault}); it begins with {begun:?}: {IS_IT_HTTP}"
                ),
            },
        }
    };
    if settings.events {
        content.check_events()?;
    }
    Ok(content.fetched(answer.status, answer.body))
}
