//! A chat over Socket.IO that makes one planned error: a peer of the driver's tests.
//!
//! Events: `join` (room, user), `chat message` ({user, n, …}), which is pushed to the room, `ask` (value), which the event
//! `answer` (value) answers, and `echo`, whose acknowledgement has its arguments.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tungstenite::protocol::frame::Frame;
use tungstenite::protocol::frame::coding::{Data, OpCode};
use tungstenite::{Message, accept};

use crate::support::start_server;

/// The errors of messages: not answered; answered before the answer to the next one of its user; answered with `false`, twice, besides an unknown number, or in a binary frame; after
/// an event that nobody waits for, or a ping; and the ends of a connection: with a close frame, a packet of Socket.IO or of
/// Engine.IO, only in one direction, or after a packet that is none.
const MESSAGES: [&str; 13] = [
    "deaf",
    "late",
    "refuse",
    "twice",
    "stray",
    "binary",
    "news",
    "ping",
    "close",
    "disconnect",
    "end",
    "half",
    "garble",
];
/// The errors of pushes.
const PUSHES: [&str; 6] = [
    "lose",
    "forge",
    "rename",
    "misdirect",
    "duplicate",
    "reorder",
];

/// The planned behaviour of an application.
#[derive(Debug, Default, Clone)]
pub(super) struct Script {
    /// Errors, each with the number of the push to a user of the load, or of its message, counted from 0.
    pub(super) faults: &'static [(&'static str, u64)],
    /// The state of the handshake at which it closes: `accepted`, `upgraded`, `open` or `connected`.
    pub(super) closes: Option<&'static str>,
    /// The state of the handshake from which on it says nothing, and the first connection that meets it, counted from 1.
    pub(super) silent: Option<(&'static str, u64)>,
    /// The interval of its pings and the time for their answers, if it announces any others than usual.
    pub(super) pings: Option<[u64; 2]>,
    /// True if it sends a ping before each acknowledgement.
    pub(super) is_pinging: bool,
    /// The answer to the connection to the namespace, if it is refused.
    pub(super) refusal: Option<&'static str>,
    /// The acknowledgement of joins; none if empty.
    pub(super) join: Option<&'static str>,
    /// Letters that are added to each push.
    pub(super) padding: usize,
    /// True if it answers with binary frames.
    pub(super) is_binary: bool,
}

#[derive(Debug)]
pub(super) struct Application {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    script: Script,
    /// The users of the check have the first two connections.
    connections: u64,
    /// The answers that come late, each with its connection.
    late: Vec<(u64, String)>,
    members: Vec<Member>,
    pushes: u64,
    messages: u64,
    /// The arguments of each event, as text.
    received: Vec<String>,
}

#[derive(Debug)]
struct Member {
    connection: u64,
    room: String,
    stream: TcpStream,
    held: Option<String>,
}

