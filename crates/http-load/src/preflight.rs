//! The request before the run: fetches one response and judges whether the server is worth measuring.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use load::clock;
use load::net::dial::Peer;
use measure::result::Answer;
use ring::digest::{Context as Digest, SHA256};

use crate::answer::{Reader, RequestInfo, Sink};
use crate::content::{Checksum, Expected};
use crate::hyper;
use crate::redirect::{LOCATION, RedirectError, RedirectTarget, is_redirect};
use crate::requests::Requests;
use crate::settings::{Engine, Settings};
use crate::target::Server;

/// Timeout of the request before the run.
pub(crate) const PREFLIGHT_TIMEOUT: Duration = Duration::from_secs(10);
pub(crate) const TIMED_OUT: &str = "no complete response within 10 s: is this the right server?";
/// Maximum number of bytes of a response quoted in a message.
const MAX_QUOTED: usize = 80;

/// The response of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) status: u16,
    pub(crate) length: u64,
    /// Digest of the body, in hexadecimal digits.
    pub(crate) sha256: String,
    /// CRC-32C of the body.
    pub(crate) sum: u32,
}

impl From<Sample> for Answer {
    fn from(sample: Sample) -> Self {
        Self {
            status: u64::from(sample.status),
            length: sample.length,
            sha256: sample.sha256,
        }
    }
}

impl Sample {
    /// Checks the status and the length against those expected.
    pub(crate) fn check(&self, settings: &Settings) -> anyhow::Result<()> {
        if let Some(expected) = settings
            .expect_length
            .filter(|length| *length != self.length)
        {
            bail!(
                "the server returned {} with {} bytes of content, but {expected} are expected: correct the path, or driver.expect_length (--expect-length)",
                self.status,
                self.length
            );
        }
        if settings.expects(self.status) {
            return Ok(());
        }
        bail!(
            "the server returned status {}, which is not expected: correct the path, or accept it with --expect-status {}",
            self.status,
            self.status
        )
    }

    /// Checks the body against the one that was named.
    pub(crate) fn check_content(&self, expected: &Expected) -> anyhow::Result<()> {
        ensure!(
            expected.length == self.length && expected.has_sum(self.sum),
            "the server returned {} with {} bytes of content, which differ from the {} bytes of driver.expect_body (--expect-body): correct the path, or the expected body",
            self.status,
            self.length,
            expected.length
        );
        Ok(())
    }

    /// Checks that another server's response is the same.
    pub(crate) fn compare(&self, other: &Self) -> anyhow::Result<()> {
        if self == other {
            return Ok(());
        }
        bail!(
            "the servers respond differently: {} with {} bytes ({}) and {} with {} bytes ({}): make all of them serve the same content",
            self.status,
            self.length,
            &self.sha256[..12],
            other.status,
            other.length,
            &other.sha256[..12]
        )
    }
}

/// A response, with the target of its redirect.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) sample: Sample,
    pub(crate) location: Option<Vec<u8>>,
}

/// Sends one request, following redirects until a non-redirect response. Each request has its own connection.
///
/// # Errors
/// No connection, no response in time, an invalid response, or a redirect that can't be followed.
pub(crate) fn fetch(
    settings: &Settings,
    server: &Server,
    requests: &Requests,
) -> anyhow::Result<Sample> {
    let mut hop: Option<RedirectTarget> = None;
    loop {
        let Fetched { sample, location } = match settings.engine {
            Engine::Hyper => hyper::fetch(settings, server, hop.as_ref())?,
            _ => fetch_once(settings, server, requests, hop.as_ref())?,
        };
        if settings.follow == 0 || !is_redirect(sample.status) {
            return Ok(sample);
        }
        let location = location.as_deref();
        let now = hop.or_else(|| RedirectTarget::first(&requests.target(0)));
        let next = now
            .ok_or(RedirectError::Elsewhere)
            .and_then(|now| now.next(sample.status, location, settings.follow));
        hop = Some(next.with_context(|| {
            let location = location.map(String::from_utf8_lossy);
            let shown: String = location
                .iter()
                .flat_map(|text| text.chars())
                .take(MAX_QUOTED)
                .collect();
            format!(
                "cannot follow the redirect ({}) to {shown:?}",
                sample.status
            )
        })?);
    }
}

