//! An HTTP/1.1 client with just what the tests of the servers need: GET, and responses with a Content-Length.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context as _, ensure};

/// Generous limit for a busy machine with two cores.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    host: String,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Header fields by their names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(address: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(LIMIT))?;
        Ok(Self {
            stream: BufReader::new(stream),
            host: address.to_owned(),
        })
    }

    pub(crate) fn get(&mut self, path: &str) -> anyhow::Result<Answer> {
        self.request(path, "")
    }

    pub(crate) fn get_and_close(&mut self, path: &str) -> anyhow::Result<Answer> {
        self.request(path, "Connection: close\r\n")
    }

    /// Returns true if the server has closed the connection; bytes beyond the last response are an error.
    pub(crate) fn is_at_its_end(&mut self) -> anyhow::Result<bool> {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(0) => Ok(true),
            Ok(count) => anyhow::bail!("{count} bytes after the answer"),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Builds a request that accepts a compressed response, so that a server that compresses is detected.
    fn request(&mut self, path: &str, headers: &str) -> anyhow::Result<Answer> {
        let host = &self.host;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept-Encoding: gzip, br\r\n{headers}\r\n"
        );
        self.stream.get_mut().write_all(request.as_bytes())?;
        self.answer()
    }

    fn answer(&mut self) -> anyhow::Result<Answer> {
        let line = self.line()?;
        let status = line
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3)?.parse().ok())
            .with_context(|| format!("no status line: {line:?}"))?;
        let mut headers = BTreeMap::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line
                .split_once(':')
                .with_context(|| format!("no header: {line:?}"))?;
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let length: usize = headers
            .get("content-length")
            .and_then(|length| length.parse().ok())
            .with_context(|| format!("no Content-Length: {headers:?}"))?;
        let mut body = vec![0xFF; length];
        self.stream
            .read_exact(&mut body)
            .context("reading a body")?;
        Ok(Answer {
            status,
            headers,
            body,
        })
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        ensure!(!line.is_empty(), "the server has closed the connection");
        let text = line
            .strip_suffix("\r\n")
            .with_context(|| format!("no whole line: {line:?}"))?;
        Ok(text.to_owned())
    }
}
