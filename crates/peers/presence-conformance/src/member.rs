//! A client of the presence protocol, and its events.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::expect::{array, expect_at, number, shortened, text};
use crate::packet::Packet;
use crate::polling::Polling;
use crate::server::Server;
use crate::socket::Socket;
use crate::websocket::WebSocket;

/// A client that can join a room.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) socket: Socket,
}

/// The argument of a `presence:event`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event(pub(crate) Value);

impl Event {
    pub(crate) fn seq(&self) -> anyhow::Result<u64> {
        number(&self.0, "/seq")
    }

    pub(crate) fn connection(&self) -> anyhow::Result<&str> {
        text(&self.0, "/connId")
    }

    /// Asserts the type of the event and the connection that it is about.
    pub(crate) fn is(&self, kind: &str, connection: &str) -> anyhow::Result<()> {
        expect_at(&self.0, "/type", &kind.into())?;
        expect_at(&self.0, "/connId", &connection.into())
    }
}

impl Member {
    /// Connects over a WebSocket.
    pub(crate) fn open(server: &Server) -> anyhow::Result<Self> {
        let mut member = Self::over(Socket::over(WebSocket::session(server)?));
        member.socket.connect()?;
        Ok(member)
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
        let answer = member.joins(&request)?;
        Ok((member, answer))
    }

    /// Asserts that a server serves a new client, which joins a room and leaves it.
    pub(crate) fn is_served(server: &Server) -> anyhow::Result<()> {
        let attempt = || {
            let mut member = Self::open(server)?;
            let answer = member.ask_to_join(&server.name("room"), "someone")?;
            expect_at(&answer, "/ok", &true.into())?;
            expect_at(&member.leave()?, "/ok", &true.into())
        };
        attempt().context("the server does not serve a new client")
    }

    pub(crate) fn over(socket: Socket) -> Self {
        Self { socket }
    }

    /// Returns the WebSocket of a client that uses one.
    pub(crate) fn websocket(&mut self) -> anyhow::Result<&mut WebSocket> {
        self.socket.transport.websocket()
    }

    /// Returns the session of a client that polls.
    pub(crate) fn polling(&mut self) -> anyhow::Result<&mut Polling> {
        self.socket.transport.polling()
    }

    /// Returns the id of the connection.
    pub(crate) fn id(&self) -> &str {
        &self.socket.id
    }

    /// Sends a request and returns its answer: one object.
    pub(crate) fn call(&mut self, event: &str, argument: &Value) -> anyhow::Result<Value> {
        let answer = self.socket.call(event, std::slice::from_ref(argument));
        let answer = answer.with_context(|| format!("{event} {}", shortened(argument)))?;
        let [only] = &answer[..] else {
            anyhow::bail!("the answer to {event} has {} arguments", answer.len());
        };
        ensure!(only.is_object(), "the answer to {event} is {only}");
        Ok(only.clone())
    }

    /// Sends a join request and returns its answer.
    pub(crate) fn ask_to_join(&mut self, room: &str, user: &str) -> anyhow::Result<Value> {
        self.call("presence:join", &json!({"roomId": room, "userId": user}))
    }

    /// Sends a join request that must be accepted, and returns its answer.
    pub(crate) fn joins(&mut self, request: &Value) -> anyhow::Result<Value> {
        let answer = self.call("presence:join", request)?;
        expect_at(&answer, "/ok", &true.into())?;
        Ok(answer)
    }

    /// Sends a heartbeat and returns its answer.
    pub(crate) fn heartbeat(&mut self, request: &Value) -> anyhow::Result<Value> {
        self.call("presence:heartbeat", request)
    }

    /// Sends a heartbeat with a patch that must change the state.
    pub(crate) fn patches(&mut self, patch: &Value) -> anyhow::Result<()> {
        let answer = self.heartbeat(&json!({"patchState": patch}))?;
        expect_at(&answer, "/ok", &true.into())?;
        expect_at(&answer, "/changed", &true.into())
    }

    /// Leaves the room and returns the answer.
    pub(crate) fn leave(&mut self) -> anyhow::Result<Value> {
        self.call("presence:leave", &Value::Null)
    }

    /// Returns the next `presence:event`.
    pub(crate) fn event(&mut self) -> anyhow::Result<Event> {
        event_in(&self.socket.event()?)
    }

    /// Returns the next `presence:event` that is about another connection.
    pub(crate) fn event_of_other(&mut self) -> anyhow::Result<Event> {
        loop {
            let event = self.event()?;
            if event.connection()? != self.id() {
                return Ok(event);
            }
        }
    }

    /// Publishes an update and returns the events before it. The server sends events in order, so an event that is not
    /// among them was not sent.
    pub(crate) fn events_until_own_update(&mut self) -> anyhow::Result<Vec<Event>> {
        let mark = load::clock::now();
        self.patches(&json!({"mark": mark}))?;
        let mut events = Vec::new();
        loop {
            let event = self.event()?;
            let is_mark = event.0.pointer("/state/mark") == Some(&mark.into());
            if is_mark && event.connection()? == self.id() {
                return Ok(events);
            }
            events.push(event);
        }
    }

    /// Returns the events of [`Self::events_until_own_update`] that are about other members.
    pub(crate) fn events_of_others(&mut self) -> anyhow::Result<Vec<Event>> {
        let mut events = self.events_until_own_update()?;
        let own = self.id().to_owned();
        events.retain(|event| event.connection().is_ok_and(|connection| connection != own));
        Ok(events)
    }

    /// Asserts that no event is left to be returned. Outside of rooms, the answer to a heartbeat shows it.
    pub(crate) fn sees_nothing(&mut self) -> anyhow::Result<()> {
        let events = match self.heartbeat(&Value::Null)?["ok"] == true {
            true => format!("{:?}", self.events_until_own_update()?),
            false => format!("{:?}", self.socket.take_events()),
        };
        ensure!(events == "[]", "unexpected events: {events}");
        Ok(())
    }
}

/// Returns the `presence:event` in a packet.
fn event_in(packet: &Packet) -> anyhow::Result<Event> {
    let name = packet.event_name();
    ensure!(
        name == Some("presence:event"),
        "expected a presence:event, got {packet:?}"
    );
    let [argument] = packet.arguments()? else {
        anyhow::bail!("a presence:event has one argument: {packet:?}");
    };
    Ok(Event(argument.clone()))
}

/// Returns the entry of a connection in the snapshot of an answer, or `None` if it is not there.
pub(crate) fn entry<'a>(answer: &'a Value, connection: &str) -> anyhow::Result<Option<&'a Value>> {
    let mut snapshot = array(answer, "/snapshot")?.iter();
    Ok(snapshot.find(|entry| entry["connId"] == *connection))
}

/// Returns the entry of a connection in the snapshot of an answer, or an error if it is not there.
pub(crate) fn present<'a>(answer: &'a Value, connection: &str) -> anyhow::Result<&'a Value> {
    let found = entry(answer, connection)?;
    found.with_context(|| {
        format!(
            "{connection} is not in the snapshot of {}",
            shortened(answer)
        )
    })
}
