//! A simulated peer: a sender with its handoff, and the client that it hands over. The tests of the program use this file
//! too.

use std::collections::BTreeMap;
use std::io::{self, IoSlice, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, connect, sendmsg,
    setsockopt, socket, socketpair, sockopt,
};
use nix::unistd::{pipe2, read};
use rand::RngExt as _;
use rand::rngs::StdRng;

/// Peers at the same time. Few, so that they reuse what others have left.
pub(crate) const PEERS: usize = 5;
/// A length above the limit of a payload.
const TOO_LONG: usize = (128 << 10) + 1;
const FLAGS: SockFlag = SockFlag::SOCK_CLOEXEC.union(SockFlag::SOCK_NONBLOCK);

/// The payload of a handoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payload {
    Right,
    /// Nothing, or the one byte without which a stream carries no descriptor.
    Empty,
    Invalid,
    TooLong,
}

/// The descriptors of a handoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rights {
    Client,
    /// A client whose socket has little room.
    NarrowClient,
    /// A client that has left already.
    LeftClient,
    Two,
    None,
    Pipe,
    Listener,
    Record,
    /// The sender's own end of the handoff connection.
    Own,
}

/// One thing that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A sender connects.
    Connect(usize),
    /// A sender sends this much of its payload, with the descriptors if it is the first.
    Send(usize, Payload, Rights, usize),
    /// A sender closes.
    Close(usize),
    /// A client reads at most this many bytes.
    Receive(usize, usize),
    /// A client sends something, which the daemon does not read.
    Write(usize),
    HalfClose(usize),
    Leave(usize),
    /// The daemon does what it can.
    Turn,
    /// A further client comes and must be served at once.
    Probe,
    /// The daemon is asked to stop.
    Stop,
}

impl Event {
    pub(crate) fn draw(random: &mut StdRng) -> Self {
        let peer = random.random_range(0..PEERS);
        match random.random_range(0..100) {
            0..15 => Self::Connect(peer),
            15..45 => {
                use Rights::*;
                let payload = match random.random_range(0..16) {
                    0..12 => Payload::Right,
                    12..14 => Payload::Empty,
                    14 => Payload::Invalid,
                    _ => Payload::TooLong,
                };
                let rights = match random.random_range(0..20) {
                    0..6 => Client,
                    6..10 => NarrowClient,
                    10..12 => LeftClient,
                    12..14 => Two,
                    14 => None,
                    15 => Pipe,
                    16 => Listener,
                    17 => Record,
                    _ => Own,
                };
                let length = [1, 20, usize::MAX, usize::MAX, usize::MAX][random.random_range(0..5)];
                Self::Send(peer, payload, rights, length)
            }
            45..52 => Self::Close(peer),
            52..64 => Self::Receive(peer, [1, 200, usize::MAX][random.random_range(0..3)]),
            64..67 => Self::Write(peer),
            67..70 => Self::HalfClose(peer),
            70..76 => Self::Leave(peer),
            76..78 => Self::Probe,
            _ => Self::Turn,
        }
    }
}

/// The result of a handoff.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The reason with which it is counted as refused.
    pub(crate) refused: Option<&'static str>,
    /// The flaws with which it is served.
    pub(crate) flaws: Vec<&'static str>,
}

/// The other end of a descriptor that was handed over. It shows whether the daemon has closed it.
#[derive(Debug)]
pub(crate) enum Witness {
    End(OwnedFd),
    Listener(PathBuf),
}

impl Witness {
    /// Returns true if nobody has the other end open.
    pub(crate) fn is_closed(&self) -> bool {
        let descriptor = match self {
            Self::End(end) => end,
            Self::Listener(path) => return UnixStream::connect(path).is_err(),
        };
        loop {
            match read(descriptor, &mut [0; 4096]) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(errno) => return errno != Errno::EAGAIN,
            }
        }
    }
}

/// A client that reads its stream.
#[derive(Debug)]
pub(crate) struct Client {
    socket: UnixStream,
    pub(crate) received: Vec<u8>,
    pub(crate) has_ended: bool,
    /// The end was a reset, with which the end of a stream may be lost.
    pub(crate) was_reset: bool,
}

