//! Presence rooms over Socket.IO, on WebSocket only. A heartbeat is carried out when its delay is over: its answer and its
//! event leave together. A new state replaces the old one as a whole, and no member expires.

use std::collections::HashMap;
use std::io::Write as _;

use load::clock;
use load::slots::Id;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::connections::Connections;
use crate::server::{Malformed, Protocol, Taken};
use crate::websocket;

/// The protocol, with all rooms by the JSON of their names.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    rooms: HashMap<Box<str>, Room>,
    sessions: u64,
    /// The payload of a frame that is read or written.
    payload: Vec<u8>,
    frame: Vec<u8>,
}

#[derive(Debug, Default)]
struct Room {
    seq: u64,
    members: Vec<Id>,
}

/// A connection.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// The number of its connection to the namespace; 0 before it.
    number: u64,
    is_upgraded: bool,
    member: Option<Member>,
}

/// A member of a room. Names and state are JSON.
#[derive(Debug)]
pub(crate) struct Member {
    room: Box<str>,
    user: Box<str>,
    state: Box<str>,
    seen_ms: u64,
}

/// A request of a client, or what is answered to its transport.
#[derive(Debug)]
pub(crate) enum Request {
    /// Bytes that are sent as they are.
    Bytes(Vec<u8>),
    Connect,
    Close,
    Join(u64, Member),
    Heartbeat(u64, Option<Box<str>>),
    Leave(u64),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Join<'a> {
    #[serde(borrow)]
    room_id: &'a RawValue,
    #[serde(borrow)]
    user_id: &'a RawValue,
    #[serde(borrow)]
    state: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Heartbeat<'a> {
    #[serde(borrow)]
    patch_state: Option<&'a RawValue>,
}

impl Protocol for Presence {
    type State = Session;
    type Request = Request;

    fn take(
        &mut self,
        session: &mut Session,
        input: &[u8],
    ) -> Result<Option<Taken<Request>>, Malformed> {
        if !session.is_upgraded {
            let upgraded = websocket::upgrade(input)?;
            session.is_upgraded = upgraded.is_some();
            return Ok(upgraded.map(|(bytes, response)| {
                let mut response = response.into_bytes();
                websocket::write(websocket::TEXT, OPEN, &mut response);
                at_once(bytes, Some(Request::Bytes(response)))
            }));
        }
        let Some((bytes, code)) = websocket::read(input, &mut self.payload)? else {
            return Ok(None);
        };
        let request = match (code, &*self.payload) {
            (websocket::TEXT, [b'4', b'2', event @ ..]) => Some(Request::parse(event)?),
            (websocket::TEXT, [b'4', b'0', ..]) => Some(Request::Connect),
            (websocket::CLOSE, _) | (websocket::TEXT, [b'1', ..] | [b'4', b'1', ..]) => {
                Some(Request::Close)
            }
            (websocket::PING, payload) => {
                let mut pong = Vec::new();
                websocket::write(websocket::PONG, payload, &mut pong);
                Some(Request::Bytes(pong))
            }
            (websocket::PONG, _) | (websocket::TEXT, [b'3', ..]) => None,
            _ => return Err(Malformed),
        };
        let taken = at_once(bytes, request);
        Ok(Some(Taken {
            is_held: matches!(taken.request, Some(Request::Heartbeat(..))),
            ..taken
        }))
    }

    fn answer(&mut self, id: Id, request: Request, connections: &mut Connections<Session>) -> Id {
        match request {
            Request::Bytes(bytes) => connections.append(id, &bytes),
            Request::Close => {
                self.send(id, websocket::CLOSE, connections, |_| {});
                connections.close(id);
            }
            Request::Connect => {
                self.sessions += 1;
                let number = self.sessions;
                if let Some(connection) = connections.get_mut(id) {
                    connection.state.number = number;
                }
                self.send(id, websocket::TEXT, connections, |text| {
                    put(text, format_args!("40{{\"sid\":\"null-{number}\"}}"));
                });
            }
            Request::Join(ack, member) => self.join(id, ack, member, connections),
            Request::Heartbeat(ack, patch) => self.heartbeat(id, ack, patch, connections),
            Request::Leave(ack) => {
                if let Some(connection) = connections.get_mut(id) {
                    let (number, member) =
                        (connection.state.number, connection.state.member.take());
                    self.leave(id, number, member, connections);
                }
                self.acknowledge(id, ack, connections, |text| {
                    put(text, format_args!("{{\"ok\":true}}"))
                });
            }
        }
        id
    }

