//! A worker with its clients and its application.

use std::collections::{HashMap, HashSet};
use std::net::{Shutdown, TcpStream as StdTcpStream};
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use nix::sys::socket::{setsockopt, sockopt};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::{spawn_local, yield_now};

use super::Step::*;
use super::peer::{Packet, Peer, Wire, frame, prefix};
use super::*;
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

pub(super) struct World {
    worker: Rc<Worker>,
    _stop: watch::Sender<bool>,
    hub: Arc<Hub>,
    peers: [Option<Peer>; CLIENTS],
    /// All ids of sessions and sockets.
    ids: HashSet<String>,
    pub(super) sessions: u64,
    /// The milliseconds that have passed.
    now: u64,
}

impl World {
    pub(super) fn new() -> Self {
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

    pub(super) async fn step(&mut self, step: Step) -> Result<(), String> {
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
    pub(super) async fn end(&mut self) -> Result<(), String> {
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