impl Client {
    /// Reads at most this many bytes. Returns true if there was something.
    pub(crate) fn receive(&mut self, most: usize) -> Result<bool, String> {
        let before = self.received.len();
        let mut bytes = vec![0; most.min(64 << 10)];
        while !self.has_ended && self.received.len() - before < most {
            match self.socket.read(&mut bytes) {
                Ok(0) => {
                    self.has_ended = true;
                    return Ok(true);
                }
                Ok(length) => self.received.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    self.has_ended = true;
                    self.was_reset = true;
                    return Ok(true);
                }
                Err(error) => return Err(format!("reading a stream: {error}")),
            }
        }
        Ok(self.received.len() > before)
    }

    fn step(&mut self, step: Event) -> Result<(), String> {
        match step {
            Event::Receive(_, most) => drop(self.receive(most)?),
            // The daemon may have closed it.
            Event::Write(_) => drop(self.socket.write(b"x")),
            Event::HalfClose(_) => drop(self.socket.shutdown(Shutdown::Write)),
            _ => {}
        }
        Ok(())
    }
}

/// A sender that is connected, and its client.
#[derive(Debug)]
pub(crate) struct Peer {
    /// The number that makes the payload, and with it the stream, unlike all others.
    pub(crate) id: u64,
    kind: SockType,
    sender: Option<OwnedFd>,
    payload: Payload,
    rights: Rights,
    unsent: Vec<u8>,
    /// Bytes of the payload that were sent, once the descriptors were.
    sent: Option<usize>,
    pub(crate) client: Option<Client>,
    pub(crate) witnesses: Vec<Witness>,
    /// Set once it is certain.
    pub(crate) outcome: Option<Outcome>,
    /// The client has left before the end of its stream.
    pub(crate) has_left: bool,
}

impl Peer {
    /// Connects a sender. Returns `None` if the daemon does not listen.
    pub(crate) fn connect(path: &Path, kind: SockType, id: u64) -> Option<Self> {
        let sender = socket(AddressFamily::Unix, kind, FLAGS, None).unwrap();
        connect(sender.as_raw_fd(), &UnixAddr::new(path).unwrap()).ok()?;
        Some(Self {
            id,
            kind,
            sender: Some(sender),
            payload: Payload::Empty,
            rights: Rights::None,
            unsent: Vec::new(),
            sent: None,
            client: None,
            witnesses: Vec::new(),
            outcome: None,
            has_left: false,
        })
    }

    pub(crate) fn step(&mut self, step: Event, folder: &Path) -> Result<(), String> {
        match step {
            Event::Send(_, payload, rights, length) => self.send(payload, rights, length, folder),
            Event::Close(_) => {
                self.close();
                Ok(())
            }
            Event::Leave(_) => {
                if let Some(client) = self.client.take() {
                    self.has_left = !client.has_ended;
                }
                Ok(())
            }
            _ => match &mut self.client {
                Some(client) => client.step(step),
                None => Ok(()),
            },
        }
    }

    fn is_record(&self) -> bool {
        self.kind == SockType::SeqPacket
    }

