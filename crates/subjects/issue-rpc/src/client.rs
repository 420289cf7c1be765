//! A client that waits for each answer, with one deadline for sending the request and reading the answer.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::geteuid;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::code::Code;
use crate::operation::is_read;
use crate::version::VERSION;

/// The time for a request if the caller sets none.
const TIMEOUT: Duration = Duration::from_secs(30);
const READ_SIZE: usize = 64 << 10;

/// A request of a client.
#[derive(Debug, Clone, Serialize)]
pub struct Call {
    operation: String,
    args: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
}

impl Call {
    /// Makes a request of an operation and its arguments, a JSON object.
    #[must_use]
    pub fn new(operation: &str, args: Value) -> Self {
        Self {
            operation: operation.to_owned(),
            args,
            idempotency_key: None,
        }
    }

    /// Sets the key by which the daemon recognises the request if it is sent again.
    #[must_use]
    pub fn with_key(mut self, key: &str) -> Self {
        self.idempotency_key = Some(key.to_owned());
        self
    }

    /// Returns the name of the operation.
    #[must_use]
    pub fn operation(&self) -> &str {
        &self.operation
    }

    /// Returns true if the operation changes nothing. One that is unknown may change something.
    #[must_use]
    pub fn is_read(&self) -> bool {
        is_read(&self.operation) && self.args["claim"] != true
    }

    pub(crate) fn can_be_repeated(&self) -> bool {
        self.idempotency_key.is_some() || self.is_read()
    }
}

/// The reason why a request was not answered with success.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No daemon accepts connections at the socket. The request was not sent.
    #[error("no daemon answers at {}: {error}", socket.display())]
    NoDaemon {
        /// The path of the socket.
        socket: PathBuf,
        /// The reason of the kernel.
        error: io::Error,
    },
    /// The connection ended, or the time ended, before the answer.
    #[error("{problem}: {outcome}")]
    Unanswered {
        /// The event.
        problem: String,
        /// The state of the request as far as the client knows, and the remedy.
        outcome: &'static str,
        /// True if the request was sent, at least in part.
        is_sent: bool,
    },
    /// The daemon refused the request, or failed.
    #[error("{error}")]
    Refused {
        /// The kind of the failure.
        code: Code,
        /// The failure and its remedy.
        error: String,
        /// The data of the failure, such as the results of a batch.
        data: Option<Box<RawValue>>,
    },
    /// The daemon answered something that is not of the protocol.
    #[error("the daemon's answer cannot be understood: {0}: the connection was closed")]
    Protocol(String),
}

/// A connection to a daemon.
#[derive(Debug)]
pub struct Client {
    socket: PathBuf,
    connection: Option<UnixStream>,
    timeout: Option<Duration>,
    actor: String,
    expected_db: Option<PathBuf>,
    requests: u64,
}

/// A request as it is sent.
#[derive(Serialize)]
pub(crate) struct Sent<'a> {
    #[serde(flatten)]
    pub(crate) call: &'a Call,
    pub(crate) request_id: u64,
    pub(crate) actor: &'a str,
    pub(crate) client_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expected_db: Option<&'a Path>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deadline_ms: Option<u64>,
}

impl Sent<'_> {
    /// Returns the line with its end.
    pub(crate) fn line(&self) -> Result<Vec<u8>, ClientError> {
        let mut line =
            serde_json::to_vec(self).map_err(|error| ClientError::Protocol(error.to_string()))?;
        line.push(b'\n');
        Ok(line)
    }
}

/// An answer as it is received.
#[derive(Deserialize)]
pub(crate) struct Received {
    success: bool,
    request_id: Option<u64>,
    data: Option<Box<RawValue>>,
    code: Option<Code>,
    error: Option<String>,
}

impl Client {
    /// Connects to the daemon at a socket.
    ///
    /// # Errors
    /// No daemon accepts connections there.
    pub fn connect(socket: &Path, actor: &str) -> Result<Self, ClientError> {
        let mut client = Self {
            socket: socket.to_owned(),
            connection: None,
            timeout: Some(TIMEOUT),
            actor: actor.to_owned(),
            expected_db: None,
            requests: 0,
        };
        client.reconnect()?;
        Ok(client)
    }

