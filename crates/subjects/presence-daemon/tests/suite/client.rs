//! A client of the presence protocol.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

/// Time after which a test fails that waits. It is shorter than the interval of pings, which a read would return for.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// A client that is connected to the main namespace.
pub(crate) struct Client {
    socket: WebSocket<TcpStream>,
    events: VecDeque<Value>,
    pub(crate) conn: String,
    requests: u64,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the daemon listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a socket");
        stream.set_nodelay(true).expect("a socket");
        let url = format!("ws://{address}/socket.io/?EIO=4&transport=websocket");
        let (socket, _) = tungstenite::client(url, stream).expect("a handshake");
        let mut client = Self {
            socket,
            events: VecDeque::new(),
            conn: String::new(),
            requests: 0,
        };
        assert!(client.packet().starts_with("0{"));
        client.send("40");
        let connected = client.packet();
        let connected: Value = serde_json::from_str(&connected[2..]).expect("JSON");
        client.conn = connected["sid"].as_str().expect("a string").to_owned();
        client
    }

    /// Connects and joins a room.
    pub(crate) fn join(address: SocketAddr, room: &str, user: &str) -> (Self, Value) {
        let mut client = Self::connect(address);
        let answer = client.request("join", &json!({"roomId": room, "userId": user}));
        assert_eq!(answer["ok"], true, "{answer}");
        (client, answer)
    }

    /// Sends a request and returns its answer. Events that come before it are kept.
    pub(crate) fn request(&mut self, name: &str, argument: &Value) -> Value {
        self.requests += 1;
        let id = self.requests;
        self.send(&format!("42{id}[\"presence:{name}\",{argument}]"));
        let head = format!("43{id}[");
        loop {
            let packet = self.packet();
            if let Some(rest) = packet.strip_prefix(&head) {
                return serde_json::from_str(&rest[..rest.len() - 1]).expect("JSON");
            }
            self.keep(&packet);
        }
    }

    pub(crate) fn heartbeat(&mut self, patch: &Value) -> Value {
        self.request("heartbeat", &json!({"patchState": patch}))
    }

    /// Returns the next event.
    pub(crate) fn event(&mut self) -> Value {
        loop {
            if let Some(event) = self.events.pop_front() {
                return event;
            }
            let packet = self.packet();
            self.keep(&packet);
        }
    }

    /// Returns the events up to the first one of a type and a connection, which is the last.
    pub(crate) fn events_until(&mut self, kind: &str, conn: &str) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let event = self.event();
            let is_last = event["type"] == kind && event["connId"] == conn;
            events.push(event);
            if is_last {
                return events;
            }
        }
    }

    /// Returns the events that are there when a further request is answered.
    pub(crate) fn events_now(&mut self) -> Vec<Value> {
        self.request("heartbeat", &json!(null));
        self.events.drain(..).collect()
    }

    fn keep(&mut self, packet: &str) {
        let event = packet.strip_prefix("42").expect("an event");
        let event: Value = serde_json::from_str(event).expect("JSON");
        assert_eq!(event[0], "presence:event");
        self.events.push_back(event[1].clone());
    }

    fn send(&mut self, text: &str) {
        self.socket
            .send(Message::text(text))
            .expect("the daemon reads");
    }

    /// Returns the next packet that is no ping.
    fn packet(&mut self) -> String {
        loop {
            let message = match self.socket.read() {
                Err(tungstenite::Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => {
                    panic!("nothing came within {TIMEOUT:?}")
                }
                message => message.expect("the connection lasts"),
            };
            let text = message.into_text().expect("text").to_string();
            if text != "2" {
                return text;
            }
            self.send("3");
        }
    }
}

/// Returns the connection ids of a snapshot, in their order.
pub(crate) fn conns(answer: &Value) -> Vec<String> {
    let members = answer["snapshot"].as_array().expect("a snapshot");
    let mut conns: Vec<String> = members
        .iter()
        .map(|member| member["connId"].as_str().expect("a string").to_owned())
        .collect();
    conns.sort_unstable();
    conns
}

/// Returns the numbers of events.
pub(crate) fn seqs(events: &[Value]) -> Vec<u64> {
    events
        .iter()
        .map(|event| event["seq"].as_u64().expect("a number"))
        .collect()
}
