//! A connection to the daemon that sends one request at a time, each with a deadline.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use issue_rpc::{Code, VERSION, check_peer};
use nix::errno::Errno;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::outcome;

const READ_SIZE: usize = 16 << 10;
/// The longest answer, in bytes: a long list.
const MAX_ANSWER: u64 = 64 << 20;

/// A connection of an agent. It is closed after a timeout or an error, and opened again by [`connect`](Self::connect).
#[derive(Debug)]
pub(crate) struct Wire {
    socket: PathBuf,
    actor: String,
    stream: Option<BufReader<UnixStream>>,
    request: Vec<u8>,
    answer: Vec<u8>,
    requests: u64,
}

/// The time of a request, and the key by which it may be sent again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms<'a> {
    /// The time that the agent waits for the answer.
    pub(crate) timeout: Duration,
    /// The Unix time in milliseconds after which the daemon must not begin; by default the end of the timeout.
    pub(crate) deadline_ms: Option<u64>,
    pub(crate) key: Option<&'a str>,
}

#[derive(Serialize)]
struct Request<'a, A> {
    operation: &'a str,
    args: &'a A,
    request_id: u64,
    actor: &'a str,
    client_version: &'a str,
    deadline_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
}

/// An answer to a request.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer<'a> {
    pub(crate) success: bool,
    request_id: Option<u64>,
    #[serde(borrow)]
    pub(crate) data: Option<&'a RawValue>,
    pub(crate) code: Option<Code>,
}

impl<'a> Answer<'a> {
    /// Parses the data of a success.
    pub(crate) fn data<T: Deserialize<'a>>(&self) -> Result<T, &'static str> {
        let data = self.data.filter(|_| self.success);
        let data = data.ok_or_else(|| self.failure())?;
        serde_json::from_str(data.get()).map_err(|_| outcome::MALFORMED)
    }

    /// Returns the outcome of an operation that is answered with a failure.
    pub(crate) fn failure(&self) -> &'static str {
        match self.code {
            Some(Code::Busy) => outcome::BUSY,
            Some(Code::Timeout) => outcome::TIMEOUT,
            _ => outcome::REFUSED,
        }
    }
}

impl Wire {
    pub(crate) fn new(socket: &Path, actor: String) -> Self {
        Self {
            socket: socket.to_owned(),
            actor,
            stream: None,
            request: Vec::new(),
            answer: Vec::new(),
            requests: 0,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    /// Opens a connection, unless one is open.
    pub(crate) async fn connect(&mut self) -> Result<(), &'static str> {
        if self.stream.is_none() {
            let stream = UnixStream::connect(&self.socket).await;
            let stream =
                stream.map_err(|error| match error.raw_os_error().map(Errno::from_raw) {
                    Some(Errno::EMFILE | Errno::ENFILE) => outcome::DESCRIPTORS,
                    _ => outcome::CONNECT,
                })?;
            check_peer(&stream).map_err(|_| outcome::CONNECT)?;
            self.stream = Some(BufReader::with_capacity(READ_SIZE, stream));
        }
        Ok(())
    }

    /// Writes a request into the buffer.
    fn write<A: Serialize>(
        &mut self,
        operation: &str,
        args: &A,
        terms: Terms<'_>,
    ) -> Result<(), &'static str> {
        self.requests += 1;
        self.request.clear();
        let request = Request {
            operation,
            args,
            request_id: self.requests,
            actor: &self.actor,
            client_version: VERSION,
            deadline_ms: terms.deadline_ms.unwrap_or_else(|| unix_ms(terms.timeout)),
            idempotency_key: terms.key,
        };
        serde_json::to_writer(&mut self.request, &request).map_err(|_| outcome::MALFORMED)?;
        self.request.push(b'\n');
        Ok(())
    }

    /// Sends a request, or the first half of it, and closes the connection without reading.
    pub(crate) async fn send_and_leave<A: Serialize>(
        &mut self,
        operation: &str,
        args: &A,
        wait: Duration,
        is_whole: bool,
    ) -> Result<(), &'static str> {
        let terms = Terms {
            timeout: wait,
            deadline_ms: None,
            key: None,
        };
        self.write(operation, args, terms)?;
        let end = if is_whole {
            self.request.len()
        } else {
            self.request.len() / 2
        };
        let mut stream = self.stream.take().ok_or(outcome::CONNECT)?;
        let sent = stream.get_mut().write_all(&self.request[..end]);
        match timeout(wait, sent).await {
            Err(_) => Err(outcome::TIMEOUT),
            Ok(Err(_)) => Err(outcome::CONNECTION_LOST),
            Ok(Ok(())) => Ok(()),
        }
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn call<A: Serialize>(
        &mut self,
        operation: &str,
        args: &A,
        terms: Terms<'_>,
    ) -> Result<Answer<'_>, &'static str> {
        self.write(operation, args, terms)?;
        // Taken, so that an early end of this future, or an error, closes it: a late answer must not be read as the
        // answer of the next request.
        let mut stream = self.stream.take().ok_or(outcome::CONNECT)?;
        let exchange = exchange(&mut stream, &self.request, &mut self.answer);
        match timeout(terms.timeout, exchange).await {
            Err(_) => return Err(outcome::TIMEOUT),
            Ok(Err(_)) => return Err(outcome::CONNECTION_LOST),
            Ok(Ok(())) => {}
        }
        let answer: Answer<'_> =
            serde_json::from_slice(&self.answer).map_err(|_| outcome::MALFORMED)?;
        if answer.request_id != Some(self.requests) {
            return Err(outcome::FOREIGN_ANSWER);
        }
        // What follows an answer belongs to no request.
        if !stream.buffer().is_empty() {
            return Err(outcome::FOREIGN_ANSWER);
        }
        self.stream = Some(stream);
        Ok(answer)
    }
}

async fn exchange(
    stream: &mut BufReader<UnixStream>,
    request: &[u8],
    answer: &mut Vec<u8>,
) -> io::Result<()> {
    stream.get_mut().write_all(request).await?;
    answer.clear();
    stream.take(MAX_ANSWER).read_until(b'\n', answer).await?;
    match answer.last() {
        Some(b'\n') => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Returns the Unix time in milliseconds that is `later` from now.
pub(crate) fn unix_ms(later: Duration) -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    now.saturating_add(later).as_millis() as u64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use std::os::fd::AsRawFd as _;
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use harness_testing::skip;
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, bind, socket};

    use super::*;

    #[tokio::test]
    async fn nothing_is_sent_to_a_daemon_of_another_user() {
        const NOBODY: u32 = 65_534;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let flags = SockFlag::empty();
        let listener = socket(AddressFamily::Unix, SockType::Stream, flags, None).unwrap();
        bind(listener.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        // The peer of a client is the one who has called listen(2).
        let listen = "import socket; socket.socket(fileno=0).listen()";
        let mut program = Command::new("python3");
        program
            .args(["-c", listen])
            .uid(NOBODY)
            .stdin(listener.try_clone().unwrap());
        let Ok(status) = program.status() else {
            return skip("the right to start a program of another user");
        };
        assert!(status.success());
        let mut wire = Wire::new(&path, "agent".to_owned());
        assert_eq!(wire.connect().await, Err(outcome::CONNECT));
        assert!(!wire.is_open());
    }
}