    /// Sets the time for each request, from sending it to its answer. `None` waits forever.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the database that the daemon must serve; it refuses requests if it serves another one.
    #[must_use]
    pub fn with_database(mut self, database: &Path) -> Self {
        self.expected_db = Some(database.to_owned());
        self
    }

    /// Sends a request and waits for the answer. Returns its data.
    ///
    /// The connection is closed after a timeout, because the late answer would be taken for the next request's.
    /// The next call connects again. If the connection breaks, a read, or a write with an idempotency key, is sent once
    /// more within the same deadline.
    ///
    /// # Errors
    /// The daemon refused the request, or no answer arrived. The error says what is known about the request.
    pub fn call(&mut self, call: &Call) -> Result<Box<RawValue>, ClientError> {
        let deadline = Deadline::after(self.timeout);
        match self.call_once(call, &deadline) {
            Err(ClientError::Unanswered { is_sent, .. })
                if (!is_sent || call.can_be_repeated()) && !deadline.is_over() =>
            {
                self.call_once(call, &deadline)
            }
            other => other,
        }
    }

    /// Sends a request as [`call`](Self::call) does, and parses the data of the answer.
    ///
    /// # Errors
    /// As `call`, or data of another shape.
    pub fn read<T: DeserializeOwned>(&mut self, call: &Call) -> Result<T, ClientError> {
        let data = self.call(call)?;
        serde_json::from_str(data.get()).map_err(|error| ClientError::Protocol(error.to_string()))
    }

    fn call_once(
        &mut self,
        call: &Call,
        deadline: &Deadline,
    ) -> Result<Box<RawValue>, ClientError> {
        if self.connection.is_none() {
            self.reconnect()?;
        }
        self.requests += 1;
        let line = Sent {
            call,
            request_id: self.requests,
            actor: &self.actor,
            client_version: VERSION,
            expected_db: self.expected_db.as_deref(),
            deadline_ms: deadline.unix_ms,
        }
        .line()?;
        let mut connection = self.connection.take().expect("it was connected above");
        let answer = exchange(&mut connection, &line, deadline)
            .map_err(|failure| failure.describe(self.timeout, call))?;
        let received = understand(&answer, self.requests)?;
        // A refusal without an id is the last line of a connection. After an error, answers may be out of step.
        if received.request_id.is_some() {
            self.connection = Some(connection);
        }
        received.result()
    }

    fn reconnect(&mut self) -> Result<(), ClientError> {
        let connected = UnixStream::connect(&self.socket).and_then(|stream| {
            check_peer(&stream)?;
            Ok(stream)
        });
        let stream = connected.map_err(|error| ClientError::NoDaemon {
            socket: self.socket.clone(),
            error,
        })?;
        self.connection = Some(stream);
        Ok(())
    }
}

/// Checks that a daemon of this user, or of root, has the other end (SO_PEERCRED, unix(7)): anybody could listen at a
/// path that others can write.
///
/// # Errors
/// It is another user's, or `stream` is not a socket.
pub fn check_peer(stream: &impl AsFd) -> io::Result<()> {
    let peer = getsockopt(stream, PeerCredentials)?.uid();
    if is_trusted(peer, geteuid().as_raw()) {
        Ok(())
    } else {
        let problem = format!("user {peer} listens there, and not this one: nothing was sent");
        Err(io::Error::new(io::ErrorKind::PermissionDenied, problem))
    }
}

fn is_trusted(peer: u32, user: u32) -> bool {
    peer == user || peer == 0
}

/// Parses the answer to a request.
pub(crate) fn understand(line: &[u8], request_id: u64) -> Result<Received, ClientError> {
    let received: Received =
        serde_json::from_slice(line).map_err(|error| ClientError::Protocol(error.to_string()))?;
    let is_own = match received.request_id {
        Some(id) => id == request_id,
        // A line that the daemon did not read, such as one that is too long, has no id for it.
        None => !received.success,
    };
    if is_own {
        Ok(received)
    } else {
        Err(ClientError::Protocol(
            "it belongs to another request".to_owned(),
        ))
    }
}

