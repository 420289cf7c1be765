//! One request before the run: what a server answers, and whether that is worth measuring.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use harness::clock;
use measure::result::Answer;
use ring::digest::{Context as Digest, SHA256};

use crate::answer::{Asked, Reader, Sink};
use crate::content::{Expected, Sum};
use crate::hyper;
use crate::redirect::{Astray, Hop, LOCATION, leads_on};
use crate::requests::Requests;
use crate::settings::{Engine, Settings};
use crate::target::{Peer, Server};

/// How long a server may take for the one answer before the run.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
pub(crate) const TOO_LATE: &str = "no whole answer within 10 s: is it the server that was meant?";
/// What a server is asked for what it sent, in a message.
const SHOWN: usize = 80;

/// What a server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) status: u16,
    pub(crate) length: u64,
    /// Of the content, in hexadecimal digits.
    pub(crate) sha256: String,
    /// CRC-32C of the content.
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
    /// Whether the status is one that was expected.
    pub(crate) fn check(&self, settings: &Settings) -> anyhow::Result<()> {
        if let Some(expected) = settings
            .expect_length
            .filter(|length| *length != self.length)
        {
            bail!(
                "it answers {} with {} bytes of content, and {expected} are expected: correct the path, or driver.expect_length (--expect-length)",
                self.status,
                self.length
            );
        }
        if settings.expects(self.status) {
            return Ok(());
        }
        bail!(
            "it answers {}, which is not expected: correct the path, or name the status with --expect-status {}",
            self.status,
            self.status
        )
    }

    /// Whether the content is the one that was named.
    pub(crate) fn check_content(&self, expected: &Expected) -> anyhow::Result<()> {
        ensure!(
            expected.length == self.length && expected.has(self.sum),
            "it answers {} with {} bytes of content that are not the {} of driver.expect_body (--expect-body): correct the path, or what is expected",
            self.status,
            self.length,
            expected.length
        );
        Ok(())
    }

    /// Whether another server answers the same.
    pub(crate) fn compare(&self, other: &Self) -> anyhow::Result<()> {
        if self == other {
            return Ok(());
        }
        bail!(
            "the servers answer differently: {} with {} bytes ({}) and {} with {} bytes ({}): let all serve the same",
            self.status,
            self.length,
            &self.sha256[..12],
            other.status,
            other.length,
            &other.sha256[..12]
        )
    }
}

/// One answer, and where it leads.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) sample: Sample,
    pub(crate) location: Option<Vec<u8>>,
}

/// Asks once, and where redirects are followed until there is an answer that is none; each on a connection of its own.
///
/// # Errors
/// No connection, no answer in time, one that is no HTTP, or a redirect that can't be followed.
pub(crate) fn fetch(
    settings: &Settings,
    server: &Server,
    requests: &Requests,
) -> anyhow::Result<Sample> {
    let mut hop: Option<Hop> = None;
    loop {
        let Fetched { sample, location } = match settings.engine {
            Engine::Hyper => hyper::fetch(settings, server, hop.as_ref())?,
            _ => ask(settings, server, requests, hop.as_ref())?,
        };
        if settings.follow == 0 || !leads_on(sample.status) {
            return Ok(sample);
        }
        let location = location.as_deref();
        let now = hop.or_else(|| Hop::first(&requests.target(0)));
        let next = now
            .ok_or(Astray::Elsewhere)
            .and_then(|now| now.next(sample.status, location, settings.follow));
        hop = Some(next.with_context(|| {
            let location = location.map(String::from_utf8_lossy);
            let shown: String = location
                .iter()
                .flat_map(|text| text.chars())
                .take(SHOWN)
                .collect();
            format!(
                "the redirect ({}) to {shown:?} can't be followed",
                sample.status
            )
        })?);
    }
}

fn ask(
    settings: &Settings,
    server: &Server,
    requests: &Requests,
    hop: Option<&Hop>,
) -> anyhow::Result<Fetched> {
    let mut stream = open(&server.peer)?;
    let mut room = Vec::new();
    let asked = Asked {
        head: settings.method == "HEAD",
    };
    stream
        .write_all(requests.led_to(0, hop, &mut room))
        .context("sending the request")?;
    let mut reader = Reader::new();
    let mut content = Content::default();
    let mut buffer = vec![0; 64 * 1024];
    let mut first: Option<Vec<u8>> = None;
    let give_up = clock::now() + PATIENCE.as_nanos() as u64;
    let answer = loop {
        // A server that sends a byte now and then keeps no read waiting for long, and would never be done.
        ensure!(clock::now() < give_up, TOO_LATE);
        let length = match stream.read(&mut buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ) =>
            {
                bail!(TOO_LATE)
            }
            Err(error) => return Err(error).context("reading the answer"),
        };
        let piece = &buffer[..length];
        first.get_or_insert_with(|| piece[..length.min(SHOWN)].to_vec());
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
                "the answer can't be read ({fault}); it begins {:?}",
                begun()
            ),
        }
    };
    Ok(content.fetched(answer.status, answer.body))
}

/// The hash of a content, piece by piece, and where the answer leads.
pub(crate) struct Content {
    digest: Digest,
    sum: Sum,
    pub(crate) location: Option<Vec<u8>>,
}

impl Default for Content {
    fn default() -> Self {
        Self {
            digest: Digest::new(&SHA256),
            sum: Sum::default(),
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

    /// What an answer of that status and length was.
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

/// Reads and writes, whatever it is.
trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

/// What was being done where there is no connection.
pub(crate) fn connecting(peer: &Peer) -> String {
    format!("connecting to {peer}: does a server listen there?")
}

fn open(peer: &Peer) -> anyhow::Result<Box<dyn Stream>> {
    let connecting = || connecting(peer);
    match peer {
        Peer::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, PATIENCE).with_context(connecting)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(Box::new(stream))
        }
        Peer::Unix(path) => {
            let stream = UnixStream::connect(path).with_context(connecting)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(Box::new(stream))
        }
    }
}
