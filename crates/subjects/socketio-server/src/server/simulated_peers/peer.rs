//! A client of the simulation: its connections, what it has asked for, and what it must get.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use serde_json::Value;

use super::{LONG, NAMESPACES, NEAR_LIMIT, Text};

/// A connection of a client.
pub(super) struct Wire {
    pub(super) stream: UnixStream,
    /// The bytes that the socket had no room for.
    pub(super) unsent: Vec<u8>,
    /// The bytes that are held back; `None` if nothing is.
    pub(super) cut: Option<Vec<u8>>,
    pub(super) received: Vec<u8>,
    pub(super) has_ended: bool,
}

impl Wire {
    pub(super) fn send(&mut self, mut bytes: Vec<u8>) {
        match &mut self.cut {
            Some(rest) if rest.is_empty() => *rest = bytes.split_off(bytes.len() / 2),
            Some(rest) => rest.append(&mut bytes),
            None => {}
        }
        self.unsent.append(&mut bytes);
        self.push();
    }

    pub(super) fn send_rest(&mut self) {
        let rest = self.cut.take();
        self.unsent.extend(rest.into_iter().flatten());
        self.push();
    }

    /// Sends what the socket takes. An error shows itself at the next receipt.
    pub(super) fn push(&mut self) {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.unsent.clear(),
            }
        }
    }

    pub(super) fn receive(&mut self) {
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
    pub(super) fn take_head(&mut self) -> Option<String> {
        let end = head_end(&self.received)?;
        let head = self.received.drain(..end).collect();
        Some(String::from_utf8(head).unwrap())
    }

    /// Takes a response: its status and its body.
    pub(super) fn take_response(&mut self) -> Option<(u16, String)> {
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
    pub(super) fn take_frame(&mut self) -> Option<(u8, Vec<u8>)> {
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

pub(super) fn head_end(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    end.map(|end| end + 4)
}

/// Encodes a frame as a client does.
pub(super) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first, 0xff];
    frame.extend((payload.len() as u64).to_be_bytes());
    let key = [1, 2, 3, 4];
    frame.extend(key);
    frame.extend(payload.iter().zip(key.iter().cycle()).map(|(a, b)| a ^ b));
    frame
}

/// A packet of Engine.IO.
pub(super) enum Packet {
    Text(String),
    Binary(Vec<u8>),
}

/// A client with a session.
pub(super) struct Peer {
    pub(super) number: u64,
    pub(super) sid: String,
    pub(super) socket: Option<Wire>,
    /// The WebSocket that may take over, and whether its probe was answered.
    pub(super) probe: Option<(Wire, bool)>,
    /// The request that opens a polled session, or polls.
    pub(super) get: Option<Wire>,
    pub(super) post: Option<Wire>,
    /// The packets for the next post.
    pub(super) outgoing: Vec<Packet>,
    /// The namespaces that the client has asked for, and has not left.
    pub(super) namespaces: Vec<&'static str>,
    /// The namespaces that it was let into, and the number of the last event in each.
    pub(super) joined: HashMap<&'static str, Option<u64>>,
    /// The answers that it waits for: the head of the packet, and the attachments.
    pub(super) expected: VecDeque<(String, usize)>,
    pub(super) asked: u64,
    /// The attachments that follow.
    pub(super) attachments: usize,
    /// The bytes that everybody had got when it had read everything.
    pub(super) read_to: usize,
    /// Times that have passed since.
    pub(super) silence: usize,
    /// The next request stops in the middle.
    pub(super) cuts_next: bool,
    /// The worker may disconnect it.
    pub(super) may_end: bool,
    /// The worker must disconnect it.
    pub(super) must_end: bool,
    pub(super) has_ended: bool,
}

impl Peer {
    pub(super) fn new(number: u64, read_to: usize) -> Self {
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

    pub(super) fn wires(&mut self) -> impl Iterator<Item = &mut Wire> {
        let probe = self.probe.as_mut().map(|(wire, _)| wire);
        let wires = [
            self.socket.as_mut(),
            probe,
            self.get.as_mut(),
            self.post.as_mut(),
        ];
        wires.into_iter().flatten()
    }

    pub(super) fn send(&mut self, packet: Packet) {
        match (&mut self.socket, packet) {
            (Some(socket), Packet::Text(text)) => socket.send(frame(0x81, text.as_bytes())),
            (Some(socket), Packet::Binary(bytes)) => socket.send(frame(0x82, &bytes)),
            (None, packet) => self.outgoing.push(packet),
        }
    }

    /// Notes that the client reads everything up to these bytes. Behind the limit, it is disconnected.
    pub(super) fn catch_up(&mut self, bytes: usize) {
        self.may_end |= bytes - self.read_to > NEAR_LIMIT;
        self.read_to = bytes;
    }

    pub(super) fn say(&mut self, namespace: &'static str, text: Text) {
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
    pub(super) fn handle(
        &mut self,
        packet: Packet,
        ids: &mut HashSet<String>,
    ) -> Result<(), String> {
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
    pub(super) fn end(&mut self, how: &str) -> Result<(), String> {
        self.has_ended = true;
        if self.may_end {
            return Ok(());
        }
        Err(format!(
            "disconnected a client that did nothing wrong: {how}"
        ))
    }
}

pub(super) fn prefix(namespace: &str) -> String {
    if namespace == "/" {
        String::new()
    } else {
        format!("{namespace},")
    }
}

pub(super) fn split_namespace(text: &str) -> (&'static str, &str) {
    let found = NAMESPACES[1..].iter().find_map(|name| {
        let rest = text.strip_prefix(name)?.strip_prefix(',')?;
        Some((*name, rest))
    });
    found.unwrap_or(("/", text))
}