impl Received {
    /// Returns the data of a success.
    pub(crate) fn result(self) -> Result<Box<RawValue>, ClientError> {
        match (self.success, self.data) {
            (true, Some(data)) => Ok(data),
            (true, None) => Err(ClientError::Protocol("it has no data".to_owned())),
            (false, data) => Err(ClientError::Refused {
                code: self.code.unwrap_or(Code::Internal),
                error: self.error.unwrap_or_default(),
                data,
            }),
        }
    }
}

/// The end of the time for a request, on the clock of the process and as Unix time.
#[derive(Debug)]
pub(crate) struct Deadline {
    instant: Option<Instant>,
    pub(crate) unix_ms: Option<u64>,
}

impl Deadline {
    pub(crate) fn after(timeout: Option<Duration>) -> Self {
        let unix = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            instant: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            unix_ms: timeout.map(|timeout| unix.saturating_add(timeout).as_millis() as u64),
        }
    }

    fn is_over(&self) -> bool {
        self.instant
            .is_some_and(|instant| instant <= Instant::now())
    }

    /// Returns the time that is left, at least 1 µs, as a socket's timeout of 0 would be none.
    fn left(&self) -> io::Result<Option<Duration>> {
        match self
            .instant
            .map(|instant| instant.saturating_duration_since(Instant::now()))
        {
            Some(Duration::ZERO) => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(left.map(|left| left.max(Duration::from_micros(1)))),
        }
    }
}

/// The failure of an exchange.
struct Failure {
    error: io::Error,
    is_sent: bool,
}

impl Failure {
    fn describe(self, timeout: Option<Duration>, call: &Call) -> ClientError {
        let is_timeout = matches!(
            self.error.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
        );
        let problem = match (is_timeout, timeout) {
            (true, Some(timeout)) => format!("no answer to {} within {timeout:?}", call.operation),
            _ => format!(
                "the connection ended before the answer to {}: {}",
                call.operation, self.error
            ),
        };
        let outcome = match (self.is_sent, call.can_be_repeated(), is_timeout) {
            (false, ..) => "the request was not sent whole, so nothing was done",
            (true, true, _) => "it can be sent again without harm",
            (true, false, true) => {
                "it is not begun after its deadline, but may have been done: look before you repeat it, or give it an \
                 idempotency key"
            }
            (true, false, false) => {
                "it may have been done: look before you repeat it, or give it an idempotency key"
            }
        };
        ClientError::Unanswered {
            problem,
            outcome,
            is_sent: self.is_sent,
        }
    }
}

/// Sends a line, and returns the next one without its end.
fn exchange(stream: &mut UnixStream, line: &[u8], deadline: &Deadline) -> Result<Vec<u8>, Failure> {
    send(stream, line, deadline).map_err(|error| Failure {
        error,
        is_sent: false,
    })?;
    receive(stream, deadline).map_err(|error| Failure {
        error,
        is_sent: true,
    })
}

fn send(stream: &mut UnixStream, mut line: &[u8], deadline: &Deadline) -> io::Result<()> {
    while !line.is_empty() {
        stream.set_write_timeout(deadline.left()?)?;
        match stream.write(line) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(sent) => line = &line[sent..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn receive(stream: &mut UnixStream, deadline: &Deadline) -> io::Result<Vec<u8>> {
    let mut received = Vec::new();
    let mut piece = [0; READ_SIZE];
    loop {
        stream.set_read_timeout(deadline.left()?)?;
        let read = match stream.read(&mut piece) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => &piece[..read],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        match read.iter().position(|byte| *byte == b'\n') {
            None => received.extend_from_slice(read),
            Some(end) if end + 1 == read.len() => {
                received.extend_from_slice(&read[..end]);
                return Ok(received);
            }
            Some(_) => {
                let problem = "more than one line came for one request";
                return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peer_is_of_this_user_or_of_root() {
        assert!(is_trusted(1_000, 1_000) && is_trusted(0, 1_000));
        assert!(!is_trusted(65_534, 1_000) && !is_trusted(1_000, 0));
        let (one, _other) = UnixStream::pair().unwrap();
        check_peer(&one).unwrap();
    }
}