    fn ended(&mut self, id: Id, session: Session, connections: &mut Connections<Session>) {
        self.leave(id, session.number, session.member, connections);
    }
}

/// The beginning of a session. The time between two pings is an hour, so that none is needed.
const OPEN: &[u8] = br#"0{"sid":"null","upgrades":[],"pingInterval":3600000,"pingTimeout":20000,"maxPayload":1000000}"#;

/// Returns what is answered at once, and is not recorded.
fn at_once(bytes: usize, request: Option<Request>) -> Taken<Request> {
    Taken {
        bytes,
        request,
        is_held: false,
        hangs_up: false,
    }
}

fn put(text: &mut Vec<u8>, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("memory takes it");
}

/// Returns the time of the wall clock in milliseconds.
fn now_ms() -> u64 {
    clock::unix_ns() / 1_000_000
}

impl Request {
    /// Parses an event with its acknowledgement id: `7["presence:leave",null]`.
    fn parse(event: &[u8]) -> Result<Self, Malformed> {
        let begin = memchr::memchr(b'[', event).ok_or(Malformed)?;
        let (digits, arguments) = event.split_at(begin);
        let digits = std::str::from_utf8(digits).map_err(|_| Malformed)?;
        let ack = digits.parse().map_err(|_| Malformed)?;
        let (name, argument): (&str, Option<&RawValue>) =
            serde_json::from_slice(arguments).map_err(|_| Malformed)?;
        let text = |value: &RawValue| value.get().into();
        let argument = argument.map(RawValue::get);
        match (name, argument) {
            ("presence:join", Some(join)) => {
                let join: Join<'_> = serde_json::from_str(join).map_err(|_| Malformed)?;
                let member = Member {
                    room: text(join.room_id),
                    user: text(join.user_id),
                    state: join.state.map_or("{}".into(), text),
                    seen_ms: now_ms(),
                };
                Ok(Self::Join(ack, member))
            }
            ("presence:heartbeat", None) => Ok(Self::Heartbeat(ack, None)),
            ("presence:heartbeat", Some(heartbeat)) => {
                let heartbeat: Heartbeat<'_> =
                    serde_json::from_str(heartbeat).map_err(|_| Malformed)?;
                Ok(Self::Heartbeat(ack, heartbeat.patch_state.map(text)))
            }
            ("presence:leave", _) => Ok(Self::Leave(ack)),
            _ => Err(Malformed),
        }
    }
}

impl Presence {
    /// Sends a frame, whose payload `write` appends.
    fn send(
        &mut self,
        id: Id,
        code: u8,
        connections: &mut Connections<Session>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        self.payload.clear();
        write(&mut self.payload);
        self.frame.clear();
        websocket::write(code, &self.payload, &mut self.frame);
        connections.append(id, &self.frame);
    }

    /// Sends the answer to a request, whose object `write` appends.
    fn acknowledge(
        &mut self,
        id: Id,
        ack: u64,
        connections: &mut Connections<Session>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        self.send(id, websocket::TEXT, connections, |text| {
            put(text, format_args!("43{ack}["));
            write(text);
            text.push(b']');
        });
    }