fn fetch_once(
    settings: &Settings,
    server: &Server,
    requests: &Requests,
    hop: Option<&RedirectTarget>,
) -> anyhow::Result<Fetched> {
    let mut stream = open(&server.peer)?;
    let mut room = Vec::new();
    let asked = RequestInfo {
        head: settings.method == "HEAD",
    };
    stream
        .write_all(requests.bytes(0, hop, &mut room))
        .context("cannot send the request")?;
    let mut reader = Reader::new();
    let mut content = Content::default();
    let mut buffer = vec![0; 64 * 1024];
    let mut first: Option<Vec<u8>> = None;
    let give_up = clock::now() + PREFLIGHT_TIMEOUT.as_nanos() as u64;
    let answer = loop {
        // A server that sends single bytes slowly never hits the read timeout, and would never finish.
        ensure!(clock::now() < give_up, TIMED_OUT);
        let length = match stream.read(&mut buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ) =>
            {
                bail!(TIMED_OUT)
            }
            Err(error) => return Err(error).context("cannot read the response"),
        };
        let piece = &buffer[..length];
        first.get_or_insert_with(|| piece[..length.min(MAX_QUOTED)].to_vec());
        let done = match length {
            0 => reader.end().map(Some),
            _ => reader
                .take(asked, piece, &mut content)
                .map(|progress| progress.done),
        };
        let begun = || String::from_utf8_lossy(first.as_deref().unwrap_or_default()).into_owned();
        match done {
            Ok(None) => {}
            Ok(Some(answer)) => break answer,
            Err(fault) => bail!(
                "the response can't be read ({fault}); it begins with {:?}",
                begun()
            ),
        }
    };
    Ok(content.fetched(answer.status, answer.body))
}

/// The running hash of a body, and the target of a redirect.
pub(crate) struct Content {
    digest: Digest,
    sum: Checksum,
    pub(crate) location: Option<Vec<u8>>,
}

impl Default for Content {
    fn default() -> Self {
        Self {
            digest: Digest::new(&SHA256),
            sum: Checksum::default(),
            location: None,
        }
    }
}

impl Sink for Content {
    fn head(&mut self, _status: u16, headers: &[httparse::Header<'_>]) {
        let mut headers = headers.iter();
        let location = headers.find(|header| header.name.eq_ignore_ascii_case(LOCATION));
        self.location = location.map(|header| header.value.to_vec());
    }

    fn body(&mut self, piece: &[u8]) {
        self.update(piece);
    }
}

impl Content {
    pub(crate) fn update(&mut self, piece: &[u8]) {
        self.digest.update(piece);
        self.sum.update(piece);
    }

    /// Completes the response with its status and length.
    pub(crate) fn fetched(self, status: u16, length: u64) -> Fetched {
        let digest = self.digest.finish();
        let digits = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
        Fetched {
            sample: Sample {
                status,
                length,
                sha256: digits.collect(),
                sum: self.sum.0,
            },
            location: self.location,
        }
    }
}

/// A byte stream of either kind.
trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

/// Returns the error context of a failed connection attempt.
pub(crate) fn connecting(peer: &Peer) -> String {
    format!("cannot connect to {peer}: is a server listening there?")
}

fn open(peer: &Peer) -> anyhow::Result<Box<dyn Stream>> {
    let connecting = || connecting(peer);
    match peer {
        Peer::Tcp(address) => {
            let stream =
                TcpStream::connect_timeout(address, PREFLIGHT_TIMEOUT).with_context(connecting)?;
            stream.set_read_timeout(Some(PREFLIGHT_TIMEOUT))?;
            stream.set_write_timeout(Some(PREFLIGHT_TIMEOUT))?;
            Ok(Box::new(stream))
        }
        Peer::Unix(path) => {
            let stream = UnixStream::connect(path).with_context(connecting)?;
            stream.set_read_timeout(Some(PREFLIGHT_TIMEOUT))?;
            stream.set_write_timeout(Some(PREFLIGHT_TIMEOUT))?;
            Ok(Box::new(stream))
        }
    }
}
