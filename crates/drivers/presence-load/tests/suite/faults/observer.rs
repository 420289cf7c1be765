//! An observer: a client that joins a room for a moment to see who is in it.

use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

use crate::faults::plan::{MEMBERS, Plan};

/// Time after which an attempt ends.
const TIMEOUT: Duration = Duration::from_secs(20);
const USER: &str = "observer";

/// The members of a room as a node shows them.
#[derive(Debug)]
pub(crate) struct Seen {
    /// The users besides the observer, in order; one with two connections is there twice.
    users: Vec<String>,
    pub(crate) is_degraded: bool,
}

/// Joins a room at a port. Returns `None` if the node does not answer.
pub(crate) fn look(port: u16, room: u64) -> Option<Seen> {
    let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    stream.set_nodelay(true).ok()?;
    let url = format!("ws://127.0.0.1:{port}/socket.io/?EIO=4&transport=websocket");
    let (mut socket, _) = tungstenite::client(url, stream).ok()?;
    socket.send(Message::text("40")).ok()?;
    packet(&mut socket, "40")?;
    let request = json!({"roomId": format!("room-{room:03}"), "userId": USER});
    let request = format!("421[\"presence:join\",{request}]");
    socket.send(Message::text(request)).ok()?;
    let answer = packet(&mut socket, "431")?;
    let answer: Value = serde_json::from_str(&answer).ok()?;
    let answer = &answer[0];
    let members = answer["snapshot"].as_array()?.iter();
    let mut users: Vec<String> = members
        .map(|member| member["userId"].as_str().unwrap().to_owned())
        .filter(|user| user != USER)
        .collect();
    users.sort();
    // Leaving with an answer, so that the next look does not meet this one.
    socket
        .send(Message::text("422[\"presence:leave\",null]"))
        .ok()?;
    packet(&mut socket, "432")?;
    Some(Seen {
        users,
        is_degraded: answer["degraded"] == true,
    })
}

/// Returns the rest of the next packet that begins with `head`.
fn packet(socket: &mut WebSocket<TcpStream>, head: &str) -> Option<String> {
    loop {
        let message = socket.read().ok()?;
        if let Some(rest) = message.to_text().ok()?.strip_prefix(head) {
            return Some(rest.to_owned());
        }
    }
}

/// Returns true if a node shows each user of a plan once, and nobody else.
pub(crate) fn shows_all(port: u16, plan: &Plan<'_>) -> bool {
    (1..=plan.rooms).all(|room| {
        let expected = (1..=MEMBERS).map(|member| format!("user-{room}-{member}"));
        look(port, room)
            .is_some_and(|seen| !seen.is_degraded && seen.users.iter().cloned().eq(expected))
    })
}
