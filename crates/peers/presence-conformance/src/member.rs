//! A client of Socket.IO 5 and of the presence protocol, on any transport.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use crate::expect::{array, expect_at, shortened, text};
use crate::polling::Polling;
use crate::server::Server;
use crate::transport::Transport;
use crate::websocket::{Received, Repeater, WebSocket};

/// A client that can join a room.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) transport: Box<dyn Transport>,
    /// The id of the connection to `/`. Empty until then.
    id: String,
    /// Packets of events that arrived while an acknowledgement was awaited.
    events: VecDeque<String>,
    next_ack: u64,
}

impl Member {
    /// Wraps a session that is connected to no namespace.
    pub(crate) fn over(transport: Box<dyn Transport>) -> Self {
        Self {
            transport,
            id: String::new(),
            events: VecDeque::new(),
            next_ack: 0,
        }
    }

    /// Connects to `/` over a WebSocket.
    pub(crate) fn open(server: &Server) -> anyhow::Result<Self> {
        let mut member = Self::over(Box::new(WebSocket::session(server)?));
        member.connect()?;
        Ok(member)
    }

    /// Connects to `/`.
    pub(crate) fn connect(&mut self) -> anyhow::Result<()> {
        self.transport.send("40")?;
        let answer = self.message()?;
        let data = answer.strip_prefix("40");
        let data = data.with_context(|| format!("the answer to CONNECT is {answer}"))?;
        self.id = text(&serde_json::from_str(data)?, "/sid")?.to_owned();
        Ok(())
    }

    /// Connects over a WebSocket and joins a room. Returns the member and the answer.
    pub(crate) fn join(server: &Server, room: &str, user: &str) -> anyhow::Result<(Self, Value)> {
        Self::join_with(server, room, user, &json!({}))
    }

    /// Joins a room as [`Self::join`] does, with a state.
    pub(crate) fn join_with(
        server: &Server,
        room: &str,
        user: &str,
        state: &Value,
    ) -> anyhow::Result<(Self, Value)> {
        let mut member = Self::open(server)?;
        let request = json!({"roomId": room, "userId": user, "state": state});
        let answer = member.accepted("presence:join", &request)?;
        Ok((member, answer))
    }

    /// Asserts that a server serves a new client, which joins a room and leaves it.
    pub(crate) fn is_served(server: &Server) -> anyhow::Result<()> {
        let joined = Self::join(server, &server.name("room"), "someone");
        let left = joined.and_then(|(mut member, _)| member.leave());
        left.context("the server does not serve a new client")
    }

    /// Returns the id of the connection.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Returns the WebSocket of a client that uses one.
    pub(crate) fn websocket(&mut self) -> anyhow::Result<&mut WebSocket> {
        self.transport.websocket()
    }

    /// Returns the session of a client that polls.
    pub(crate) fn polling(&mut self) -> anyhow::Result<&mut Polling> {
        self.transport.polling()
    }

    /// Returns the next packet of Socket.IO.
    fn message(&mut self) -> anyhow::Result<String> {
        match self.transport.packet()? {
            Received::Text(text) if text.starts_with('4') => Ok(text),
            other => bail!("expected a packet of Socket.IO, got {other}"),
        }
    }

    /// Sends a request, and returns the id with which it is acknowledged.
    pub(crate) fn emit(&mut self, event: &str, argument: &Value) -> anyhow::Result<u64> {
        let id = self.next_ack;
        self.next_ack += 1;
        let request = json!([event, argument]);
        self.transport.send(&format!("42{id}{request}"))?;
        Ok(id)
    }

    /// Waits for the answer to a request: one object. Events before it are kept, answers to earlier requests are
    /// skipped.
    pub(crate) fn acknowledged(&mut self, id: u64) -> anyhow::Result<Value> {
        loop {
            let packet = self.message()?;
            if is_event(&packet) {
                self.events.push_back(packet);
                continue;
            }
            let (kind, data) = packet.split_at(packet.find('[').unwrap_or(packet.len()));
            let seen: Option<u64> = kind.strip_prefix("43").and_then(|id| id.parse().ok());
            let is_expected = seen.is_some_and(|seen| seen <= id);
            ensure!(
                is_expected,
                "expected the acknowledgement {id}, got {packet:.400}"
            );
            let [answer]: [Value; 1] =
                serde_json::from_str(data).with_context(|| format!("{packet:.400}"))?;
            if seen == Some(id) {
                ensure!(answer.is_object(), "the answer is {answer}");
                return Ok(answer);
            }
        }
    }

    /// Sends a request and returns its answer.
    pub(crate) fn call(&mut self, event: &str, argument: &Value) -> anyhow::Result<Value> {
        let answer = self
            .emit(event, argument)
            .and_then(|id| self.acknowledged(id));
        answer.with_context(|| format!("{event} {}", shortened(argument)))
    }

