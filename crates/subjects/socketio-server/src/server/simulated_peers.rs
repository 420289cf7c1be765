//! Clients of one worker over socket pairs, in one thread: they connect, upgrade, speak, stop in the middle, break the
//! rules, never read, half-close and leave as a seed draws it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream as StdTcpStream};
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use nix::sys::socket::{setsockopt, sockopt};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use test_kit::scaled;
use test_kit::simulation::simulate;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::watch;
use tokio::task::{spawn_local, yield_now};

use crate::app::{App, Event};
use crate::config::ServerConfig;
use crate::counts::Count;
use crate::disconnect_reason::DisconnectReason;
use crate::engine::batch;
use crate::engine::frame::Frame;
use crate::server::polled::PolledSessions;
use crate::server::worker::{Open, Worker};
use crate::server::{http, pings};
use crate::session::engine::Engine;
use crate::socket::Socket;

/// Clients at the same time. Few, so that they reuse what others have left.
const CLIENTS: usize = 4;
/// Steps of a world.
const STEPS: usize = 80;
/// Worlds of a full run.
const WORLDS: u64 = 50_000;
/// Turns of the worker. Each looks for events of the sockets once.
const TURNS: usize = 3;
/// Rounds in which everybody must have been served at the end.
const ROUNDS: usize = 100;
/// Bytes that may wait for a client.
const LIMIT: usize = 40_000;
/// Bytes of events from which on a client that does not read may be disconnected: answers and heads come in addition.
/// They are more than a socket takes, so that the queue of a client must be written later.
const NEAR_LIMIT: usize = 30_000;
/// The send buffer of the server's sockets.
const SEND_BUFFER: usize = 8 << 10;
/// The length of a long text.
const LONG: usize = 6_000;
const MAX_PAYLOAD: usize = 10_000_000;
const NAMESPACES: [&str; 3] = ["/", "/custom", "/unknown"];

/// A message of a client.
#[derive(Debug, Clone, Copy)]
enum Text {
    Short,
    Long,
    Binary,
    /// Over a WebSocket, it comes in fragments with a ping between them.
    Fragmented,
}

/// Something that the protocol forbids.
#[derive(Debug, Clone, Copy)]
enum Wrong {
    Unmasked,
    ReservedBit,
    InvalidText,
    /// A frame that announces more than a message may have.
    TooLong,
    Packet,
    Attachment,
    /// Two polls, or two posts, at once.
    SecondPoll,
    SecondPost,
}

/// One thing that happens.
#[derive(Debug, Clone, Copy)]
enum Step {
    OpenWebSocket(usize),
    OpenPolling(usize),
    /// A client connects to a namespace.
    Join(usize, usize),
    LeaveNamespace(usize, usize),
    /// A client sends this many events to a namespace.
    Say(usize, usize, Text, usize),
    Break(usize, Wrong),
    /// A client sends only half of what it sends next, and nothing after it.
    Cut(usize),
    /// A client sends the rest.
    SendRest(usize),
    Receive(usize),
    Poll(usize),
    /// A client opens a WebSocket for its polled session.
    Probe(usize),
    /// The WebSocket takes over.
    Upgrade(usize),
    LoseProbe(usize),
    HalfClose(usize),
    /// A client ends its session as the protocol describes.
    Close(usize),
    /// A client closes all its connections.
    Leave(usize),
    /// The time of a ping passes.
    Time,
    /// The worker does what it can.
    Turn,
}

use Step::*;

fn draw(random: &mut StdRng) -> Step {
    let client = random.random_range(0..CLIENTS);
    let namespace = if random.random_bool(0.7) { 0 } else { 1 };
    match random.random_range(0..200) {
        0..14 => OpenWebSocket(client),
        14..26 => OpenPolling(client),
        26..50 => Join(
            client,
            random.random_range(0..NAMESPACES.len()).min(namespace * 2),
        ),
        50..53 => LeaveNamespace(client, namespace),
        53..85 => {
            use Text::*;
            let texts = [Short, Short, Long, Binary, Fragmented];
            let count = [1, 1, 2, 12][random.random_range(0..4)];
            let text = texts[random.random_range(0..texts.len())];
            Say(client, namespace, text, count)
        }
        85..88 => {
            use Wrong::*;
            let faults = [
                Unmasked,
                ReservedBit,
                InvalidText,
                TooLong,
                Packet,
                Attachment,
                SecondPoll,
                SecondPost,
            ];
            Break(client, faults[random.random_range(0..faults.len())])
        }
        88..92 => Cut(client),
        92..99 => SendRest(client),
        99..120 => Receive(client),
        120..140 => Poll(client),
        140..147 => Probe(client),
        147..154 => Upgrade(client),
        154..156 => LoseProbe(client),
        156..158 => HalfClose(client),
        158..161 => Close(client),
        161..168 => Leave(client),
        168..170 => Time,
        _ => Turn,
    }
}

