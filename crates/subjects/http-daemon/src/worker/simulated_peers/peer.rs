//! A simulated client of HTTP/1 or HTTP/2: its requests, the bytes that it sends and reads, and the answers that it must
//! get. The tests of the program use this file too.

// The same file for the tests of the program, which name this one by its path.
#[path = "http2.rs"]
mod http2;

use std::collections::VecDeque;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::LazyLock;

use memchr::memmem;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, Shutdown, recv, send, shutdown};
use rand::RngExt as _;
use rand::rngs::StdRng;

use self::http2::Http2;

/// Clients at the same time. Few, so that they reuse what others have left.
pub(crate) const CLIENTS: usize = 5;
/// The lengths of the files: none, one piece of the daemon and a byte more, and more than a socket takes.
const LENGTHS: [usize; 6] = [0, 1, 1_000, 65_536, 65_537, 300_000];
/// The length of a body that a client sends.
const BODY: usize = 3_000;
/// The length of a head that is too long, although hyper may read twice the limit before it looks.
const LONG_HEAD: usize = 20_000;
/// The length of a body that stays unsent in part.
const TRUNCATED: usize = 2_000;

/// The contents of the files, named by their index. No two of them begin in the same way.
pub(crate) static FILES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let file = |(name, length): (usize, &usize)| {
        (0..*length).map(move |index| (index * 31 + (index >> 8) + name * 7 + 1) as u8)
    };
    let files = LENGTHS.iter().enumerate().map(file);
    files.map(Iterator::collect).collect()
});

/// A request of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    File(usize),
    Head(usize),
    /// All bytes of a file but the first.
    Part(usize),
    Missing,
    /// A body that is announced by its length, in chunks, or after the daemon asked for it.
    Echo,
    Chunked,
    Expect,
    /// A method that files do not have, with a body or without.
    Post(usize),
    /// HTTP/1.0 without and with keep-alive, and HTTP/1.1 without it.
    Old,
    OldKept,
    Close,
    /// A protocol that the daemon does not offer.
    Upgrade,
    NoHost,
    Malformed,
    /// A coding of the body that the daemon does not know.
    Coded,
    LongHead,
    Unavailable,
    Redirect,
    /// A response in chunks: this many of this size.
    Chunks(usize, usize),
    /// A response after a while, and one in pieces.
    Delay,
    Slow,
    /// Faults below HTTP.
    Stall,
    Reset,
    Truncated,
    NoStatusLine,
}

/// One thing that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A client connects; if this is true, it speaks HTTP/2.
    Connect(usize, bool),
    /// A client makes this many requests.
    Request(usize, Ask, usize),
    /// A client sends at most this many bytes.
    Send(usize, usize),
    /// A client reads at most this many bytes.
    Receive(usize, usize),
    /// A client no longer reads the last stream of its HTTP/2 connection.
    Withhold(usize),
    /// A client resets the last stream of its HTTP/2 connection.
    ResetStream(usize),
    /// A client ends its side.
    HalfClose(usize),
    /// A client closes its connection.
    Leave(usize),
    /// The daemon does what it can.
    Turn,
    /// A further client comes and must be served at once.
    Probe,
    /// The time of the timeouts passes.
    Timeout,
    /// The daemon is asked to stop.
    Drain,
}

impl Event {
    /// Draws an event that leaves the time alone.
    pub(crate) fn draw(random: &mut StdRng) -> Self {
        let client = random.random_range(0..CLIENTS);
        let bytes = [1, 9, 100, usize::MAX, usize::MAX][random.random_range(0..5)];
        match random.random_range(0..100) {
            0..13 => Self::Connect(client, random.random_range(0..3) == 0),
            13..35 => {
                let count = [1, 1, 2, 5][random.random_range(0..4)];
                Self::Request(client, Ask::draw(random), count)
            }
            35..55 => Self::Send(client, bytes),
            55..63 => Self::Receive(client, bytes),
            63..65 => Self::Withhold(client),
            65..68 => Self::ResetStream(client),
            68..71 => Self::HalfClose(client),
            71..77 => Self::Leave(client),
            77..79 => Self::Probe,
            _ => Self::Turn,
        }
    }
}

