//! A presence server that makes one planned error: a peer of the driver's tests. A thread serves each connection, and
//! one lock makes the order of events the same for all.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use load::clock;
use serde_json::{Value, json};
use tungstenite::handshake::server::{Request, Response};
use tungstenite::protocol::frame::Frame;
use tungstenite::protocol::frame::coding::{Data, OpCode};
use tungstenite::{Message, accept_hdr};

use crate::support::start_server;

/// An error of the server, on the event, join or heartbeat with this number, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// An update is not delivered to one member.
    Lose(u64),
    /// An update is delivered twice to one member.
    Duplicate(u64),
    /// An update is delivered to one member after the next one.
    Reorder(u64),
    /// An update is delivered to one member under the name of another room.
    Misroute(u64),
    /// An update shows a state that its user never had.
    Falsify(u64),
    /// An update names the connection of another member.
    Impersonate(u64),
    /// An update has another epoch than its member.
    Epoch(u64),
    /// An update has a time of the next minute.
    Time(u64),
    /// An update shows its change as begun earlier.
    Stamp(u64),
    /// An update shows a field that was never sent.
    Field(u64),
    /// An update is delivered to one member as a join.
    CallJoin(u64),
    /// A leave of a member that stays is delivered behind its update.
    FalseLeave(u64),
    /// A heartbeat is answered twice.
    AnswerTwice(u64),
    /// A request that was never sent is answered, too.
    AnswerUnknown(u64),
    /// A heartbeat is answered with another epoch.
    AnswerEpoch(u64),
    /// A join is not delivered to one member.
    LoseJoin(u64),
    /// A join is delivered twice to one member.
    DuplicateJoin(u64),
    /// A leave is not delivered to one member.
    LoseLeave(u64),
    /// A leave is delivered twice to one member.
    DuplicateLeave(u64),
    /// The snapshot of a join shows the member that left the room last, too.
    SnapshotLingers(u64),
    /// The snapshot of a join lacks the first member.
    SnapshotLacks(u64),
    /// The snapshot of a join shows all members in the state of their own join.
    SnapshotIsStale(u64),
    /// The snapshot of a join shows all members with a change that they have not sent.
    SnapshotIsAhead(u64),
    /// A heartbeat is not answered.
    IgnoreHeartbeat(u64),
    /// A leave is not answered.
    IgnoreLeave(u64),
    /// A heartbeat is refused with this code, and its member removed.
    Refuse(u64, &'static str),
    /// A join is refused with this code.
    RefuseJoin(u64, &'static str),
    /// All joins from this one on are refused with this code.
    RefuseJoinsFrom(u64, &'static str),
    /// The connection is closed instead of answering a heartbeat.
    Close(u64),
    /// A heartbeat is answered with a packet that is none.
    Garble(u64),
}

/// The planned behaviour of a server.
#[derive(Debug, Default)]
pub(crate) struct Script {
    pub(crate) wrong: Option<Wrong>,
    /// The delay until a heartbeat is carried out.
    pub(crate) delay: Duration,
    /// True if answers and events have no `seq`, as the model's.
    pub(crate) is_unnumbered: bool,
    /// The `auth` object without which the namespace refuses a connection.
    pub(crate) auth: Option<&'static str>,
    /// True if a join ends the connection, as on a server of another protocol.
    pub(crate) has_no_rooms: bool,
}

/// A server that listens until the test program ends.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    script: Script,
    /// True once a room of the load was joined: the check before it goes well, and is not counted.
    has_begun: bool,
    rooms: BTreeMap<String, Room>,
    /// Deliveries so far of events of each type; joins, heartbeats, and connections.
    deliveries: BTreeMap<&'static str, u64>,
    joins: u64,
    heartbeats: u64,
    left: u64,
    connections: u64,
    /// The keys of the handshakes.
    keys: Vec<String>,
}

#[derive(Debug, Default)]
struct Room {
    seq: u64,
    members: Vec<Member>,
    last_left: Option<Member>,
}

#[derive(Debug)]
struct Member {
    connection: String,
    user: String,
    state: Value,
    first_state: Value,
    /// Time of its last request, in milliseconds.
    seen_ms: u64,
    stream: TcpStream,
    /// An event that is delivered after the next one.
    held: Option<Value>,
}

impl Server {
    pub(crate) fn start(script: Script) -> Self {
        let state = State {
            script,
            ..State::default()
        };
        let (address, state) = start_server(state, serve);
        Self { address, state }
    }

    pub(crate) fn wrong(wrong: Wrong) -> Self {
        Self::start(Script {
            wrong: Some(wrong),
            ..Script::default()
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Closes all connections and forgets all members, as a server does that is started again.
    pub(crate) fn restart(&self) {
        let mut state = self.state.lock().unwrap();
        for room in std::mem::take(&mut state.rooms).into_values() {
            for member in room.members {
                let _ = member.stream.shutdown(Shutdown::Both);
            }
        }
    }

    /// Returns the keys of the handshakes so far.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.state.lock().unwrap().keys.clone()
    }

    /// Returns the number of requests to leave since the load began.
    pub(crate) fn leave_requests(&self) -> u64 {
        self.state.lock().unwrap().left
    }

    /// Returns the number of joins and heartbeats that were carried out or refused.
    pub(crate) fn requests(&self) -> (u64, u64) {
        let state = self.state.lock().unwrap();
        (state.joins, state.heartbeats)
    }
}

/// Serves a connection until its end.
fn serve(mut stream: TcpStream, state: &Mutex<State>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut key = String::new();
    #[expect(
        clippy::result_large_err,
        reason = "tungstenite asks for this type of error"
    )]
    let take_key = |request: &Request, response: Response| {
        let field = &request.headers()["sec-websocket-key"];
        key = String::from_utf8_lossy(field.as_bytes()).into_owned();
        Ok(response)
    };
    let mut socket = accept_hdr(stream.try_clone().ok()?, take_key).ok()?;
    let connection = {
        let mut state = state.lock().unwrap();
        state.keys.push(key);
        state.connections += 1;
        format!("connection-{}", state.connections)
    };
    let open = json!({"sid": connection, "upgrades": [], "pingInterval": 25_000, "pingTimeout": 20_000, "maxPayload": 1_000_000});
    send(&mut stream, &format!("0{open}"));
    while let Ok(Message::Text(text)) = socket.read() {
        if let Some(auth) = text.strip_prefix("40") {
            let expected = state.lock().unwrap().script.auth;
            let answer = if auth == expected.unwrap_or_default() {
                format!("40{}", json!({"sid": connection}))
            } else {
                r#"44{"message":"unauthorized"}"#.to_owned()
            };
            send(&mut stream, &answer);
        } else if let Some(rest) = text.strip_prefix("42") {
            request(rest, &connection, &mut stream, state)?;
        }
    }
    state.lock().unwrap().disconnect(&connection);
    Some(())
}

/// Carries out a request: `7["presence:leave",null]`.
fn request(
    text: &str,
    connection: &str,
    stream: &mut TcpStream,
    state: &Mutex<State>,
) -> Option<()> {
    let (id, arguments) = text.split_at(text.find('[')?);
    let arguments: Value = serde_json::from_str(arguments).ok()?;
    if arguments[0] == "presence:heartbeat" {
        let delay = {
            let mut state = state.lock().unwrap();
            state.heartbeats += 1;
            state.script.delay
        };
        // A planned delay, which is what the driver must measure.
        std::thread::sleep(delay);
    }
    let mut state = state.lock().unwrap();
    if state.script.has_no_rooms {
        return None;
    }
    let number = state.heartbeats.checked_sub(1);
    let number = number.filter(|_| arguments[0] == "presence:heartbeat");
    let further = match state.wrong() {
        Some(Wrong::AnswerTwice(at)) if number == Some(at) => Some(id),
        Some(Wrong::AnswerUnknown(at)) if number == Some(at) => Some("1000000"),
        _ => None,
    };
    let answer = match arguments[0].as_str()? {
        "presence:join" => state.join(&arguments[1], connection, stream),
        "presence:heartbeat" => state.heartbeat(&arguments[1], connection)?,
        _ => {
            let number = state.left;
            state.left += 1;
            state.disconnect(connection);
            let is_silent = state.wrong() == Some(Wrong::IgnoreLeave(number));
            (!is_silent).then(|| json!({"ok": true}))
        }
    };
    match answer {
        Some(answer) => {
            for id in [Some(id), further].into_iter().flatten() {
                send(stream, &format!("43{id}[{answer}]"));
            }
        }
        None if matches!(state.script.wrong, Some(Wrong::Garble(_))) => send(stream, "4x"),
        None => {}
    }
    Some(())
}

impl State {
    /// Returns the planned error, once the load has begun.
    fn wrong(&self) -> Option<Wrong> {
        self.script.wrong.filter(|_| self.has_begun)
    }

    fn join(&mut self, join: &Value, connection: &str, stream: &TcpStream) -> Option<Value> {
        let room = join["roomId"].as_str()?;
        if room.starts_with("room-") && !std::mem::replace(&mut self.has_begun, true) {
            (self.joins, self.heartbeats, self.left) = (0, 0, 0);
            self.deliveries.clear();
        }
        let number = self.joins;
        self.joins += 1;
        let refused = match self.wrong() {
            Some(Wrong::RefuseJoin(at, code)) if at == number => Some(code),
            Some(Wrong::RefuseJoinsFrom(from, code)) if from <= number => Some(code),
            _ => None,
        };
        if let Some(code) = refused {
            return Some(json!({"ok": false, "error": "as planned", "code": code}));
        }
        let member = Member {
            connection: connection.to_owned(),
            user: join["userId"].as_str()?.to_owned(),
            state: join["state"].clone(),
            first_state: join["state"].clone(),
            seen_ms: now_ms(),
            stream: stream.try_clone().ok()?,
            held: None,
        };
        let event = event("join", room, &member);
        self.rooms
            .entry(room.to_owned())
            .or_default()
            .members
            .push(member);
        self.publish(room, event);
        let wrong = self.wrong();
        let room = &self.rooms[room];
        let lingering = room.last_left.iter();
        let lingering = lingering.filter(|_| wrong == Some(Wrong::SnapshotLingers(number)));
        let shown = room.members.iter().chain(lingering).map(|member| {
            let state = match wrong {
                Some(Wrong::SnapshotIsStale(at)) if at == number => member.first_state.clone(),
                Some(Wrong::SnapshotIsAhead(at)) if at == number => {
                    json!({"n": member.state["n"].as_u64().unwrap_or(0) + 1_000, "t": member.state["t"]})
                }
                _ => member.state.clone(),
            };
            json!({"connId": member.connection, "userId": member.user, "state": state, "lastSeenMs": member.seen_ms, "epoch": 1})
        });
        let mut snapshot: Vec<Value> = shown.collect();
        if wrong == Some(Wrong::SnapshotLacks(number)) {
            snapshot.remove(0);
        }
        let mut answer =
            json!({"ok": true, "snapshot": snapshot, "self": {"connId": connection, "epoch": 1}});
        if !self.script.is_unnumbered {
            answer["seq"] = room.seq.into();
        }
        Some(answer)
    }

    /// Carries out a heartbeat. Returns `None` if the connection is to be closed, and no answer if there is none.
    #[expect(clippy::option_option, reason = "the two are told apart by the caller")]
    fn heartbeat(&mut self, heartbeat: &Value, connection: &str) -> Option<Option<Value>> {
        let number = self.heartbeats - 1;
        match self.wrong() {
            Some(Wrong::Refuse(at, code)) if at == number => {
                self.disconnect(connection);
                return Some(Some(
                    json!({"ok": false, "error": "as planned", "code": code}),
                ));
            }
            Some(Wrong::Close(at)) if at == number => {
                let member = self.member(connection)?.1;
                let _ = member.stream.shutdown(Shutdown::Both);
                self.disconnect(connection);
                return None;
            }
            _ => {}
        }
        let Some((room, member)) = self.member(connection) else {
            return Some(Some(
                json!({"ok": false, "error": "no member", "code": "not_joined"}),
            ));
        };
        let patch = heartbeat["patchState"].clone();
        let has_changed = patch.is_object() && patch != member.state;
        member.seen_ms = now_ms();
        if has_changed {
            member.state = patch;
            let event = event("update", &room, member);
            self.publish(&room, event);
        }
        let is_silent = match self.wrong() {
            Some(Wrong::IgnoreHeartbeat(at) | Wrong::Garble(at)) => at == number,
            _ => false,
        };
        let epoch = match self.wrong() {
            Some(Wrong::AnswerEpoch(at)) if at == number => 2,
            _ => 1,
        };
        Some((!is_silent).then(|| json!({"ok": true, "changed": has_changed, "epoch": epoch})))
    }

    fn member(&mut self, connection: &str) -> Option<(String, &mut Member)> {
        self.rooms.iter_mut().find_map(|(name, room)| {
            let mut members = room.members.iter_mut();
            let member = members.find(|member| member.connection == connection);
            member.map(|member| (name.clone(), member))
        })
    }

    fn disconnect(&mut self, connection: &str) {
        let Some((room, member)) = self.member(connection) else {
            return;
        };
        let mut event = event("leave", &room, member);
        event["state"] = Value::Null;
        let in_room = self.rooms.get_mut(&room).expect("the member was in it");
        let mut members = in_room.members.iter();
        let place = members.position(|member| member.connection == connection);
        in_room.last_left = place.map(|place| in_room.members.remove(place));
        self.publish(&room, event);
    }

    /// Delivers an event to all members of a room.
    fn publish(&mut self, room: &str, mut event: Value) {
        let planned = self.wrong();
        let Some(room) = self.rooms.get_mut(room) else {
            return;
        };
        room.seq += 1;
        if !self.script.is_unnumbered {
            event["seq"] = room.seq.into();
        }
        let connections: Vec<String> = room
            .members
            .iter()
            .map(|of| of.connection.clone())
            .collect();
        let kinds = ["join", "leave", "update"];
        let kind = kinds.into_iter().find(|kind| event["type"] == *kind);
        let kind = kind.expect("an event has one of the three types");
        for member in &mut room.members {
            let delivered = self.deliveries.entry(kind).or_default();
            let delivery = (kind, *delivered);
            *delivered += 1;
            let wrong = planned.filter(|wrong| wrong.delivery() == Some(delivery));
            member.deliver_wrongly(wrong, event.clone(), &connections);
        }
    }
}

impl Wrong {
    /// Returns the delivery that is wrong: the type of its event, and its number.
    fn delivery(self) -> Option<(&'static str, u64)> {
        match self {
            Self::Lose(at)
            | Self::Duplicate(at)
            | Self::Reorder(at)
            | Self::Misroute(at)
            | Self::Falsify(at)
            | Self::Epoch(at)
            | Self::Time(at)
            | Self::Stamp(at)
            | Self::Field(at)
            | Self::CallJoin(at)
            | Self::FalseLeave(at)
            | Self::Impersonate(at) => Some(("update", at)),
            Self::LoseJoin(at) | Self::DuplicateJoin(at) => Some(("join", at)),
            Self::LoseLeave(at) | Self::DuplicateLeave(at) => Some(("leave", at)),
            _ => None,
        }
    }
}

impl Member {
    fn deliver_wrongly(&mut self, wrong: Option<Wrong>, mut event: Value, connections: &[String]) {
        match wrong {
            Some(Wrong::Lose(_) | Wrong::LoseJoin(_) | Wrong::LoseLeave(_)) => return,
            Some(Wrong::Duplicate(_) | Wrong::DuplicateJoin(_) | Wrong::DuplicateLeave(_)) => {
                self.deliver(&event);
            }
            Some(Wrong::Reorder(_)) => {
                self.held = Some(event);
                return;
            }
            Some(Wrong::Misroute(_)) => event["roomId"] = "room-999".into(),
            Some(Wrong::Epoch(_)) => event["epoch"] = 2.into(),
            Some(Wrong::Time(_)) => event["ts"] = (now_ms() + 60_000).into(),
            Some(Wrong::Stamp(_)) => {
                let begun = event["state"]["t"].as_u64().unwrap_or(0);
                event["state"]["t"] = (begun - 1_000_000).into();
            }
            Some(Wrong::Field(_)) => event["state"]["x"] = 1.into(),
            Some(Wrong::CallJoin(_)) => event["type"] = "join".into(),
            Some(Wrong::FalseLeave(_)) => {
                self.deliver(&event);
                event["type"] = "leave".into();
                event["state"] = Value::Null;
            }
            Some(Wrong::Falsify(_)) => event["state"]["n"] = 1_000_000.into(),
            Some(Wrong::Impersonate(_)) => {
                let mut others = connections.iter();
                let other = others.find(|other| event["connId"] != other.as_str());
                event["connId"] = other.map_or("nobody", String::as_str).into();
            }
            _ => {}
        }
        self.deliver(&event);
    }

    fn deliver(&mut self, event: &Value) {
        send(
            &mut self.stream,
            &format!("42{}", json!(["presence:event", event])),
        );
        if let Some(held) = self.held.take() {
            send(
                &mut self.stream,
                &format!("42{}", json!(["presence:event", held])),
            );
        }
    }
}

/// Sends a text frame.
fn send(stream: &mut TcpStream, text: &str) {
    let frame = Frame::message(text.to_owned(), OpCode::Data(Data::Text), true);
    let mut bytes = Vec::new();
    frame.format(&mut bytes).expect("memory takes it");
    // A client that has gone is noticed by its reader.
    let _ = stream.write_all(&bytes);
}

/// Returns the time of the server's clock in milliseconds.
fn now_ms() -> u64 {
    clock::now() / 1_000_000
}

fn event(kind: &str, room: &str, member: &Member) -> Value {
    json!({"type": kind, "roomId": room, "userId": member.user, "connId": member.connection, "state": member.state, "ts": now_ms(), "epoch": 1})
}