/// An application that answers each event, and passes it on to all sockets of the namespace.
#[derive(Debug, Default)]
struct Hub(Mutex<HashMap<String, Group>>);

/// The sockets of a namespace.
#[derive(Debug, Default)]
struct Group {
    sockets: Vec<Arc<Socket>>,
    /// The number of the last event.
    seq: u64,
    /// The bytes of all events.
    bytes: usize,
}

impl Hub {
    fn group<T>(&self, namespace: &str, act: impl FnOnce(&mut Group) -> T) -> T {
        act(self
            .0
            .lock()
            .unwrap()
            .entry(namespace.to_owned())
            .or_default())
    }

    fn bytes(&self) -> usize {
        self.0
            .lock()
            .unwrap()
            .values()
            .map(|group| group.bytes)
            .sum()
    }
}

impl App for Hub {
    fn admit(&self, namespace: &str, _: Option<&RawValue>) -> Result<(), String> {
        let is_known = namespace != "/unknown";
        is_known.then_some(()).ok_or("unknown".to_owned())
    }

    fn connect(&self, socket: &Arc<Socket>, _: Option<&RawValue>) {
        self.group(socket.namespace(), |group| {
            group.sockets.push(Arc::clone(socket));
            let start = json!(group.seq).to_string();
            socket.send_event(&[], |out| out.extend(format!("\"start\",{start}").bytes()));
        });
    }

    fn event(&self, socket: &Arc<Socket>, event: Event<'_>) {
        let namespace = socket.namespace();
        self.group(namespace, |group| {
            group.seq += 1;
            let text = format!("\"news\",{},{}", group.seq, event.arguments);
            group.bytes += text.len() + 100;
            let frame = Frame::with_event(namespace, |out| out.extend(text.bytes()));
            group.sockets.iter().for_each(|socket| socket.send(&frame));
        });
        let id = event.ack.expect("clients ask for an answer");
        let tag = event.arguments.split(',').next().unwrap_or_default();
        socket.ack_with(id, event.attachments, |out| out.extend(tag.bytes()));
    }

    fn disconnect(&self, socket: &Arc<Socket>, _: DisconnectReason) {
        self.group(socket.namespace(), |group| {
            let before = group.sockets.len();
            group.sockets.retain(|other| !Arc::ptr_eq(other, socket));
            assert_eq!(group.sockets.len() + 1, before, "a socket ends once");
        });
    }
}

/// A connection of a client.
struct Wire {
    stream: UnixStream,
    /// The bytes that the socket had no room for.
    unsent: Vec<u8>,
    /// The bytes that are held back; `None` if nothing is.
    cut: Option<Vec<u8>>,
    received: Vec<u8>,
    has_ended: bool,
}

impl Wire {
    fn send(&mut self, mut bytes: Vec<u8>) {
        match &mut self.cut {
            Some(rest) if rest.is_empty() => *rest = bytes.split_off(bytes.len() / 2),
            Some(rest) => rest.append(&mut bytes),
            None => {}
        }
        self.unsent.append(&mut bytes);
        self.push();
    }

    fn send_rest(&mut self) {
        let rest = self.cut.take();
        self.unsent.extend(rest.into_iter().flatten());
        self.push();
    }