impl Ask {
    fn draw(random: &mut StdRng) -> Self {
        let file = random.random_range(0..LENGTHS.len());
        match random.random_range(0..46) {
            0..14 => Self::File(file),
            14..16 => Self::Head(file),
            16 => Self::Missing,
            17..20 => Self::Echo,
            20..22 => Self::Chunked,
            22..24 => Self::Expect,
            24 => Self::Post(0),
            25 => Self::Post(BODY),
            26 => Self::Old,
            27 => Self::OldKept,
            28 => Self::Close,
            29 => Self::Upgrade,
            30 => Self::NoHost,
            31 => Self::Malformed,
            32 => Self::LongHead,
            33 => Self::Unavailable,
            34 => Self::Redirect,
            // The second fills a socket with pieces that are less than a buffer.
            35 if file > 2 => Self::Chunks(7, 60_000),
            35 => Self::Chunks(60, 5_000),
            36 => Self::Stall,
            37 => Self::Reset,
            38 => Self::Truncated,
            39 => Self::Delay,
            40 => Self::Slow,
            41 => Self::Coded,
            42..45 if file > 1 => Self::Part(file),
            42..45 => Self::File(file),
            _ => Self::NoStatusLine,
        }
    }

    fn is_last(self) -> bool {
        match self {
            Self::Post(length) => length > 0,
            Self::Old | Self::Close | Self::NoHost => true,
            Self::Malformed | Self::Coded | Self::LongHead => true,
            Self::Stall | Self::Reset | Self::Truncated | Self::NoStatusLine => true,
            _ => false,
        }
    }

    fn path(self, id: u64) -> String {
        match self {
            Self::File(file) | Self::Head(file) | Self::Part(file) => format!("/{file}"),
            Self::Missing => format!("/no-such-file-{id}"),
            Self::Echo | Self::Chunked | Self::Expect => format!("/echo?{id}"),
            Self::Unavailable => "/fault/status/503".to_owned(),
            Self::Redirect => "/fault/redirect/7".to_owned(),
            Self::Chunks(count, size) => format!("/fault/chunked?chunks={count}&size={size}"),
            Self::Delay => "/fault/delay?ms=1".to_owned(),
            Self::Slow => "/fault/slow?ms=1".to_owned(),
            Self::Stall => "/fault/stall".to_owned(),
            Self::Reset => "/fault/reset".to_owned(),
            Self::Truncated => format!("/fault/truncated?bytes={TRUNCATED}"),
            Self::NoStatusLine => "/fault/garbage".to_owned(),
            _ => "/2".to_owned(),
        }
    }