    /// Sends a request that must be accepted, and returns its answer.
    pub(crate) fn accepted(&mut self, event: &str, argument: &Value) -> anyhow::Result<Value> {
        let answer = self.call(event, argument)?;
        expect_at(&answer, "/ok", &true.into())?;
        Ok(answer)
    }

    /// Sends a heartbeat with a patch that must change the state.
    pub(crate) fn patches(&mut self, patch: &Value) -> anyhow::Result<()> {
        let answer = self.accepted("presence:heartbeat", &json!({"patchState": patch}))?;
        expect_at(&answer, "/changed", &true.into())
    }

    /// Sends heartbeats that ask for no answer, often enough for a TTL of 2 s, until the returned value is dropped.
    pub(crate) fn renew(&mut self) -> anyhow::Result<Repeater> {
        let heartbeat = "42[\"presence:heartbeat\",null]";
        self.websocket()?
            .repeat(heartbeat, Duration::from_millis(400))
    }

    /// Leaves the room.
    pub(crate) fn leave(&mut self) -> anyhow::Result<()> {
        self.accepted("presence:leave", &Value::Null).map(drop)
    }

    /// Returns the next packet as scripts write it. If it is to be no event, events before it are kept.
    pub(crate) fn take(&mut self, is_for_event: bool) -> anyhow::Result<String> {
        if let (true, Some(event)) = (is_for_event, self.events.pop_front()) {
            return Ok(event);
        }
        loop {
            let packet = self.transport.packet()?.to_string();
            if is_for_event || !is_event(&packet) {
                return Ok(packet);
            }
            self.events.push_back(packet);
        }
    }

    /// Returns the argument of the next `presence:event`.
    pub(crate) fn event(&mut self) -> anyhow::Result<Value> {
        let packet = self.take(true)?;
        let event = packet
            .strip_prefix("42")
            .map(serde_json::from_str::<(String, Value)>);
        match event {
            Some(Ok((name, event))) if name == "presence:event" => Ok(event),
            _ => bail!("expected a presence:event, got {packet:.400}"),
        }
    }

    /// Returns the next `presence:event` that is about another connection.
    pub(crate) fn event_of_other(&mut self) -> anyhow::Result<Value> {
        loop {
            let event = self.event()?;
            if text(&event, "/connId")? != self.id {
                return Ok(event);
            }
        }
    }

    /// Asserts that no event is left to be returned. The server sends events in order, so an event that does not precede
    /// the client's own update was not sent. Outside of rooms, the answer to a heartbeat shows it.
    pub(crate) fn sees_nothing(&mut self) -> anyhow::Result<()> {
        let mark = load::clock::now();
        let update = json!({"patchState": {"mark": mark}});
        let is_member = self.call("presence:heartbeat", &update)?["changed"] == true;
        if is_member || !self.events.is_empty() {
            let event = self.event()?;
            let is_own = event.pointer("/state/mark") == Some(&mark.into());
            ensure!(is_own, "an unexpected event: {event}");
        }
        Ok(())
    }

    /// Asserts that the connection ends, or that the server still answers a request on it.
    pub(crate) fn ends_or_answers(&mut self) -> anyhow::Result<()> {
        // An id that no other request of the case has.
        if self
            .transport
            .send("42999[\"presence:leave\",null]")
            .is_err()
        {
            return Ok(());
        }
        loop {
            match self.transport.packet()? {
                Received::Closed(_) => return Ok(()),
                Received::Text(text) if text.starts_with("43999[") => return Ok(()),
                Received::Text(text) if text.starts_with('4') => {}
                Received::Binary(_) => {}
                other => bail!("expected a packet of Socket.IO, got {other}"),
            }
        }
    }
}

/// Returns true if a packet is an event.
pub(crate) fn is_event(packet: &str) -> bool {
    packet.starts_with("42") || packet.starts_with("45")
}

/// Returns the entry of a connection in the snapshot of an answer, or `None` if it is not there.
pub(crate) fn entry<'a>(answer: &'a Value, connection: &str) -> anyhow::Result<Option<&'a Value>> {
    let mut snapshot = array(answer, "/snapshot")?.iter();
    Ok(snapshot.find(|entry| entry["connId"] == *connection))
}

/// Returns the entry of a connection in the snapshot of an answer, or an error if it is not there.
pub(crate) fn present<'a>(answer: &'a Value, connection: &str) -> anyhow::Result<&'a Value> {
    let found = entry(answer, connection)?;
    found.with_context(|| format!("{connection} is not in {}", shortened(answer)))
}
