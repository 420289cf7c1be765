//! The response to a request before the run: whether the server is worth measuring.

use std::io::{self, ErrorKind};
use std::time::Duration;

use anyhow::{anyhow, ensure};
use event_stream::is_event_stream;
use load::duration;
use load::net::dial::Peer;
use load::net::http1::Sink;
use measure::result::Answer;
use ring::digest::{Context as Digest, SHA256};

use crate::content::{Checksum, Expected};
use crate::events::{self, CONTENT_TYPE};
use crate::roles::redirect::LOCATION;
use crate::settings::Settings;

pub(crate) const PREFLIGHT_TIMEOUT: Duration = Duration::from_secs(10);
pub(crate) const TIMED_OUT: &str =
    "no complete response within 10 s: check that this is an HTTP server and is not stuck";
/// Bytes of a body that are kept, to take values from.
const KEPT: usize = 16 * 1024 * 1024;
/// Maximum number of characters of a record in a message.
const MAX_QUOTED: usize = 200;

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
        let (status, length) = (self.status, self.length);
        let expected = settings.expect_length.unwrap_or(length);
        ensure!(
            expected == length,
            "the server returned {status} with {length} bytes of content, but {expected} are expected: correct the path, or driver.expect_length (--expect-length)"
        );
        ensure!(
            settings.expects(status),
            "the server returned status {status}, which is not expected: correct the path, or accept it with --expect-status {status}"
        );
        Ok(())
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
        ensure!(
            self == other,
            "the servers respond differently: {} with {} bytes ({}) and {} with {} bytes ({}): make all of them serve the same content",
            self.status,
            self.length,
            &self.sha256[..12],
            other.status,
            other.length,
            &other.sha256[..12]
        );
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) sample: Sample,
    /// The fields of the head, and the begin of the body.
    pub(crate) fields: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

impl Fetched {
    /// Returns the target of a redirect.
    pub(crate) fn location(&self) -> Option<&[u8]> {
        let mut fields = self.fields.iter();
        let location = fields.find(|(name, _)| name.eq_ignore_ascii_case(LOCATION));
        location.map(|(_, value)| value.as_slice())
    }
}

/// Returns how long a response may take; of an event stream, its first record.
pub(crate) fn response_limit(settings: &Settings) -> Duration {
    if settings.events {
        settings.timeout
    } else {
        PREFLIGHT_TIMEOUT
    }
}

/// Returns the error of a response that does not come in time.
pub(crate) fn timed_out(settings: &Settings) -> anyhow::Error {
    if settings.events {
        let limit = duration::format(settings.timeout);
        anyhow!(
            "no record of an event stream within {limit}: check that the server is not stuck, or raise --timeout"
        )
    } else {
        anyhow!(TIMED_OUT)
    }
}

/// The running hash of a body, with its begin, and the status and fields of the head.
pub(crate) struct Content {
    status: u16,
    digest: Digest,
    sum: Checksum,
    fields: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl Default for Content {
    fn default() -> Self {
        Self {
            status: 0,
            digest: Digest::new(&SHA256),
            sum: Checksum::default(),
            fields: Vec::new(),
            body: Vec::new(),
        }
    }
}

impl Sink for Content {
    fn head(&mut self, status: u16, headers: &[httparse::Header<'_>]) {
        self.status(status);
        for header in headers {
            self.field(header.name, header.value);
        }
    }

    fn body(&mut self, piece: &[u8]) {
        self.update(piece);
    }
}

impl Content {
    pub(crate) fn update(&mut self, piece: &[u8]) {
        self.digest.update(piece);
        self.sum.update(piece);
        let kept = KEPT.saturating_sub(self.body.len()).min(piece.len());
        self.body.extend_from_slice(&piece[..kept]);
    }

    pub(crate) fn field(&mut self, name: &str, value: &[u8]) {
        self.fields.push((name.to_owned(), value.to_vec()));
    }

    pub(crate) fn status(&mut self, status: u16) {
        self.status = status;
    }

    /// Returns the response, if it has come so far that it is known to be an event stream: it has a record. `None` for
    /// one that is not a success, which is read as any other.
    ///
    /// # Errors
    /// A success that is not an event stream, or a record that reports an error.
    pub(crate) fn event_stream(&self) -> anyhow::Result<Option<(u16, u64)>> {
        if !(200..300).contains(&self.status) {
            return Ok(None);
        }
        let field = |wanted: &str| {
            let mut fields = self.fields.iter();
            let found = fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted));
            found.map(|(_, value)| value.as_slice())
        };
        let kind = field(CONTENT_TYPE).unwrap_or(b"none");
        ensure!(
            is_event_stream(kind),
            "the answer is not an event stream (Content-Type: {}): leave --events out, or ask for a stream, which servers of tokens send if the body has \"stream\": true",
            kind.escape_ascii()
        );
        let encoding = field("content-encoding").unwrap_or(b"identity");
        ensure!(
            encoding.eq_ignore_ascii_case(b"identity"),
            "the event stream is compressed (Content-Encoding: {}), and records are read as they are: ask for none with --header 'Accept-Encoding: identity', or turn compression off in the server",
            encoding.escape_ascii()
        );
        let is_first = events::begins(&self.body);
        let is_first = is_first.map_err(|record| {
            let begin: String = record.chars().take(MAX_QUOTED).collect();
            anyhow!("the server reports an error in its event stream: {begin:?}")
        })?;
        Ok(is_first.then_some((self.status, self.body.len() as u64)))
    }

    /// Checks that a complete response had a record, if it is a success.
    ///
    /// # Errors
    /// It had none.
    pub(crate) fn check_events(&self) -> anyhow::Result<()> {
        ensure!(
            !(200..300).contains(&self.status) || self.event_stream()?.is_some(),
            "the event stream ended without a record: correct the request"
        );
        Ok(())
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
            fields: self.fields,
            body: self.body,
        }
    }
}

/// Returns the error of a failed connection attempt, with the remedy.
pub(crate) fn no_connection(peer: &Peer, error: &io::Error) -> anyhow::Error {
    let remedy = match error.kind() {
        ErrorKind::PermissionDenied => {
            "let this user connect (permissions of the socket and its folder), or run as the user of the server"
        }
        ErrorKind::TimedOut | ErrorKind::WouldBlock => {
            "check the address, firewalls on the way, and that the server is not stuck"
        }
        _ => {
            "start the server, correct the address, or leave the URL out to have a server launched"
        }
    };
    anyhow!("cannot connect to {peer} ({error}): {remedy}")
}