    /// Returns the bytes of the request, and those that follow when the daemon asks for them.
    fn request(self, id: u64) -> (Vec<u8>, Vec<u8>) {
        let path = self.path(id);
        let get = |fields: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").into();
        let post = |fields: &str| format!("POST {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let length = format!("Content-Length: {BODY}\r\n");
        let body = vec![b'b'; BODY];
        let request: Vec<u8> = match self {
            Self::Head(_) => format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n").into(),
            Self::Echo => [post(&length).as_bytes(), &body].concat(),
            Self::Chunked => {
                let (first, second) = body.split_at(BODY / 3);
                let head = post("Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n");
                let mut request = head.into_bytes();
                for chunk in [first, second] {
                    request.extend_from_slice(format!("{:x};a=b\r\n", chunk.len()).as_bytes());
                    request.extend_from_slice(chunk);
                    request.extend_from_slice(b"\r\n");
                }
                request.extend_from_slice(b"0\r\nX-Sum: 1\r\n\r\n");
                request
            }
            Self::Expect => {
                let head = post(&format!("{length}Expect: 100-continue\r\n"));
                return (head.into(), body);
            }
            Self::Post(length) => {
                let head = post(&format!("Content-Length: {length}\r\n"));
                [head.as_bytes(), &body[..length]].concat()
            }
            Self::Old => format!("GET {path} HTTP/1.0\r\n\r\n").into(),
            Self::OldKept => {
                format!("GET {path} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").into()
            }
            Self::Close => get("Connection: close\r\n"),
            Self::Upgrade => get(
                "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
            ),
            Self::NoHost => format!("GET {path} HTTP/1.1\r\n\r\n").into(),
            Self::Malformed => b"GET / HTTP/1.1\r\nHost a\r\n\r\n".into(),
            Self::Part(_) => get("Range: bytes=1-\r\n"),
            Self::Coded => post("Transfer-Encoding: gzip, chunked\r\n").into(),
            Self::LongHead => get(&format!("X: {}\r\n", "x".repeat(LONG_HEAD))),
            _ => get(""),
        };
        (request, Vec::new())
    }

    /// Returns what must come back.
    fn expected(self, id: u64) -> Expected {
        let text = |status, text: &str| (status, Body::Bytes(text.as_bytes().to_vec()));
        let (status, body) = match self {
            Self::File(file) => (200, Body::File(file)),
            Self::Head(file) => (200, Body::Announced(LENGTHS[file])),
            Self::Part(file) => (206, Body::Bytes(FILES[file][1..].to_vec())),
            Self::Missing => text(404, "404 Not Found\n"),
            Self::Echo | Self::Chunked | Self::Expect => (200, Body::Echo(self.path(id))),
            Self::Post(_) => text(405, "only GET and HEAD\n"),
            Self::NoHost => text(400, "the Host field is missing\n"),
            Self::Malformed => text(400, ""),
            Self::Coded => text(501, ""),
            Self::LongHead => text(431, ""),
            Self::Unavailable => text(503, "503 Service Unavailable\n"),
            Self::Redirect => text(302, ""),
            Self::Chunks(count, size) => (200, Body::Bytes(vec![0; count * size])),
            Self::Delay => text(200, "late\n"),
            Self::Slow => (200, Body::Bytes(vec![0; 1_024])),
            Self::Stall => return Expected::Nothing,
            Self::Reset => return Expected::Bytes(Vec::new()),
            Self::Truncated => {
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {TRUNCATED}\r\n\r\n"
                );
                return Expected::Bytes([head.as_bytes(), &[0; TRUNCATED / 2]].concat());
            }
            Self::NoStatusLine => return Expected::Bytes(b"I AM NO STATUS LINE\r\n\r\n".to_vec()),
            _ => (200, Body::File(2)),
        };
        Expected::Answer(status, body)
    }
}

/// The body of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Body {
    File(usize),
    Bytes(Vec<u8>),
    /// None, although its length is announced.
    Announced(usize),
    /// The description of a request to this target.
    Echo(String),
}

impl Body {
    fn check(&self, body: &[u8]) -> Result<(), String> {
        let is_right = match self {
            Self::File(file) => body == FILES[*file],
            Self::Bytes(bytes) => body == bytes,
            Self::Announced(_) => body.is_empty(),
            Self::Echo(target) => {
                let has = |text: &str| memmem::find(body, text.as_bytes()).is_some();
                has(&format!("\"body_bytes\":{BODY}"))
                    && (has(&format!("{target}\"")) && has("\"method\":\"POST\""))
            }
        };
        let shown = body[..body.len().min(80)].escape_ascii();
        let wrong = || format!("a wrong body for {self:?}: {} bytes, {shown}", body.len());
        is_right.then_some(()).ok_or_else(wrong)
    }
}

/// The next thing that must come back.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Expected {
    /// A response with this status.
    Answer(u16, Body),
    /// These bytes, then the end. A client that does not read may miss the last of them.
    Bytes(Vec<u8>),
    /// Nothing, until the client leaves.
    Nothing,
    /// Something or nothing, then the end: half of the request is missing.
    Anything,
}

/// A client that is connected.
pub(crate) struct Peer {
    socket: OwnedFd,
    http2: Option<Http2>,
    received: Vec<u8>,
    expected: VecDeque<Expected>,
    /// The bytes that it has not sent yet, and those that wait for the daemon's request.
    unsent: Vec<u8>,
    withheld: Vec<u8>,
    /// Number of bytes that it has sent, and the ends of the heads and of the requests among all of its bytes.
    sent: usize,
    heads: Vec<usize>,
    requests: Vec<usize>,
    /// True if its first request is a POST.
    is_post: bool,
    /// True once it makes no further request.
    is_last: bool,
    /// True once it has ended its side.
    is_half_closed: bool,
    /// True if the daemon may end the connection at any time, after a timeout.
    pub(crate) may_be_cut: bool,
    /// True if the daemon may end the connection between two responses.
    pub(crate) may_end: bool,
    /// True once the daemon has ended it.
    pub(crate) has_ended: bool,
}