    fn text(&self, payload: Payload) -> Vec<u8> {
        match payload {
            Payload::Right => format!(r#"{{"prompt":"p{0}","user_id":{0}}}"#, self.id).into_bytes(),
            Payload::Empty if self.is_record() => Vec::new(),
            Payload::Empty => vec![0],
            Payload::Invalid => b"[]".to_vec(),
            Payload::TooLong => {
                let mut text = br#"{"prompt":""#.to_vec();
                text.resize(TOO_LONG, b'x');
                text
            }
        }
    }

    /// Sends a part of the payload; records are sent at once.
    pub(crate) fn send(
        &mut self,
        payload: Payload,
        rights: Rights,
        length: usize,
        folder: &Path,
    ) -> Result<(), String> {
        let Some(sender) = &self.sender else {
            return Ok(());
        };
        if self.sent.is_some() && self.unsent.is_empty() {
            return Ok(());
        }
        let sender = sender.as_raw_fd();
        let mut passed = Vec::new();
        if self.sent.is_none() {
            (self.payload, self.rights) = (payload, rights);
            self.unsent = self.text(payload);
            passed = self.descriptors(rights, folder);
        }
        // With half a payload, the daemon would wait for the end of a connection whose other end it has itself.
        let is_at_once = self.is_record() || rights == Rights::Own;
        let most = if is_at_once { usize::MAX } else { length };
        let mut left = self.unsent.len().min(most);
        loop {
            let part = [IoSlice::new(&self.unsent[..left])];
            let own = [sender];
            let bare: Vec<RawFd> = passed.iter().map(|one: &OwnedFd| one.as_raw_fd()).collect();
            let descriptors = match rights {
                Rights::Own if self.sent.is_none() => &own[..],
                _ => &bare,
            };
            let control = [ControlMessage::ScmRights(descriptors)];
            let control = if descriptors.is_empty() {
                &[][..]
            } else {
                &control[..]
            };
            match sendmsg::<()>(sender, &part, control, MsgFlags::MSG_NOSIGNAL, None) {
                Ok(sent) => {
                    *self.sent.get_or_insert(0) += sent;
                    self.unsent.drain(..sent);
                    left -= sent;
                    passed.clear();
                }
                // It is full, or the daemon has closed it.
                Err(Errno::EAGAIN | Errno::EPIPE | Errno::ECONNRESET) => break,
                Err(errno) => return Err(format!("handing over: {errno}")),
            }
            if left == 0 {
                break;
            }
        }
        if self.outcome.is_none() && self.is_whole() {
            self.outcome = Some(self.served(self.payload));
        }
        Ok(())
    }

    /// Returns true if the daemon decides without further bytes.
    fn is_whole(&self) -> bool {
        // An empty record without a descriptor looks like an end, which must be confirmed.
        let is_end =
            self.is_record() && self.payload == Payload::Empty && self.rights == Rights::None;
        self.sent.is_some() && self.unsent.is_empty() && !is_end
    }

    fn close(&mut self) {
        if self.sender.take().is_none() || self.outcome.is_some() {
            return;
        }
        self.outcome = Some(match self.sent {
            None => Outcome::refused("empty"),
            Some(0) if self.rights == Rights::None => Outcome::refused("empty"),
            // What has arrived of the payload is not valid.
            Some(_) => self.served(Payload::Invalid),
        });
    }

    /// Returns the outcome of a payload that has arrived.
    fn served(&self, payload: Payload) -> Outcome {
        let mut flaws = Vec::new();
        match self.rights {
            _ if payload == Payload::TooLong => return Outcome::refused("too_large"),
            Rights::None => return Outcome::refused("no_descriptor"),
            Rights::Pipe | Rights::Record => return Outcome::refused("not_a_stream_socket"),
            Rights::Own if self.is_record() => return Outcome::refused("not_a_stream_socket"),
            Rights::Two => flaws.push("surplus_descriptors"),
            _ => {}
        }
        if payload == Payload::Invalid {
            flaws.push("invalid_json");
        }
        Outcome {
            refused: None,
            flaws,
        }
    }

    /// Returns true if the payload of its client arrives whole.
    pub(crate) fn is_right(&self) -> bool {
        let is_flawed = |outcome: &Outcome| outcome.flaws.contains(&"invalid_json");
        self.payload == Payload::Right && !self.outcome.as_ref().is_some_and(is_flawed)
    }

    /// Creates the descriptors to hand over, and keeps their other ends.
    fn descriptors(&mut self, rights: Rights, folder: &Path) -> Vec<OwnedFd> {
        let pair = |kind| socketpair(AddressFamily::Unix, kind, None, FLAGS).unwrap();
        let count = match rights {
            Rights::Client | Rights::NarrowClient | Rights::LeftClient => 1,
            Rights::Two => 2,
            Rights::None | Rights::Own => 0,
            Rights::Pipe => {
                let (reading, writing) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).unwrap();
                self.witnesses.push(Witness::End(reading));
                return vec![writing];
            }
            Rights::Record => {
                let (ours, theirs) = pair(SockType::SeqPacket);
                self.witnesses.push(Witness::End(ours));
                return vec![theirs];
            }
            Rights::Listener => {
                let path = folder.join(format!("listener-{}", self.id));
                let listener = UnixListener::bind(&path).unwrap();
                self.witnesses.push(Witness::Listener(path));
                return vec![listener.into()];
            }
        };
        let mut passed = Vec::new();
        for index in 0..count {
            let (ours, theirs) = pair(SockType::Stream);
            let ours = UnixStream::from(ours);
            if rights == Rights::NarrowClient {
                setsockopt(&theirs, sockopt::SndBuf, &0).unwrap();
            }
            passed.push(theirs);
            match rights {
                Rights::LeftClient => self.has_left = true,
                _ if index > 0 => self.witnesses.push(Witness::End(ours.into())),
                _ => {
                    self.client = Some(Client {
                        socket: ours,
                        received: Vec::new(),
                        has_ended: false,
                        was_reset: false,
                    });
                }
            }
        }
        passed
    }
}