    /// Sends what the socket takes. An error shows itself at the next receipt.
    fn push(&mut self) {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.unsent.clear(),
            }
        }
    }

    fn receive(&mut self) {
        let mut bytes = [0; 4096];
        while !self.has_ended {
            match self.stream.read(&mut bytes) {
                Ok(length @ 1..) => self.received.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(0) | Err(_) => self.has_ended = true,
            }
        }
    }

    /// Takes the head of a response.
    fn take_head(&mut self) -> Option<String> {
        let end = head_end(&self.received)?;
        let head = self.received.drain(..end).collect();
        Some(String::from_utf8(head).unwrap())
    }

    /// Takes a response: its status and its body.
    fn take_response(&mut self) -> Option<(u16, String)> {
        let end = head_end(&self.received)?;
        let head = String::from_utf8(self.received[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.unwrap_or("0").parse().unwrap();
        let body = self.received.get(end..end + length)?;
        Some((status, String::from_utf8(body.to_vec()).unwrap()))
    }

    /// Takes a frame: its first byte and its payload.
    fn take_frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let [first, second, ..] = self.received[..] else {
            return None;
        };
        let (start, length) = match second {
            126 => (
                4,
                u16::from_be_bytes(*self.received[2..].first_chunk()?).into(),
            ),
            127 => (
                10,
                u64::from_be_bytes(*self.received[2..].first_chunk()?) as usize,
            ),
            length => (2, length.into()),
        };
        let payload = self.received.get(start..start + length)?.to_vec();
        self.received.drain(..start + length);
        Some((first, payload))
    }
}

fn head_end(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    end.map(|end| end + 4)
}

/// Encodes a frame as a client does.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first, 0xff];
    frame.extend((payload.len() as u64).to_be_bytes());
    let key = [1, 2, 3, 4];
    frame.extend(key);
    frame.extend(payload.iter().zip(key.iter().cycle()).map(|(a, b)| a ^ b));
    frame
}

/// A packet of Engine.IO.
enum Packet {
    Text(String),
    Binary(Vec<u8>),
}

/// A client with a session.
struct Peer {
    number: u64,
    sid: String,
    socket: Option<Wire>,
    /// The WebSocket that may take over, and whether its probe was answered.
    probe: Option<(Wire, bool)>,
    /// The request that opens a polled session, or polls.
    get: Option<Wire>,
    post: Option<Wire>,
    /// The packets for the next post.
    outgoing: Vec<Packet>,
    /// The namespaces that the client has asked for, and has not left.
    namespaces: Vec<&'static str>,
    /// The namespaces that it was let into, and the number of the last event in each.
    joined: HashMap<&'static str, Option<u64>>,
    /// The answers that it waits for: the head of the packet, and the attachments.
    expected: VecDeque<(String, usize)>,
    asked: u64,
    /// The attachments that follow.
    attachments: usize,
    /// The bytes that everybody had got when it had read everything.
    read_to: usize,
    /// Times that have passed since.
    silence: usize,
    /// The next request stops in the middle.
    cuts_next: bool,
    /// The worker may disconnect it.
    may_end: bool,
    /// The worker must disconnect it.
    must_end: bool,
    has_ended: bool,
}

impl Peer {
    fn new(number: u64, read_to: usize) -> Self {
        Self {
            number,
            sid: String::new(),
            socket: None,
            probe: None,
            get: None,
            post: None,
            outgoing: Vec::new(),
            namespaces: Vec::new(),
            joined: HashMap::new(),
            cuts_next: false,
            expected: VecDeque::new(),
            asked: 0,
            attachments: 0,
            read_to,
            silence: 0,
            may_end: false,
            must_end: false,
            has_ended: false,
        }
    }

    fn wires(&mut self) -> impl Iterator<Item = &mut Wire> {
        let probe = self.probe.as_mut().map(|(wire, _)| wire);
        let wires = [
            self.socket.as_mut(),
            probe,
            self.get.as_mut(),
            self.post.as_mut(),
        ];
        wires.into_iter().flatten()
    }

    fn send(&mut self, packet: Packet) {
        match (&mut self.socket, packet) {
            (Some(socket), Packet::Text(text)) => socket.send(frame(0x81, text.as_bytes())),
            (Some(socket), Packet::Binary(bytes)) => socket.send(frame(0x82, &bytes)),
            (None, packet) => self.outgoing.push(packet),
        }
    }

    /// Notes that the client reads everything up to these bytes. Behind the limit, it is disconnected.
    fn catch_up(&mut self, bytes: usize) {
        self.may_end |= bytes - self.read_to > NEAR_LIMIT;
        self.read_to = bytes;
    }

