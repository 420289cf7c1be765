//! A blocking client over WebSocket.

use std::io::{ErrorKind, Read as _, Write as _};
use std::mem;

use anyhow::{Context as _, bail, ensure};
use load::clock;

use super::TIMEOUT;
use crate::protocol::packet;
use crate::protocol::presence::{
    EventType, Incoming, JoinRequest, Stamp, write_heartbeat, write_join, write_leave,
};
use crate::protocol::socket::Socket;
use crate::protocol::transport::{Endpoint, Event, Kind, Side, Transport, TransportContext};

/// A client that is connected to the namespace.
#[derive(Debug)]
pub(super) struct Client {
    socket: Socket,
    transport: Transport,
    context: TransportContext,
    buffer: Box<[u8]>,
    connection: String,
    next_id: u64,
    received: Vec<Received>,
}

/// A message of the server.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Received {
    Opened,
    Connected(String),
    Ack(u64, Answer),
    Event(SeenEvent),
    Ended(String),
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    /// Why the request was refused; absent if it was carried out.
    refused: Option<String>,
    has_changed: Option<bool>,
    join: JoinAnswer,
}

/// The answer to a join.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct JoinAnswer {
    pub(super) seq: Option<u64>,
    /// Connection, user and stamp of each member.
    pub(super) members: Vec<(String, String, Option<Stamp>)>,
}

/// An event.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SeenEvent {
    kind: EventType,
    user: String,
    pub(super) room: String,
    pub(super) connection: String,
    pub(super) stamp: Option<Stamp>,
}

impl Client {
    /// Connects to the namespace over a socket that is connected.
    pub(super) fn open(socket: Socket, endpoint: Endpoint) -> anyhow::Result<Self> {
        let mut client = Self {
            socket,
            transport: Transport::new(Kind::WebSocket),
            context: TransportContext::new(endpoint, rand::random()),
            buffer: vec![0; 64 * 1024].into(),
            connection: String::new(),
            next_id: 0,
            received: Vec::new(),
        };
        client.transport.connected(Side::Main, &mut client.context);
        client.write()?;
        client.wait("the handshake", |received| {
            matches!(received, Received::Opened)
        })?;
        client.send(packet::write_connect)?;
        let connected = client.wait("the connection to the namespace", |received| {
            matches!(received, Received::Connected(_))
        })?;
        if let Received::Connected(connection) = connected {
            client.connection = connection;
        }
        Ok(client)
    }

    /// Returns the id of the connection.
    pub(super) fn connection(&self) -> &str {
        &self.connection
    }

    pub(super) fn join(
        &mut self,
        room: &str,
        user: &str,
        stamp: Option<Stamp>,
    ) -> anyhow::Result<JoinAnswer> {
        let join = JoinRequest {
            room_id: room,
            user_id: user,
            stamp,
            padding: 0,
            resume: None,
        };
        let answer = self.request("presence:join", |out, id| write_join(out, id, &join))?;
        Ok(answer.join)
    }

    pub(super) fn heartbeat(&mut self, stamp: Stamp, padding: usize) -> anyhow::Result<()> {
        let answer = self.request("presence:heartbeat", |out, id| {
            write_heartbeat(out, id, Some(stamp), None, padding);
        })?;
        ensure!(
            answer.has_changed == Some(true),
            "a heartbeat with a new state was answered without `changed`"
        );
        Ok(())
    }

    pub(super) fn leave(&mut self) -> anyhow::Result<()> {
        self.request("presence:leave", write_leave).map(drop)
    }

    /// Waits for an event of a user; others are left out.
    pub(super) fn expect_event(
        &mut self,
        kind: EventType,
        user: &str,
    ) -> anyhow::Result<SeenEvent> {
        let what = format!("the event {kind:?} of {user}");
        let seen = self.wait(&what, |received| {
            matches!(received, Received::Event(event) if event.kind == kind && event.user == user)
        })?;
        match seen {
            Received::Event(event) => Ok(event),
            _ => bail!("another message came instead of {what}"),
        }
    }

