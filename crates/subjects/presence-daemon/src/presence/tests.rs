//! The service as its clients see it, with a clock that the tests set.

mod expiry;
mod interruption;
mod joins;
mod resumption;
mod simulated_peers;

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use socketio_server::Frame;

use super::{Presence, Request, Session, Settings, Sink};

/// The time of the first request.
const START: u64 = 1_700_000_000_000;

/// A client that keeps what it gets.
#[derive(Debug, Clone, Default)]
struct Client {
    received: Arc<Mutex<Vec<Value>>>,
    answers: Arc<Mutex<Vec<Value>>>,
    session: Arc<Session<Client>>,
    conn: String,
}

impl Sink for Client {
    fn send(&self, frame: &Frame) {
        let packet: Value = serde_json::from_slice(&frame.payload()[2..]).unwrap();
        assert_eq!(packet[0], "presence:event");
        self.received.lock().unwrap().push(packet[1].clone());
    }

    fn answer(&self, _ack: u64, write: impl FnOnce(&mut Vec<u8>)) {
        let mut answer = Vec::new();
        write(&mut answer);
        let answer = serde_json::from_slice(&answer).unwrap();
        self.answers.lock().unwrap().push(answer);
    }
}

impl Client {
    fn new(conn: &str) -> Self {
        Self {
            conn: conn.to_owned(),
            ..Self::default()
        }
    }

    /// Takes the events since the last call.
    fn events(&self) -> Vec<Value> {
        std::mem::take(&mut self.received.lock().unwrap())
    }

    /// Takes the events since the last call, each as `TYPE CONNECTION SEQ`.
    fn announced(&self) -> Vec<String> {
        let tell = |event: Value| {
            let kind = event["type"].as_str().unwrap();
            let conn = event["connId"].as_str().unwrap();
            format!("{kind} {conn} {}", event["seq"])
        };
        self.events().into_iter().map(tell).collect()
    }
}

/// A service and its time.
struct Server {
    presence: Presence<Client>,
    now: u64,
}

impl Server {
    fn new(settings: Settings) -> Self {
        Self {
            presence: Presence::new(settings),
            now: START,
        }
    }

    fn request(&self, client: &Client, name: &str, argument: &Value) -> Value {
        let request = Request {
            name: &format!("presence:{name}"),
            arguments: &argument.to_string(),
            ack: Some(1),
            is_binary: false,
        };
        self.presence
            .request(&client.session, &client.conn, client, request, self.now);
        client
            .answers
            .lock()
            .unwrap()
            .pop()
            .expect("each request is answered")
    }

    fn join(&self, client: &Client, room: &str) -> Value {
        self.request(
            client,
            "join",
            &json!({"roomId": room, "userId": format!("user of {}", client.conn)}),
        )
    }

    fn heartbeat(&self, client: &Client, patch: &Value) -> Value {
        self.request(client, "heartbeat", &json!({"patchState": patch}))
    }

    fn pass(&mut self, ms: u64) {
        self.now += ms;
    }

    fn metric(&self, name: &str) -> u64 {
        let page = daemon_kit::MetricsPage::new();
        self.presence.set_metrics(&page);
        let page = page.render();
        let samples = page.lines().filter(|line| line.starts_with(name));
        samples
            .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
            .sum()
    }
}

/// A service with clients in one room, who have taken the events of their joins.
fn room_of(conns: &[&str], settings: Settings) -> (Server, Vec<Client>) {
    let server = Server::new(settings);
    let clients: Vec<_> = conns.iter().map(|conn| Client::new(conn)).collect();
    for client in &clients {
        assert_eq!(server.join(client, "r")["ok"], true);
    }
    for client in &clients {
        client.events();
    }
    (server, clients)
}