    fn say(&mut self, namespace: &'static str, text: Text) {
        self.asked += 1;
        let (id, prefix) = (self.asked, prefix(namespace));
        let tag = format!("\"{}-{id}\"", self.number);
        let binary = usize::from(matches!(text, Text::Binary));
        let kind = ["42", "451-"][binary];
        let padding = match text {
            Text::Long => "x".repeat(LONG),
            _ => String::new(),
        };
        let packet = format!("{kind}{prefix}{id}[\"say\",{tag},\"{padding}\"]");
        let answer = ["43", "461-"][binary];
        let answer = format!("{answer}{prefix}{id}[{tag}]");
        self.expected.push_back((answer, binary));
        match (&mut self.socket, text) {
            (Some(socket), Text::Fragmented) => {
                let bytes = packet.as_bytes();
                let parts = [
                    (0x01, &bytes[..2]),
                    (0x89, b"?"),
                    (0x00, &bytes[2..9]),
                    (0x80, &bytes[9..]),
                ];
                socket.send(parts.map(|(first, part)| frame(first, part)).concat());
            }
            _ => self.send(Packet::Text(packet)),
        }
        if binary == 1 {
            self.send(Packet::Binary(vec![7; 100]));
        }
    }

    /// Handles a packet of the server.
    fn handle(&mut self, packet: Packet, ids: &mut HashSet<String>) -> Result<(), String> {
        let text = match packet {
            Packet::Text(text) => text,
            Packet::Binary(bytes) if self.attachments > 0 && bytes == [7; 100] => {
                self.attachments -= 1;
                return Ok(());
            }
            Packet::Binary(bytes) => return Err(format!("unexpected attachment: {bytes:?}")),
        };
        if self.attachments > 0 {
            return Err(format!("expected an attachment, got {text}"));
        }
        let (kind, rest) = text.split_at(text.len().min(2));
        match kind {
            "2" => {
                self.send(Packet::Text("3".to_owned()));
                let is_sent = |socket: &Wire| socket.cut.is_none() && socket.unsent.is_empty();
                if self.socket.as_ref().is_some_and(is_sent) {
                    self.silence = 0;
                }
            }
            "6" => {}
            "1" => self.end(&text)?,
            "40" | "0{" => {
                let (namespace, rest) = split_namespace(rest);
                let open = if kind == "0{" { &text[1..] } else { rest };
                let open: Value =
                    serde_json::from_str(open).map_err(|error| format!("{text}: {error}"))?;
                let id = open["sid"].as_str().ok_or("missing: an id")?;
                if !ids.insert(id.to_owned()) {
                    return Err(format!("reused id: {id}"));
                }
                if kind == "0{" {
                    self.sid = id.to_owned();
                } else {
                    self.joined.insert(namespace, None);
                }
            }
            "42" => {
                let (namespace, rest) = split_namespace(rest);
                let event: Value =
                    serde_json::from_str(rest).map_err(|error| format!("{text}: {error}"))?;
                let last = self
                    .joined
                    .get_mut(namespace)
                    .ok_or_else(|| format!("foreign event: {text}"))?;
                let expected = match (&event[0], *last) {
                    (Value::String(name), None) if name == "start" => event[1].as_u64(),
                    (_, last) => last.map(|last| last + 1),
                };
                if event[1].as_u64() != expected {
                    return Err(format!(
                        "event out of order: expected {expected:?}, got {text:.80}"
                    ));
                }
                *last = expected;
            }
            "43" | "46" => {
                let expected = self.expected.pop_front();
                let answer = expected.as_ref().map(|(answer, _)| answer);
                if answer != Some(&text) {
                    return Err(format!(
                        "answer out of order: expected {expected:?}, got {text}"
                    ));
                }
                self.attachments = expected.map_or(0, |(_, attachments)| attachments);
            }
            "44" => {}
            _ => return Err(format!("unknown packet: {text}")),
        }
        Ok(())
    }

    /// Handles the end of the session.
    fn end(&mut self, how: &str) -> Result<(), String> {
        self.has_ended = true;
        if self.may_end {
            return Ok(());
        }
        Err(format!(
            "disconnected a client that did nothing wrong: {how}"
        ))
    }
}

