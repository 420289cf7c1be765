//! The request before the run over HTTP/2.

use std::io::Write as _;

use anyhow::{Context as _, bail, ensure};
use load::clock;
use load::net::url::ServerUrl;
use traffic::{Names, Values};

use super::{IS_IT_HTTP, connect, read};
use crate::check::sample::{Content, Fetched, response_limit};
use crate::http2::{Connection, Event, OwnPart, RequestBlocks, Sink, Table};
use crate::roles::cookies::Cookies;
use crate::roles::redirect::RedirectTarget;
use crate::settings::Settings;
use crate::tls::{H2, NO_HTTP2};

/// Keeps the content of the response.
struct Receiver;

impl Sink<Content> for Receiver {
    fn head(&mut self, content: &mut Content, status: u16) {
        content.status(status);
    }

    fn needs(&self, _name: &[u8]) -> bool {
        true
    }

    fn field(&mut self, content: &mut Content, name: &[u8], value: &[u8]) {
        content.field(&String::from_utf8_lossy(name), value);
    }

    fn body(&mut self, content: &mut Content, piece: &[u8]) -> Result<(), &'static str> {
        content.update(piece);
        Ok(())
    }
}

/// Sends one request on its own connection: the first of a run, or the target of a redirect.
pub(super) fn fetch(
    settings: &Settings,
    server: &ServerUrl,
    names: &Names,
    (values, cookies): (Values<'_>, &Cookies),
    hop: Option<&RedirectTarget>,
) -> anyhow::Result<Fetched> {
    let blocks = RequestBlocks::new(settings, server, names)?;
    let mut stream = connect(settings, server)?;
    ensure!(!server.tls || stream.protocol() == Some(H2), NO_HTTP2);
    let mut connection = Connection::new(Table::Empty);
    let mut own = OwnPart::default();
    blocks.write(values, cookies, hop, &mut own);
    connection.open(Content::default(), &blocks, &own);
    let mut buffer = vec![0; 64 * 1024];
    let give_up = clock::now() + response_limit(settings).as_nanos() as u64;
    loop {
        send(&mut connection, &mut stream).context("cannot send the request")?;
        let length = read(settings, server, &mut stream, &mut buffer, give_up)?;
        ensure!(
            length > 0,
            "the connection ended before the response: {}",
            remedy(server)
        );
        let mut taken = 0;
        while taken < length {
            let (used, event) = match connection.take(&buffer[taken..length], &mut Receiver) {
                Ok(progress) => progress,
                Err(fault) => bail!("the response can't be read ({fault}): {}", remedy(server)),
            };
            taken += used;
            match event {
                Some(Event::Answered(content, response)) => {
                    if settings.events {
                        content.check_events()?;
                    }
                    return Ok(content.fetched(response.status, response.body));
                }
                Some(Event::Failed(_, kind)) => bail!("the response can't be read ({kind})"),
                Some(Event::Refused(_)) => bail!("the server refused the request (REFUSED_STREAM)"),
                Some(Event::Closing) if connection.pop_excluded().is_some() => {
                    bail!("the server closes the connection without taking the request (GOAWAY)")
                }
                Some(Event::Closing) | None => {}
            }
        }
        let first = connection.first().filter(|_| settings.events);
        if let Some((id, content)) = first
            && let Some((status, body)) = content.event_stream()?
            && let Some(content) = connection.cancel(id)
        {
            return Ok(content.fetched(status, body));
        }
    }
}

fn send(
    connection: &mut Connection<Content>,
    stream: &mut tls_client::Socket,
) -> std::io::Result<()> {
    loop {
        connection.upload();
        let output = connection.output();
        let length = output.len();
        if length == 0 {
            return Ok(());
        }
        stream.write_all(output)?;
        connection.advance(length);
    }
}

/// Returns what to do about a server that may not speak HTTP/2: over TLS it has said that it does.
fn remedy(server: &ServerUrl) -> &'static str {
    if server.tls {
        IS_IT_HTTP
    } else {
        "if the server speaks only HTTP/1.1, leave out --http2"
    }
}