    /// Sends an event of a member to all members of its room. Returns its number.
    fn publish(
        &mut self,
        kind: &str,
        number: u64,
        member: &Member,
        connections: &mut Connections<Session>,
    ) -> u64 {
        let Some(room) = self.rooms.get_mut(&member.room) else {
            return 0;
        };
        room.seq += 1;
        let (name, user, seq, now_ms) = (&member.room, &member.user, room.seq, now_ms());
        let state = if kind == "leave" {
            "null"
        } else {
            &member.state
        };
        self.payload.clear();
        put(
            &mut self.payload,
            format_args!(
                r#"42["presence:event",{{"type":"{kind}","roomId":{name},"userId":{user},"connId":"null-{number}","state":{state},"ts":{now_ms},"epoch":1,"seq":{seq}}}]"#
            ),
        );
        self.frame.clear();
        websocket::write(websocket::TEXT, &self.payload, &mut self.frame);
        for id in &room.members {
            connections.append(*id, &self.frame);
        }
        seq
    }

    fn join(&mut self, id: Id, ack: u64, member: Member, connections: &mut Connections<Session>) {
        let Some(connection) = connections.get_mut(id) else {
            return;
        };
        let number = connection.state.number;
        if number == 0 || connection.state.member.is_some() {
            let refusal = format_args!(
                "{{\"ok\":false,\"error\":\"this connection cannot join\",\"code\":\"already_joined\"}}"
            );
            return self.acknowledge(id, ack, connections, |text| put(text, refusal));
        }
        let room = self.rooms.entry(member.room.clone()).or_default();
        room.members.push(id);
        let seq = self.publish("join", number, &member, connections);
        let members = self.rooms[&member.room].members.clone();
        if let Some(connection) = connections.get_mut(id) {
            connection.state.member = Some(member);
        }
        let mut snapshot = Vec::new();
        for id in members {
            let Some(Session {
                number,
                member: Some(member),
                ..
            }) = connections.get_mut(id).map(|connection| &connection.state)
            else {
                continue;
            };
            let Member {
                user,
                state,
                seen_ms,
                ..
            } = member;
            let separator = if snapshot.is_empty() { "" } else { "," };
            put(
                &mut snapshot,
                format_args!(
                    r#"{separator}{{"connId":"null-{number}","userId":{user},"state":{state},"lastSeenMs":{seen_ms},"epoch":1}}"#
                ),
            );
        }
        self.acknowledge(id, ack, connections, |text| {
            text.extend_from_slice(b"{\"ok\":true,\"snapshot\":[");
            text.extend_from_slice(&snapshot);
            put(
                text,
                format_args!(r#"],"self":{{"connId":"null-{number}","epoch":1}},"seq":{seq}}}"#),
            );
        });
    }

    fn heartbeat(
        &mut self,
        id: Id,
        ack: u64,
        patch: Option<Box<str>>,
        connections: &mut Connections<Session>,
    ) {
        let Some(connection) = connections.get_mut(id) else {
            return;
        };
        let number = connection.state.number;
        // Taken, so that the others can be written to meanwhile.
        let Some(mut member) = connection.state.member.take() else {
            let refusal =
                format_args!("{{\"ok\":false,\"error\":\"join first\",\"code\":\"not_joined\"}}");
            return self.acknowledge(id, ack, connections, |text| put(text, refusal));
        };
        member.seen_ms = now_ms();
        let changed = patch.filter(|patch| *patch != member.state);
        let has_changed = changed.is_some();
        if let Some(state) = changed {
            member.state = state;
            self.publish("update", number, &member, connections);
        }
        if let Some(connection) = connections.get_mut(id) {
            connection.state.member = Some(member);
        }
        self.acknowledge(id, ack, connections, |text| {
            put(
                text,
                format_args!(r#"{{"ok":true,"changed":{has_changed},"epoch":1}}"#),
            );
        });
    }

    fn leave(
        &mut self,
        id: Id,
        number: u64,
        member: Option<Member>,
        connections: &mut Connections<Session>,
    ) {
        let Some(member) = member else {
            return;
        };
        if let Some(room) = self.rooms.get_mut(&member.room) {
            room.members.retain(|other| *other != id);
            if room.members.is_empty() {
                self.rooms.remove(&member.room);
            }
        }
        self.publish("leave", number, &member, connections);
    }
}