fn prefix(namespace: &str) -> String {
    if namespace == "/" {
        String::new()
    } else {
        format!("{namespace},")
    }
}

fn split_namespace(text: &str) -> (&'static str, &str) {
    let found = NAMESPACES[1..].iter().find_map(|name| {
        let rest = text.strip_prefix(name)?.strip_prefix(',')?;
        Some((*name, rest))
    });
    found.unwrap_or(("/", text))
}

struct World {
    worker: Rc<Worker>,
    _stop: watch::Sender<bool>,
    hub: Arc<Hub>,
    peers: [Option<Peer>; CLIENTS],
    /// All ids of sessions and sockets.
    ids: HashSet<String>,
    sessions: u64,
    /// The milliseconds that have passed.
    now: u64,
}

impl World {
    fn new() -> Self {
        let config = ServerConfig {
            workers: NonZeroUsize::MIN,
            max_payload: MAX_PAYLOAD,
            outbound_limit: LIMIT,
            ..ServerConfig::default()
        };
        let hub = Arc::<Hub>::default();
        let app: Arc<dyn App> = Arc::<Hub>::clone(&hub);
        let polled = Arc::<PolledSessions>::default();
        let (stop, stopped) = watch::channel(false);
        let worker = Rc::new(Worker::new(Engine::new(config, app), polled, stopped));
        spawn_local(batch::write_batches());
        Self {
            worker,
            _stop: stop,
            hub,
            peers: [const { None }; CLIENTS],
            ids: HashSet::new(),
            sessions: 0,
            now: 0,
        }
    }