impl Peer {
    /// Creates a client of a connected socket.
    pub(crate) fn new(socket: OwnedFd, is_http2: bool) -> Self {
        let http2 = is_http2.then(Http2::default);
        let unsent = if is_http2 {
            Http2::preface()
        } else {
            Vec::new()
        };
        Self {
            socket,
            http2,
            received: Vec::new(),
            expected: VecDeque::new(),
            unsent,
            withheld: Vec::new(),
            sent: 0,
            heads: Vec::new(),
            requests: Vec::new(),
            is_post: false,
            is_last: false,
            is_half_closed: false,
            may_be_cut: false,
            may_end: false,
            has_ended: false,
        }
    }

    /// Creates a client that is one too many.
    pub(crate) fn refused(socket: OwnedFd) -> Self {
        let expected = Expected::Answer(503, Body::Bytes(Vec::new()));
        Self {
            expected: [expected].into(),
            is_last: true,
            ..Self::new(socket, false)
        }
    }

    pub(crate) fn speaks_http2(&self) -> bool {
        self.http2.is_some()
    }

    /// Makes a request, which is sent by [`send`](Self::send).
    pub(crate) fn request(&mut self, ask: Ask, id: u64) {
        if self.is_last || self.is_half_closed || self.has_ended || !self.withheld.is_empty() {
            return;
        }
        if let Some(http2) = &mut self.http2 {
            http2.request(ask, id, &mut self.unsent);
            return;
        }
        let begin = self.sent + self.unsent.len();
        let (request, withheld) = ask.request(id);
        let head = memmem::find(&request, b"\r\n\r\n").map_or(request.len(), |end| end + 4);
        if self.requests.is_empty() {
            self.is_post = request.starts_with(b"P");
        }
        self.heads.push(begin + head);
        self.requests.push(begin + request.len() + withheld.len());
        self.unsent.extend_from_slice(&request);
        self.withheld = withheld;
        self.expected.push_back(ask.expected(id));
        self.is_last = ask.is_last();
    }

    /// Sends at most this many bytes. Returns true if it sent something.
    pub(crate) fn send(&mut self, most: usize) -> Result<bool, String> {
        let mut left = self.unsent.len().min(most);
        let mut is_progress = false;
        while left > 0 && !self.has_ended && !self.is_half_closed {
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
            match send(self.socket.as_raw_fd(), &self.unsent[..left], flags) {
                Ok(length) => {
                    self.unsent.drain(..length);
                    self.sent += length;
                    left -= length;
                    is_progress = true;
                }
                Err(Errno::EAGAIN) => break,
                // Reading shows whether the daemon was right to close.
                Err(Errno::EPIPE | Errno::ECONNRESET) => self.unsent.clear(),
                Err(error) => return Err(format!("sending: {error}")),
            }
            left = left.min(self.unsent.len());
        }
        Ok(is_progress)
    }

    /// Reads at most this many bytes and checks them. Returns true if there was something.
    pub(crate) fn receive(&mut self, most: usize) -> Result<bool, String> {
        let mut buffer = vec![0; most.min(64 << 10)];
        let mut left = most;
        while left > 0 && !self.has_ended {
            let part = buffer.len().min(left);
            match recv(
                self.socket.as_raw_fd(),
                &mut buffer[..part],
                MsgFlags::MSG_DONTWAIT,
            ) {
                Ok(0) => {
                    self.has_ended = true;
                    self.check_end()?;
                    return Ok(true);
                }
                Err(Errno::ECONNRESET) => {
                    self.has_ended = true;
                    let is_fault = matches!(self.expected.back(), Some(Expected::Bytes(_)));
                    let wrong = "reset: responses that were not read yet may be lost";
                    let is_over = self.may_end && self.waiting() == 0;
                    let is_right = self.may_be_cut || is_fault || is_over;
                    return is_right.then_some(true).ok_or_else(|| wrong.to_owned());
                }
                Ok(length) => {
                    left -= length;
                    self.received.extend_from_slice(&buffer[..length]);
                    match &mut self.http2 {
                        Some(http2) => http2.take(&mut self.received, &mut self.unsent)?,
                        None => while self.take()? {},
                    }
                }
                Err(Errno::EAGAIN) => break,
                Err(error) => return Err(format!("reading: {error}")),
            }
        }
        Ok(left < most)
    }

