//! HTTP/1.1 requests, each on a connection of its own.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;

use anyhow::{Context as _, anyhow, bail, ensure};

use crate::server::{LIMIT, Server};
use crate::websocket::is_reset;

/// The maximum length of a response in bytes.
const LONGEST: usize = 4_000_000;

/// A request whose response has not been read.
#[derive(Debug)]
pub(crate) struct Pending(TcpStream);

/// A response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// The headers by their names in lower case.
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

/// Sends a request.
pub(crate) fn request(
    server: &Server,
    method: &str,
    target: &str,
    headers: &BTreeMap<String, String>,
    body: &[u8],
) -> anyhow::Result<Pending> {
    let mut stream = server.dial()?;
    let mut bytes = format!(
        "{method} {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAccept: */*\r\n",
        server.host()
    );
    for (name, value) in headers {
        bytes += &format!("{name}: {value}\r\n");
    }
    if method != "GET" {
        let length = body.len();
        bytes += &format!("Content-Type: text/plain;charset=UTF-8\r\nContent-Length: {length}\r\n");
    }
    bytes += "\r\n";
    match stream.write_all(&[bytes.as_bytes(), body].concat()) {
        // A server may answer before it has read an oversized body, and close.
        Err(error) if is_reset(error.kind()) => {}
        other => other.with_context(|| format!("sending {method} {target}"))?,
    }
    Ok(Pending(stream))
}

impl Pending {
    /// Waits for the response.
    pub(crate) fn response(mut self) -> anyhow::Result<Response> {
        let mut bytes = Vec::new();
        let mut buffer = [0; 16_384];
        loop {
            let count = match self.0.read(&mut buffer) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    bail!("no HTTP response within {LIMIT:?}")
                }
                Err(error) => return Err(error).context("reading an HTTP response"),
            };
            bytes.extend_from_slice(&buffer[..count]);
            if let Some(response) = parse(&bytes, count == 0)? {
                return Ok(response);
            }
            ensure!(
                count > 0,
                "an HTTP response ends early: {} bytes",
                bytes.len()
            );
            ensure!(bytes.len() < LONGEST, "an HTTP response without end");
        }
    }
}

impl Response {
    /// Returns the value of a header, whose name is in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Returns the body as text.
    pub(crate) fn text(&self) -> anyhow::Result<&str> {
        std::str::from_utf8(&self.body).context("a body that is not UTF-8")
    }

    /// Returns the body of a response with status 200 as text.
    pub(crate) fn ok(&self) -> anyhow::Result<&str> {
        self.has_status(&[200])?;
        self.text()
    }

    /// Asserts that the status is one of these.
    pub(crate) fn has_status(&self, expected: &[u16]) -> anyhow::Result<()> {
        ensure!(
            expected.contains(&self.status),
            "status {} ({:?}), expected {expected:?}",
            self.status,
            String::from_utf8_lossy(&self.body)
        );
        Ok(())
    }
}

/// Parses a response. Returns `None` if more bytes are needed.
fn parse(bytes: &[u8], is_end: bool) -> anyhow::Result<Option<Response>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(length) = head.parse(bytes).context("an HTTP head")? else {
        return Ok(None);
    };
    let status = head.code.context("an HTTP head has no status")?;
    let text = |header: &httparse::Header<'_>| {
        let value = String::from_utf8_lossy(header.value);
        (header.name.to_ascii_lowercase(), value.into_owned())
    };
    let headers = head.headers.iter().map(text).collect();
    let mut response = Response {
        status,
        headers,
        body: bytes[length..].to_vec(),
    };
    if response
        .header("transfer-encoding")
        .is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
    {
        let body = joined_chunks(&response.body)?;
        return Ok(body.map(|body| Response { body, ..response }));
    }
    let Some(length) = response.header("content-length") else {
        return Ok(is_end.then_some(response));
    };
    let length: usize = length.parse().context("Content-Length")?;
    let is_whole = response.body.len() >= length;
    response.body.truncate(length);
    Ok(is_whole.then_some(response))
}

/// Joins the chunks of a body (RFC 9112, 7.1). Returns `None` if the last one is missing.
fn joined_chunks(mut rest: &[u8]) -> anyhow::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    loop {
        let size = httparse::parse_chunk_size(rest);
        let size = size.map_err(|_| anyhow!("a malformed chunk size"))?;
        let httparse::Status::Complete((start, length)) = size else {
            return Ok(None);
        };
        let end = start + usize::try_from(length)?;
        if length == 0 {
            return Ok(Some(body));
        }
        let (Some(chunk), Some(after)) = (rest.get(start..end), rest.get(end + 2..)) else {
            return Ok(None);
        };
        body.extend_from_slice(chunk);
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_complete_with_its_length_its_last_chunk_or_the_end() {
        let parsed = |text: &str, is_end| parse(text.as_bytes(), is_end).unwrap().map(|it| it.body);
        let sized = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(parsed(sized, false).unwrap(), b"abc");
        assert_eq!(parsed(&sized[..sized.len() - 1], false), None);
        let chunked =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
        assert_eq!(parsed(chunked, false).unwrap(), b"abc");
        for end in 47..chunked.len() - 5 {
            assert_eq!(parsed(&chunked[..end], false), None, "{end}");
        }
        let open = "HTTP/1.1 400 Bad Request\r\n\r\nabc";
        assert_eq!(parsed(open, false), None);
        assert_eq!(parsed(open, true).unwrap(), b"abc");
    }
}