    /// Opens a connection, and sends the head of a request with its body.
    fn request(&self, method: &str, query: &str, headers: &str, body: &str, is_cut: bool) -> Wire {
        let (stream, other) = UnixStream::pair().unwrap();
        setsockopt(&other, sockopt::SndBuf, &SEND_BUFFER).unwrap();
        stream.set_nonblocking(true).unwrap();
        other.set_nonblocking(true).unwrap();
        // The worker takes any stream socket for one of TCP.
        let other = StdTcpStream::from(OwnedFd::from(other));
        let other = TcpStream::from_std(other).unwrap();
        let worker = Rc::clone(&self.worker);
        worker.engine.counts.add(Count::Accepted, 1);
        spawn_local(http::serve(Rc::clone(&worker), other, Open::new(&worker)));
        let mut wire = Wire {
            stream,
            unsent: Vec::new(),
            cut: is_cut.then(Vec::new),
            received: Vec::new(),
            has_ended: false,
        };
        let length = body.len();
        let request = format!(
            "{method} /socket.io/?EIO=4&{query} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        );
        wire.send(request.into_bytes());
        wire
    }

    fn websocket(&self, query: &str, is_cut: bool) -> Wire {
        let headers = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        self.request(
            "GET",
            &format!("transport=websocket{query}"),
            headers,
            "",
            is_cut,
        )
    }

    fn polling(&self, method: &str, peer: &mut Peer, body: &str) -> Wire {
        let query = match &*peer.sid {
            "" => "transport=polling".to_owned(),
            sid => format!("transport=polling&sid={sid}"),
        };
        let is_cut = std::mem::take(&mut peer.cuts_next);
        self.request(method, &query, "", body, is_cut)
    }

    async fn step(&mut self, step: Step) -> Result<(), String> {
        match step {
            OpenWebSocket(client) | OpenPolling(client) if self.peers[client].is_none() => {
                self.sessions += 1;
                let mut peer = Peer::new(self.sessions, self.hub.bytes());
                if matches!(step, OpenWebSocket(_)) {
                    peer.socket = Some(self.websocket("", false));
                } else {
                    peer.get = Some(self.polling("GET", &mut peer, ""));
                }
                self.peers[client] = Some(peer);
            }
            Leave(client) => self.peers[client] = None,
            Time => {
                self.turn().await;
                self.now += 30_000;
                pings::run_due(&self.worker, self.now);
                for peer in self.peers.iter_mut().flatten() {
                    peer.silence += 1;
                    peer.may_end |= peer.silence > 1;
                }
            }
            Turn => self.turn().await,
            OpenWebSocket(_) | OpenPolling(_) => {}
            Join(client, _)
            | LeaveNamespace(client, _)
            | Say(client, ..)
            | Break(client, _)
            | Cut(client)
            | SendRest(client)
            | Receive(client)
            | Poll(client)
            | Probe(client)
            | Upgrade(client)
            | LoseProbe(client)
            | HalfClose(client)
            | Close(client) => {
                // It is taken out, because its steps need the worker.
                if let Some(mut peer) = self.peers[client].take() {
                    let result = self.act(&mut peer, step).await;
                    self.peers[client] = Some(peer);
                    result?;
                }
            }
        }
        Ok(())
    }

    /// Performs a step of a client that has a session.
    async fn act(&mut self, peer: &mut Peer, step: Step) -> Result<(), String> {
        match step {
            Receive(_) => {
                self.receive(peer)?;
                self.turn().await;
                self.receive(peer)?;
                if peer.socket.is_some() {
                    peer.catch_up(self.hub.bytes());
                }
            }
            SendRest(_) => peer.wires().for_each(Wire::send_rest),
            // What is cut is lost with it.
            LoseProbe(_) => peer.probe = None,
            _ if peer.must_end || peer.has_ended => {}
            Join(_, index) => {
                let namespace = NAMESPACES[index];
                let packet = format!("40{}", prefix(namespace));
                peer.send(Packet::Text(packet));
                if namespace != "/unknown" && !peer.namespaces.contains(&namespace) {
                    peer.namespaces.push(namespace);
                }
            }
            LeaveNamespace(_, index) => {
                let namespace = NAMESPACES[index];
                if peer.namespaces.contains(&namespace) {
                    peer.namespaces.retain(|other| *other != namespace);
                    peer.send(Packet::Text(format!("41{}", prefix(namespace))));
                }
            }
            Say(_, index, text, count) => {
                let namespace = NAMESPACES[index];
                if peer.namespaces.contains(&namespace) {
                    (0..count).for_each(|_| peer.say(namespace, text));
                }
            }
            Break(_, wrong) => self.break_rules(peer, wrong),
            Cut(_) => match &mut peer.socket {
                Some(socket) if socket.cut.is_none() => socket.cut = Some(Vec::new()),
                Some(_) => {}
                None => peer.cuts_next = true,
            },
            Poll(_) if peer.socket.is_none() && peer.get.is_none() && !peer.sid.is_empty() => {
                peer.catch_up(self.hub.bytes());
                peer.get = Some(self.polling("GET", peer, ""));
            }
            Probe(_) if peer.socket.is_none() && peer.probe.is_none() && !peer.sid.is_empty() => {
                let query = format!("&sid={}", peer.sid);
                let mut wire = self.websocket(&query, std::mem::take(&mut peer.cuts_next));
                wire.send(frame(0x81, b"2probe"));
                peer.probe = Some((wire, false));
            }
            Upgrade(_) if peer.post.is_none() => {
                if let Some((mut wire, true)) = peer.probe.take_if(|(_, is_probed)| *is_probed) {
                    wire.send(frame(0x81, b"5"));
                    peer.socket = Some(wire);
                    for packet in std::mem::take(&mut peer.outgoing) {
                        peer.send(packet);
                    }
                }
            }
            HalfClose(_) => {
                peer.may_end = true;
                if let Some(wire) = peer.wires().next() {
                    // It may have been closed by the other side.
                    let _ = wire.stream.shutdown(Shutdown::Write);
                }
            }
            Close(_) => {
                peer.may_end = true;
                peer.send(Packet::Text("1".to_owned()));
            }
            _ => {}
        }
        self.post(peer);
        Ok(())
    }

    /// Posts what waits, unless a post is under way.
    fn post(&self, peer: &mut Peer) {
        if peer.socket.is_some()
            || peer.post.is_some()
            || peer.sid.is_empty()
            || peer.outgoing.is_empty()
        {
            return;
        }
        let packets = std::mem::take(&mut peer.outgoing)
            .into_iter()
            .map(|packet| match packet {
                Packet::Text(text) => text,
                Packet::Binary(bytes) => format!("b{}", BASE64_STANDARD.encode(bytes)),
            });
        let body = packets.collect::<Vec<_>>().join("\x1e");
        peer.post = Some(self.polling("POST", peer, &body));
    }

    fn break_rules(&self, peer: &mut Peer, wrong: Wrong) {
        peer.may_end = true;
        match (wrong, &mut peer.socket) {
            (Wrong::SecondPoll, None) => {
                // It may take packets that the client never reads.
                drop(self.polling("GET", peer, ""));
                peer.has_ended = true;
            }
            (Wrong::SecondPost, None) => drop(self.polling("POST", peer, "3")),
            (Wrong::SecondPoll | Wrong::SecondPost, Some(_)) => {}
            (Wrong::Unmasked, Some(socket)) => {
                socket.send(b"\x81\x014".to_vec());
                peer.must_end = true;
            }
            (Wrong::ReservedBit, Some(socket)) => {
                socket.send(frame(0xc1, b"3"));
                peer.must_end = true;
            }
            (Wrong::InvalidText, Some(socket)) => {
                socket.send(frame(0x81, b"4\xff"));
                peer.must_end = true;
            }
            (Wrong::TooLong, Some(socket)) => {
                socket.send(vec![0x82, 0xff, 0, 0, 0, 0, 0x7f, 0, 0, 0, 1, 2, 3, 4]);
                peer.must_end = true;
            }
            (Wrong::Attachment, _) => peer.send(Packet::Binary(vec![1])),
            (_, _) => peer.send(Packet::Text("4abc".to_owned())),
        }
    }

    /// Lets a client receive what has arrived.
    fn receive(&mut self, peer: &mut Peer) -> Result<(), String> {
        if peer.has_ended {
            return Ok(());
        }
        peer.wires().for_each(|wire| {
            wire.push();
            wire.receive();
        });
        // Behind the limit, a client is disconnected.
        peer.may_end |= self.hub.bytes() - peer.read_to > NEAR_LIMIT;
        self.receive_post(peer)?;
        self.receive_poll(peer)?;
        self.receive_frames(peer)?;
        self.post(peer);
        Ok(())
    }

    fn receive_post(&mut self, peer: &mut Peer) -> Result<(), String> {
        let Some(post) = &mut peer.post else {
            return Ok(());
        };
        match post.take_response() {
            Some((200, body)) if body == "ok" => peer.post = None,
            None if !post.has_ended => {}
            response => {
                peer.post = None;
                peer.end(&format!("{response:?} to a post"))?;
            }
        }
        Ok(())
    }

    fn receive_poll(&mut self, peer: &mut Peer) -> Result<(), String> {
        let Some(get) = &mut peer.get else {
            return Ok(());
        };
        let response = get.take_response();
        if response.is_none() && !get.has_ended {
            return Ok(());
        }
        peer.get = None;
        match response {
            Some((200, body)) => {
                for packet in body.split('\x1e') {
                    let packet = match packet.strip_prefix('b') {
                        Some(encoded) => Packet::Binary(BASE64_STANDARD.decode(encoded).unwrap()),
                        None => Packet::Text(packet.to_owned()),
                    };
                    peer.handle(packet, &mut self.ids)?;
                }
                Ok(())
            }
            // It came after the WebSocket had taken over.
            Some((400, _)) if peer.socket.is_some() => Ok(()),
            response => peer.end(&format!("{response:?} to a poll")),
        }
    }

    fn receive_frames(&mut self, peer: &mut Peer) -> Result<(), String> {
        if let Some((probe, is_probed)) = &mut peer.probe {
            if probe.received.starts_with(b"HTTP/1.1 101") {
                probe.take_head();
            }
            if let Some((0x81, payload)) = probe.take_frame().filter(|_| !*is_probed) {
                *is_probed = payload == b"3probe";
            }
            if probe.has_ended {
                peer.probe = None;
            }
        }
        let Some(mut socket) = peer.socket.take() else {
            return Ok(());
        };
        if socket.received.starts_with(b"HTTP/1.1 101") {
            socket.take_head();
        }
        let mut frames = Vec::new();
        while let Some(frame) = socket.take_frame() {
            frames.push(frame);
        }
        let has_ended = socket.has_ended;
        peer.socket = Some(socket);
        for (first, payload) in frames {
            let packet = match first {
                0x81 => Packet::Text(String::from_utf8(payload).unwrap()),
                0x82 => Packet::Binary(payload),
                0x8a => continue,
                0x88 => return peer.end(&format!("close frame {payload:?}")),
                first => return Err(format!("unknown frame: {first:x}")),
            };
            peer.handle(packet, &mut self.ids)?;
        }
        if has_ended && !peer.has_ended {
            peer.end("the connection has ended")
        } else {
            Ok(())
        }
    }

    async fn turn(&self) {
        for _ in 0..TURNS {
            yield_now().await;
        }
    }

    /// Returns what a client still waits for.
    fn missing(&self, peer: &Peer) -> Option<String> {
        if peer.has_ended {
            return None;
        }
        if peer.must_end {
            return Some("the end".to_owned());
        }
        if peer.may_end {
            return None;
        }
        if let Some((answer, _)) = peer.expected.front() {
            return Some(answer.clone());
        }
        let mut namespaces = peer.namespaces.iter();
        let behind = namespaces.find(|namespace| {
            let seq = self.hub.group(namespace, |group| group.seq);
            peer.joined.get(*namespace) != Some(&Some(seq))
        });
        behind.map(|namespace| format!("the events of {namespace}"))
    }

    /// Lets everybody who is there get everything, then leave. Nothing of them may stay.
    async fn end(&mut self) -> Result<(), String> {
        for round in 0.. {
            let mut missing = None;
            for client in 0..CLIENTS {
                for step in [SendRest(client), Receive(client), Poll(client)] {
                    self.step(step).await?;
                }
                let peer = self.peers[client].as_ref();
                missing = missing.or_else(|| peer.and_then(|peer| self.missing(peer)));
            }
            self.turn().await;
            match missing {
                None => break,
                Some(missing) if round > ROUNDS => {
                    return Err(format!("somebody waits for {missing}"));
                }
                Some(_) => {}
            }
        }
        self.peers = [const { None }; CLIENTS];
        // Polled sessions end when nobody answers their pings.
        for step in [Turn, Time, Turn, Time, Turn, Time, Turn, Turn] {
            self.step(step).await?;
        }
        let counts = &self.worker.engine.counts;
        let sockets: usize = self
            .hub
            .0
            .lock()
            .unwrap()
            .values()
            .map(|group| group.sockets.len())
            .sum();
        let left = [
            ("sessions", counts.open_sessions()),
            ("polls", counts.waiting_polls()),
            ("sockets", sockets as u64),
            (
                "connections",
                counts.total(Count::Accepted) - counts.total(Count::HttpEnded),
            ),
            (
                "sessions and connections of the worker",
                self.worker.open.get() as u64,
            ),
        ];
        match left.iter().find(|(_, left)| *left != 0) {
            Some((name, left)) => Err(format!("{left} {name} stay after everybody has left")),
            None => Ok(()),
        }
    }
}

/// Runs a world. Returns the number of its sessions, or what went wrong.
fn run(steps: &[Step]) -> Result<u64, String> {
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_all().build_local(LocalOptions::default());
    runtime.unwrap().block_on(async {
        let mut world = World::new();
        for step in steps {
            world.step(*step).await?;
        }
        world.end().await?;
        Ok(world.sessions)
    })
}

#[test]
fn clients_get_their_answers_and_all_events_in_order_and_leave_nothing_behind() {
    let steps = |seed| {
        let mut random = StdRng::seed_from_u64(seed);
        (0..STEPS).map(|_| draw(&mut random)).collect()
    };
    let sessions = simulate(WORLDS, steps, run);
    assert!(sessions > scaled(WORLDS), "{sessions} sessions");
}

#[test]
fn nothing_of_a_session_stays_that_a_request_or_frame_outlives() {
    // The sockets of a post that was complete after its session, and a session that was upgraded, stayed for ever.
    for steps in [
        &[
            OpenPolling(1),
            Join(1, 0),
            Cut(1),
            Say(1, 0, Text::Long, 1),
            Time,
            Receive(1),
            Time,
        ][..],
        &[
            OpenPolling(1),
            Receive(1),
            Probe(1),
            Receive(1),
            Upgrade(1),
            Break(1, Wrong::InvalidText),
        ],
    ] {
        run(steps).unwrap();
    }
}