    /// Takes one response of HTTP/1; returns false if the rest of it is missing.
    fn take(&mut self) -> Result<bool, String> {
        if self.may_be_cut && self.received.starts_with(b"HTTP/1.1 408 ") {
            self.expected = [Expected::Anything].into();
        }
        let Some(expected) = self.expected.front() else {
            return surplus(&self.received);
        };
        let (status, body) = match expected {
            Expected::Nothing => return surplus(&self.received),
            Expected::Anything => {
                self.received.clear();
                return Ok(false);
            }
            Expected::Bytes(bytes) if bytes.starts_with(&self.received) => return Ok(false),
            Expected::Bytes(_) => return surplus(&self.received),
            Expected::Answer(status, body) => (*status, body),
        };
        let Some(end) = memmem::find(&self.received, b"\r\n\r\n") else {
            return Ok(false);
        };
        let head = String::from_utf8_lossy(&self.received[..end]).to_ascii_lowercase();
        if head == "http/1.1 100 continue" && !self.withheld.is_empty() {
            self.unsent.append(&mut self.withheld);
            self.received.drain(..end + 4);
            return Ok(true);
        }
        let found = head.get(9..12).and_then(|digits| digits.parse().ok());
        if found != Some(status) {
            return Err(format!("another status than {status} for {body:?}: {head}"));
        }
        let field = |name: &str| {
            let mut lines = head.split("\r\n");
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        };
        let rest = &self.received[end + 4..];
        let length: Option<usize> = field("content-length").and_then(|length| length.parse().ok());
        let length = match body {
            Body::Announced(announced) if length == Some(*announced) => {
                body.check(b"")?;
                0
            }
            _ if field("transfer-encoding") == Some("chunked") => {
                let Some((whole, length)) = from_chunks(rest)? else {
                    return Ok(false);
                };
                body.check(&whole)?;
                length
            }
            _ => {
                let length = length.ok_or_else(|| format!("a body without a length: {head}"))?;
                let Some(whole) = rest.get(..length) else {
                    return Ok(false);
                };
                body.check(whole)?;
                length
            }
        };
        self.received.drain(..end + 4 + length);
        self.expected.pop_front();
        Ok(!self.received.is_empty())
    }

    /// Returns the number of responses that must come.
    fn waiting(&self) -> usize {
        match &self.http2 {
            Some(http2) => http2.waiting(),
            None => match self.expected.front() {
                // A client that gets no response is closed when it has ended its side.
                Some(Expected::Bytes(_) | Expected::Anything | Expected::Nothing) => {
                    self.expected.len() - 1
                }
                _ => self.expected.len(),
            },
        }
    }

    /// Checks that the daemon may end the connection here.
    fn check_end(&mut self) -> Result<(), String> {
        if self.may_be_cut {
            return Ok(());
        }
        if !self.received.is_empty() && !matches!(self.expected.front(), Some(Expected::Bytes(_))) {
            return Err(format!(
                "the end within a response, after {} bytes of it",
                self.received.len()
            ));
        }
        let waiting = self.waiting();
        let is_right = self.may_end || waiting == 0 && (self.is_last || self.is_half_closed);
        let wrong = || {
            format!(
                "the end before {waiting} responses, next {:?}",
                self.expected.front()
            )
        };
        is_right.then_some(()).ok_or_else(wrong)
    }

    /// Ends its side. What it had begun to send stays without an answer.
    fn half_close(&mut self) {
        if self.has_ended || self.is_half_closed {
            return;
        }
        let missing = self.requests.iter().filter(|end| **end > self.sent).count();
        if missing > 0 {
            self.expected
                .truncate(self.expected.len().saturating_sub(missing));
            self.expected.push_back(Expected::Anything);
        }
        self.may_be_cut |= self.http2.is_some();
        self.is_half_closed = true;
        self.unsent.clear();
        // The daemon may have closed the connection.
        let _ = shutdown(self.socket.as_raw_fd(), Shutdown::Write);
    }

