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
use crate::hyper;
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

/// Asks once, on a connection of its own.
///
/// # Errors
/// No connection, no answer in time, or one that is no HTTP.
pub(crate) fn fetch(
    settings: &Settings,
    server: &Server,
    requests: &Requests,
) -> anyhow::Result<Sample> {
    if settings.engine == Engine::Hyper {
        return hyper::fetch(settings, server);
    }
    let mut stream = open(&server.peer)?;
    let mut room = Vec::new();
    let asked = Asked {
        head: settings.method == "HEAD",
    };
    stream
        .write_all(requests.of(0, &mut room))
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
    Ok(Sample {
        status: answer.status,
        length: answer.body,
        sha256: content.sha256(),
    })
}

/// The hash of a content, piece by piece.
pub(crate) struct Content(Digest);

impl Default for Content {
    fn default() -> Self {
        Self(Digest::new(&SHA256))
    }
}

impl Sink for Content {
    fn body(&mut self, piece: &[u8]) {
        self.update(piece);
    }
}

impl Content {
    pub(crate) fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    pub(crate) fn sha256(self) -> String {
        let digest = self.0.finish();
        digest
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
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