    fn request(
        &mut self,
        name: &str,
        write: impl FnOnce(&mut Vec<u8>, u64),
    ) -> anyhow::Result<Answer> {
        let id = self.next_id;
        self.next_id += 1;
        self.send(|out| write(out, id))?;
        let what = format!("the answer to {name}");
        let received = self.wait(
            &what,
            |received| matches!(received, Received::Ack(of, _) if *of == id),
        )?;
        let Received::Ack(_, answer) = received else {
            bail!("another message came instead of {what}");
        };
        match answer.refused {
            Some(why) => bail!("{name} was refused: {why}"),
            None => Ok(answer),
        }
    }

    fn send(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> anyhow::Result<()> {
        self.transport.send(&mut self.context, write);
        self.write()
    }

    fn write(&mut self) -> anyhow::Result<()> {
        let mut output = mem::take(&mut self.context.actions.output[0]);
        self.context.actions.clear();
        self.socket.write_all(&output).context("cannot send")?;
        self.socket.flush().context("cannot send")?;
        output.clear();
        self.context.actions.output[0] = output;
        Ok(())
    }

    /// Reads until a message is the one that is wanted, and takes it.
    fn wait(
        &mut self,
        what: &str,
        is_wanted: impl Fn(&Received) -> bool,
    ) -> anyhow::Result<Received> {
        let until = clock::now() + TIMEOUT.as_nanos() as u64;
        loop {
            if let Some(place) = self.received.iter().position(&is_wanted) {
                return Ok(self.received.remove(place));
            }
            let ended = self.received.iter().find_map(|received| match received {
                Received::Ended(why) => Some(why),
                _ => None,
            });
            if let Some(why) = ended {
                bail!("{why} instead of {what}");
            }
            ensure!(
                clock::now() < until,
                "{what} did not come within {TIMEOUT:?}"
            );
            self.read().with_context(|| format!("waiting for {what}"))?;
        }
    }

    fn read(&mut self) -> anyhow::Result<()> {
        let kept = self.transport.restore(Side::Main, &mut self.buffer);
        let length = match self.socket.read(&mut self.buffer[kept..]) {
            Ok(0) => bail!("the server closed the connection"),
            Ok(length) => kept + length,
            Err(error) if error.kind() == ErrorKind::Interrupted => kept,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                bail!("nothing came within {TIMEOUT:?}")
            }
            Err(error) => return Err(error.into()),
        };
        let mut taken = 0;
        loop {
            let input = &self.buffer[..length];
            let transport = &mut self.transport;
            match transport.next(Side::Main, input, &mut taken, &mut self.context)? {
                Some(event) => self.received.extend(read_event(event)?),
                None => break,
            }
        }
        self.transport.keep(Side::Main, &self.buffer[taken..length]);
        self.write()
    }
}

fn read_event(event: Event<'_>) -> anyhow::Result<Option<Received>> {
    Ok(match event {
        Event::Opened(_) => Some(Received::Opened),
        Event::Message(text) => read_message(&text)?,
        Event::Closed(how) => Some(Received::Ended(format!(
            "the server closed the session ({how:?})"
        ))),
        Event::Binary(_) | Event::Ping | Event::Upgraded => None,
    })
}

fn read_message(text: &str) -> anyhow::Result<Option<Received>> {
    Ok(match Incoming::parse(text)? {
        Incoming::Connected(id) => Some(Received::Connected(id.into_owned())),
        Incoming::Refused(why) => Some(Received::Ended(format!(
            "the namespace refused the connection ({why})"
        ))),
        Incoming::Disconnected => Some(Received::Ended(
            "the server ended the connection".to_owned(),
        )),
        Incoming::Ack(id, ack) => {
            let mut members = Vec::new();
            for member in ack.members() {
                let member = member?;
                members.push((
                    member.conn_id.into_owned(),
                    member.user_id.into_owned(),
                    member.stamp,
                ));
            }
            let error = ack.error.as_deref().unwrap_or("without a reason");
            let code = ack.code.as_deref().unwrap_or("no code");
            let answer = Answer {
                refused: (!ack.ok).then(|| format!("{error} ({code})")),
                has_changed: ack.changed,
                join: JoinAnswer {
                    seq: ack.seq,
                    members,
                },
            };
            Some(Received::Ack(id, answer))
        }
        Incoming::Presence(event) => Some(Received::Event(SeenEvent {
            kind: event.kind,
            user: event.user_id.into_owned(),
            room: event.room_id.into_owned(),
            connection: event.conn_id.into_owned(),
            stamp: event.stamp,
        })),
        Incoming::Other => None,
    })
}