    /// Does what a step says of this client alone.
    pub(crate) fn step(&mut self, step: Event) -> Result<(), String> {
        match step {
            Event::Send(_, most) => drop(self.send(most)?),
            Event::Receive(_, most) => drop(self.receive(most)?),
            Event::HalfClose(_) => self.half_close(),
            Event::Withhold(_) => {
                if let Some(http2) = &mut self.http2 {
                    http2.withhold_last();
                }
            }
            Event::ResetStream(_) => {
                if let Some(http2) = &mut self.http2 {
                    http2.reset_last(&mut self.unsent);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads all streams again.
    pub(crate) fn release_streams(&mut self) {
        if let Some(http2) = &mut self.http2 {
            http2.release(&mut self.unsent);
        }
    }

    /// Returns true if it waits for something that must come.
    pub(crate) fn is_waiting(&self) -> bool {
        let is_answered = match (&self.http2, self.expected.front()) {
            (Some(http2), _) => http2.waiting() == 0,
            (None, Some(Expected::Bytes(_))) => false,
            (None, front) => matches!(front, None | Some(Expected::Nothing)),
        };
        let must_end =
            self.is_half_closed || matches!(self.expected.front(), Some(Expected::Bytes(_)));
        !self.has_ended
            && (!is_answered || !self.unsent.is_empty() && !self.is_half_closed || must_end)
    }

    /// Describes why it waits.
    pub(crate) fn state(&self) -> String {
        format!(
            "{} bytes unsent, {} of the next response: {:?}, {:?}",
            self.unsent.len(),
            self.received.len(),
            self.expected.front(),
            self.http2
        )
    }

    /// Expects no end within a response, but after any: the daemon stops.
    pub(crate) fn drain(&mut self) {
        self.may_end = true;
        self.is_last = true;
    }

    /// Expects what the timeouts demand, after the daemon has done all it could.
    pub(crate) fn expire(&mut self) {
        let whole = self
            .requests
            .iter()
            .filter(|end| **end <= self.sent)
            .count();
        let begin = whole.checked_sub(1).map_or(0, |last| self.requests[last]);
        let is_answered = whole + self.expected.len() == self.requests.len();
        let is_calm = is_answered && self.received.is_empty() && !self.is_half_closed;
        let is_stalled = self.expected.front() == Some(&Expected::Nothing)
            && self.received.is_empty()
            && whole == self.requests.len();
        // The first letter of POST may begin the preface of HTTP/2: the daemon looks again after a while.
        let may_speak_http2 = whole == 0 && self.is_post;
        match (&self.http2, self.heads.get(whole)) {
            (Some(http2), _) if http2.waiting() == 0 && self.unsent.is_empty() => {
                self.may_end |= http2.is_idle();
            }
            (None, _) if is_stalled => {}
            (None, _) if is_calm && self.sent == begin => {
                self.expected.clear();
                self.may_end = true;
            }
            (None, Some(head)) if is_calm && self.sent < *head && !may_speak_http2 => {
                self.expected = [Expected::Answer(408, Body::Bytes(Vec::new()))].into();
                self.is_last = true;
                self.unsent.clear();
            }
            _ => self.may_be_cut = true,
        }
        if self.may_end {
            self.unsent.clear();
        }
    }
}

fn surplus(bytes: &[u8]) -> Result<bool, String> {
    if bytes.is_empty() {
        return Ok(false);
    }
    let shown = bytes[..bytes.len().min(80)].escape_ascii();
    Err(format!("bytes of no response: {shown}"))
}

/// Decodes a body in chunks. Returns it with its length in chunks, or `None` if the rest of it is missing.
fn from_chunks(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, String> {
    let (mut whole, mut at) = (Vec::new(), 0);
    loop {
        let Some(line) = memmem::find(&bytes[at..], b"\r\n") else {
            return Ok(None);
        };
        let digits = String::from_utf8_lossy(&bytes[at..at + line]);
        let length = usize::from_str_radix(&digits, 16);
        let length = length.map_err(|error| format!("the length of a chunk: {digits}: {error}"))?;
        at += line + 2;
        let Some(chunk) = bytes.get(at..at + length + 2) else {
            return Ok(None);
        };
        whole.extend_from_slice(&chunk[..length]);
        at += length + 2;
        if length == 0 {
            return Ok(Some((whole, at)));
        }
    }
}