impl Application {
    pub(super) fn start(script: Script) -> Self {
        let state = State {
            script,
            ..State::default()
        };
        let (address, state) = start_server(state, serve);
        Self { address, state }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Closes all connections, as a server does that is started again.
    pub(super) fn restart(&self) {
        for member in std::mem::take(&mut self.state.lock().unwrap().members) {
            let _ = member.stream.shutdown(Shutdown::Both);
        }
    }

    pub(super) fn messages(&self) -> u64 {
        self.state.lock().unwrap().messages
    }

    /// Returns the events so far, as they came.
    pub(super) fn received(&self) -> Vec<String> {
        self.state.lock().unwrap().received.clone()
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) -> Option<()> {
    let script = state.lock().unwrap().script.clone();
    let connection = {
        let mut state = state.lock().unwrap();
        state.connections += 1;
        state.connections
    };
    let mut waiting = stream.try_clone().ok()?;
    // Ends the connection at a state, or keeps it without a word until the client closes it.
    let mut go_on = |at| {
        if script
            .silent
            .is_some_and(|(state, first)| state == at && first <= connection)
        {
            let _ = waiting.read_to_end(&mut Vec::new());
            return None;
        }
        (script.closes != Some(at)).then_some(())
    };
    go_on("accepted")?;
    stream.set_nodelay(true).ok()?;
    let mut socket = accept(stream.try_clone().ok()?).ok()?;
    go_on("upgraded")?;
    let [interval, timeout] = script.pings.unwrap_or([25_000, 20_000]);
    send(
        &mut stream,
        &format!(
            r#"0{{"sid":"s","upgrades":[],"pingInterval":{interval},"pingTimeout":{timeout},"maxPayload":1000000}}"#
        ),
    );
    go_on("open")?;
    while let Ok(Message::Text(text)) = socket.read() {
        if text.starts_with("40") {
            match script.refusal {
                Some(refusal) => send(&mut stream, &format!("44{refusal}")),
                None => send(&mut stream, r#"40{"sid":"c"}"#),
            }
            go_on("connected")?;
        } else if text == "3" {
            state.lock().unwrap().received.push("pong".to_owned());
        } else if let Some(event) = text.strip_prefix("42") {
            let answered = state.lock().unwrap().event(event, connection, &mut stream);
            if answered.is_none() {
                break;
            }
        }
    }
    let mut state = state.lock().unwrap();
    state
        .members
        .retain(|member| member.connection != connection);
    Some(())
}

impl State {
    /// Carries out an event. Returns `None` if it is malformed.
    fn event(&mut self, text: &str, connection: u64, stream: &mut TcpStream) -> Option<()> {
        let (id, text) = text.split_at(text.find('[')?);
        let event: Vec<Value> = serde_json::from_str(text).ok()?;
        self.received.push(text.to_owned());
        let mut answers = stream.try_clone().ok()?;
        let is_late = |(of, _): &mut (u64, String)| *of == connection;
        for (_, answer) in self.late.extract_if(.., is_late) {
            send(&mut answers, &answer);
        }
        if self.script.is_pinging {
            send(&mut answers, "2");
        }
        let mut answer = |answer: Value| {
            if !id.is_empty() {
                send(&mut answers, &format!("43{id}{answer}"));
            }
        };
        let message = self.messages;
        match event[0].as_str()? {
            "join" => {
                self.members.push(Member {
                    connection,
                    room: event[1].as_str()?.to_owned(),
                    stream: stream.try_clone().ok()?,
                    held: None,
                });
                match self.script.join {
                    Some("") => {}
                    Some(text) => answer(serde_json::from_str(text).ok()?),
                    None => answer(json!([{"ok": true, "token": connection}])),
                }
            }
            "chat message" => {
                self.messages += u64::from(connection > 2);
                match self.fault(connection, message, &MESSAGES) {
                    Some("deaf") => {}
                    Some("late") => self.late.push((connection, format!("43{id}[]"))),
                    Some("refuse") => answer(json!([{"ok": false}])),
                    Some("binary") => write(stream, frame(b"bytes", Data::Binary)),
                    Some("close") => write(stream, Frame::close(None)),
                    Some("disconnect") => send(stream, "41"),
                    Some("end") => send(stream, "1"),
                    Some("half") => stream.shutdown(Shutdown::Write).ok()?,
                    Some("garble") => send(stream, "9"),
                    fault => {
                        match fault {
                            Some("twice") => answer(json!([{"ok": true}])),
                            Some("stray") => send(stream, "439999[]"),
                            Some("news") => send(stream, r#"42["news",1]"#),
                            Some("ping") => send(stream, "2"),
                            _ => {}
                        }
                        self.push(connection, &event[1]);
                        answer(json!([{"ok": true}]));
                    }
                }
            }
            "ask" => send(stream, &format!("42{}", json!(["answer", event[1]]))),
            "echo" if self.script.is_binary => write(stream, frame(b"bytes", Data::Binary)),
            "echo" => answer(Value::from(&event[1..])),
            _ => {}
        }
        Some(())
    }

    /// Returns the planned error among `kinds` of a message or push of the load.
    fn fault(&self, sender: u64, number: u64, kinds: &[&str]) -> Option<&'static str> {
        let mut faults = self.script.faults.iter();
        let fault =
            faults.find(|fault| sender > 2 && fault.1 == number && kinds.contains(&fault.0));
        fault.map(|fault| fault.0)
    }

    /// Pushes a message to the members of the sender's room.
    fn push(&mut self, sender: u64, message: &Value) -> Option<()> {
        let room = self
            .members
            .iter()
            .find(|member| member.connection == sender)?
            .room
            .clone();
        let others = self.members.iter().position(|member| member.room != room);
        for index in 0..self.members.len() {
            if self.members[index].room != room {
                continue;
            }
            let mut message = message.clone();
            if self.script.padding > 0 {
                message["padding"] = "x".repeat(self.script.padding).into();
            }
            let number = self.pushes;
            self.pushes += u64::from(sender > 2);
            let fault = self.fault(sender, number, &PUSHES);
            let mut target = index;
            match fault {
                Some("lose") => continue,
                Some("forge") => message["n"] = 1_000_000.into(),
                Some("rename") => message["user"] = "bob".into(),
                Some("misdirect") => {
                    self.members[index].deliver(&message);
                    target = others?;
                }
                Some("duplicate") => self.members[index].deliver(&message),
                Some("reorder") => {
                    // Held back until the same sender's next one.
                    self.members[index].held = Some(message.to_string());
                    continue;
                }
                _ => {}
            }
            self.members[target].deliver(&message);
        }
        Some(())
    }
}

impl Member {
    fn deliver(&mut self, message: &Value) {
        send(
            &mut self.stream,
            &format!("42{}", json!(["chat message", message])),
        );
        let held = self
            .held
            .as_deref()
            .and_then(|held| serde_json::from_str::<Value>(held).ok());
        if let Some(held) = held.filter(|held| held["user"] == message["user"]) {
            self.held = None;
            self.deliver(&held);
        }
    }
}

/// Sends a text frame.
fn send(stream: &mut TcpStream, text: &str) {
    write(stream, frame(text.as_bytes(), Data::Text));
}

fn frame(payload: &[u8], kind: Data) -> Frame {
    Frame::message(payload.to_vec(), OpCode::Data(kind), true)
}

fn write(stream: &mut TcpStream, frame: Frame) {
    let mut bytes = Vec::new();
    frame.format(&mut bytes).expect("memory takes it");
    // A client that has gone is noticed by its reader.
    let _ = stream.write_all(&bytes);
}