impl Outcome {
    fn refused(reason: &'static str) -> Self {
        Self {
            refused: Some(reason),
            flaws: Vec::new(),
        }
    }
}

/// Returns the values of a metrics page by the names of their samples.
pub(crate) fn counters(page: &str) -> BTreeMap<String, u64> {
    let samples = page.lines().filter_map(|line| line.rsplit_once(' '));
    let samples = samples.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)));
    samples.collect()
}

/// The values that the counters must have.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    reasons: BTreeMap<String, u64>,
    refused: u64,
    /// Streams that were read to their end, and clients that were turned away.
    whole: u64,
    rejected: u64,
    /// Streams that nobody has read to the end.
    unread: u64,
}

impl Tally {
    /// Adds a peer, after it has read all of its stream, which must be `stream`.
    pub(crate) fn add(
        &mut self,
        peer: &Peer,
        stream: &[u8],
        is_aborted: bool,
    ) -> Result<(), String> {
        let outcome = peer.outcome.clone().unwrap_or_default();
        for reason in outcome.refused.iter().chain(&outcome.flaws) {
            *self.reasons.entry((*reason).to_owned()).or_default() += 1;
        }
        self.refused += u64::from(outcome.refused.is_some());
        let Some(client) = &peer.client else {
            self.unread += u64::from(outcome.refused.is_none());
            return Ok(());
        };
        if client.was_reset && outcome.refused.is_none() && !is_aborted {
            return Err(format!("reset: the stream of {}", peer.id));
        }
        let received = &client.received[..];
        match (received, outcome.refused) {
            ([], Some(_)) => {}
            (_, None) if received == stream => self.whole += 1,
            (_, None) if received.starts_with(b"HTTP/1.1 503 ") => self.rejected += 1,
            (_, None) if is_aborted && stream.starts_with(received) => {}
            _ => {
                let text = received.escape_ascii();
                return Err(format!(
                    "wrong stream for {outcome:?} of {}: {text}",
                    peer.id
                ));
            }
        }
        Ok(())
    }

    /// Compares it with the counters. If the daemon was ended early, they must only fit each other.
    pub(crate) fn compare(
        &self,
        counters: &BTreeMap<String, u64>,
        connected: u64,
        is_aborted: bool,
    ) -> Result<(), String> {
        let count = |name: &str| counters.get(name).copied().unwrap_or(0);
        let reasons = |metric: &str| {
            let labels = counters.iter().filter_map(|(name, count)| {
                let label = name.strip_prefix(metric)?.strip_prefix("{reason=\"")?;
                Some((label.strip_suffix("\"}")?.to_owned(), *count))
            });
            let counted = labels.filter(|(_, count)| *count > 0);
            counted.collect::<BTreeMap<String, u64>>()
        };
        let errors = reasons("daemon_handoff_errors_total");
        let is_flaw = |reason: &str| ["surplus_descriptors", "invalid_json"].contains(&reason);
        let refusals = errors.iter().filter(|(reason, _)| !is_flaw(reason));
        let refused: u64 = refusals.map(|(_, count)| count).sum();
        let failed: u64 = reasons("daemon_stream_errors_total").values().sum();
        let started = count("daemon_backend_requests_total{backend=\"mock\"}");
        let completed = count("daemon_stream_duration_seconds_count");
        let accepted = count("daemon_connections_total");
        let rejected = count("daemon_connections_rejected_total");
        let is_between = |value: u64, least: u64| (least..=least + self.unread).contains(&value);
        let is_exact = errors == self.reasons
            && refused == self.refused
            && accepted == connected
            && is_between(rejected, self.rejected)
            && is_between(completed, self.whole);
        let is_right = (is_exact || is_aborted)
            && accepted == refused + rejected + started
            && started == completed + failed
            && count("daemon_handoffs_total") == rejected + started
            && count("daemon_active_connections") == 0
            && count("daemon_active_streams") == 0;
        let wrong = || {
            let shown = counters
                .iter()
                .filter(|(name, count)| **count > 0 && !name.contains("_bucket"));
            let shown: Vec<_> = shown.collect();
            format!("counters do not fit {connected} connections and {self:?}: {shown:?}")
        };
        is_right.then_some(()).ok_or_else(wrong)
    }
}
