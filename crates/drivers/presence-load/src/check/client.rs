//! A blocking client over the transport of a run.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::mem;
use std::os::fd::AsFd as _;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use load::clock;
use load::net::dial::connect_within;
use load::plan::Invalid;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tls_client::{Socket, describe, remedy, tls_error};

use super::TIMEOUT;
use crate::conversation::{Incomplete, ServerMessage, Step, read};
use crate::protocol::packet;
use crate::protocol::presence::{
    Ack, EventType, Incoming, JoinRequest, Stamp, write_heartbeat, write_join, write_leave,
};
use crate::protocol::transport::{Endpoint, Event, Kind, Side, Transport, TransportContext};
use crate::settings::Settings;
use crate::shared::{Server, Shared};

/// A client that is connected to the namespace.
#[derive(Debug)]
pub(super) struct Client<'a> {
    server: &'a Server,
    /// The connections of TCP, by side.
    sockets: [Option<Socket>; 3],
    transport: Transport,
    context: TransportContext,
    buffer: Box<[u8]>,
    /// Maximum time for each answer.
    pub(super) timeout: Duration,
    /// True without Socket.IO.
    is_plain: bool,
    connection: String,
    next_id: u64,
    is_open: bool,
    is_upgraded: bool,
    /// The messages that nobody has waited for yet.
    messages: Vec<String>,
    /// A message whose attachments have not all come, and how many are missing.
    incomplete: Option<Incomplete>,
    /// True if the bytes of attachments are compared.
    pub(super) compares_bytes: bool,
    /// True once a binary message has come, which only a plain WebSocket takes.
    has_binary: bool,
    /// Why the server ended the session.
    end_reason: Option<String>,
}

/// The answer to a join.
#[derive(Debug)]
pub(super) struct JoinedRoom {
    pub(super) seq: Option<u64>,
    /// Connection, user and stamp of each member.
    pub(super) members: Vec<(String, String, Option<Stamp>)>,
}

/// An event.
#[derive(Debug)]
pub(super) struct SeenEvent {
    pub(super) room: String,
    pub(super) connection: String,
    pub(super) stamp: Option<Stamp>,
}

impl<'a> Client<'a> {
    /// Connects to the namespace of a server, as its user reaches it.
    ///
    /// # Errors
    /// No connection, or no Socket.IO server, with the remedy.
    pub(super) fn connect(
        server: &'a Server,
        endpoint: Endpoint,
        shared: &Shared,
    ) -> anyhow::Result<Self> {
        Self::connect_over(
            server,
            endpoint,
            shared.transport(),
            (shared.settings(), shared.is_plain()),
        )
    }

    /// Connects over this transport, as the settings say.
    pub(super) fn connect_over(
        server: &'a Server,
        endpoint: Endpoint,
        transport: Transport,
        (settings, is_plain): (&Settings, bool),
    ) -> anyhow::Result<Self> {
        let mut client = Self {
            server,
            sockets: [Some(dial(server)?), None, None],
            transport,
            timeout: settings.connect_timeout,
            is_plain,
            context: TransportContext::new(endpoint, rand::random()),
            buffer: vec![0; 64 * 1024].into(),
            connection: String::new(),
            next_id: 0,
            is_open: false,
            is_upgraded: false,
            messages: Vec::new(),
            incomplete: None,
            compares_bytes: false,
            has_binary: false,
            end_reason: None,
        };
        client
            .open(settings.transport)
            .map_err(|error| wrong(server, client.no_session(&error)))?;
        client.timeout = TIMEOUT;
        Ok(client)
    }

    fn open(&mut self, transport: Kind) -> anyhow::Result<()> {
        self.transport.connected(Side::Main, &mut self.context);
        self.perform()?;
        self.wait("the handshake", |client| Ok(client.is_open.then_some(())))?;
        if self.is_plain {
            return Ok(());
        }
        if transport == Kind::Upgrade {
            let is_upgraded = |client: &mut Self| Ok(client.is_upgraded.then_some(()));
            self.wait("the upgrade to WebSocket", is_upgraded)?;
        }
        let auth = self.context.endpoint.access.auth.clone();
        self.send(|out| packet::write_connect(out, &auth))?;
        let what = "the connection to the namespace";
        self.connection = self.wait_for(what, |incoming| match incoming {
            Incoming::Connected(connection) => Some(connection.into_owned()),
            _ => None,
        })?;
        Ok(())
    }

    /// Returns the number of the next acknowledgement.
    pub(super) fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Sends a step of a conversation with this text; `number` is the number of its acknowledgement.
    pub(super) fn send_step(
        &mut self,
        step: &Step,
        number: Option<u32>,
        text: &[u8],
    ) -> anyhow::Result<()> {
        step.send(&mut self.transport, &mut self.context, number, text);
        self.perform()
    }

    /// Reads until there is a message that `take` takes, which is called once for each. Others stay for later.
    pub(super) fn take_message<T>(
        &mut self,
        what: &str,
        mut take: impl FnMut(&str) -> Option<T>,
    ) -> anyhow::Result<T> {
        let mut seen = 0;
        self.wait(what, |client| {
            while let Some(message) = client.messages.get(seen) {
                if let Some(taken) = take(message) {
                    client.messages.remove(seen);
                    return Ok(Some(taken));
                }
                seen += 1;
            }
            Ok(None)
        })
    }

    /// Returns the messages that nobody has waited for yet.
    pub(super) fn messages(&self) -> &[String] {
        &self.messages
    }

    /// Returns the message whose attachments have not all come, and how many are missing.
    pub(super) fn incomplete(&self) -> Option<(&str, u32)> {
        let incomplete = self.incomplete.as_ref();
        incomplete.map(|incomplete| (incomplete.text.as_str(), incomplete.missing))
    }

    /// Returns true if a binary message has come that nobody waits for.
    pub(super) fn has_binary(&self) -> bool {
        self.has_binary
    }

    /// Returns why the server ended the session, if it did.
    pub(super) fn end_reason(&self) -> Option<&str> {
        self.end_reason.as_deref()
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
    ) -> anyhow::Result<JoinedRoom> {
        let join = JoinRequest {
            room_id: room,
            user_id: user,
            stamp,
            padding: 0,
        };
        let write = |out: &mut Vec<u8>, id| write_join(out, id, &join);
        self.request("presence:join", write, |ack| {
            let members = ack.members()?.into_iter().map(|member| {
                let (connection, user) = (member.conn_id.into_owned(), member.user_id.into_owned());
                (connection, user, member.stamp)
            });
            Ok(JoinedRoom {
                seq: ack.seq,
                members: members.collect(),
            })
        })
    }

    pub(super) fn heartbeat(&mut self, stamp: Stamp, padding: usize) -> anyhow::Result<()> {
        let write = |out: &mut Vec<u8>, id| write_heartbeat(out, id, Some(stamp), None, padding);
        self.request("presence:heartbeat", write, |ack| {
            ensure!(
                ack.changed == Some(true),
                "a heartbeat with a new state was answered without `changed`"
            );
            Ok(())
        })
    }

    pub(super) fn leave(&mut self) -> anyhow::Result<()> {
        self.request("presence:leave", write_leave, |_| Ok(()))
    }

    /// Waits for an event of a user; others are left out.
    pub(super) fn expect_event(
        &mut self,
        kind: EventType,
        user: &str,
    ) -> anyhow::Result<SeenEvent> {
        let what = format!("the event {kind:?} of {user}");
        self.wait_for(&what, |incoming| match incoming {
            Incoming::Presence(event) if event.kind == kind && event.user_id == user => {
                Some(SeenEvent {
                    room: event.room_id.into_owned(),
                    connection: event.conn_id.into_owned(),
                    stamp: event.stamp,
                })
            }
            _ => None,
        })
    }

    /// Sends a request, and reads its answer with `read`.
    fn request<T>(
        &mut self,
        name: &str,
        write: impl FnOnce(&mut Vec<u8>, u64),
        read: impl Fn(&Ack<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let id = self.take_id();
        self.send(|out| write(out, id))?;
        let answer = self.wait_for(
            &format!("the answer to {name}"),
            |incoming| match incoming {
                Incoming::Ack(of, ack) if of == id && ack.ok => Some(read(&ack)),
                Incoming::Ack(of, ack) if of == id => {
                    let error = ack.error.as_deref().unwrap_or("without a reason");
                    let code = ack.code.as_deref().unwrap_or("no code");
                    Some(Err(anyhow!("{name} was refused: {error} ({code})")))
                }
                _ => None,
            },
        );
        answer.map_err(|error| wrong(self.server, format!("{error:#}: {PROTOCOL}")))?
    }

    fn send(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> anyhow::Result<()> {
        self.transport.send(&mut self.context, write);
        self.perform()
    }

    /// Performs the actions that the transport asks for, and those that follow from them.
    fn perform(&mut self) -> anyhow::Result<()> {
        loop {
            let actions = mem::take(&mut self.context.actions);
            let mut opened = Vec::new();
            for side in Side::ALL {
                let socket = &mut self.sockets[side as usize];
                let output = &actions.output[side as usize];
                if actions.open[side as usize] {
                    *socket = Some(dial(self.server)?);
                    opened.push(side);
                }
                if let Some(socket) = socket.as_mut().filter(|_| !output.is_empty()) {
                    socket.write_all(output).context("cannot send")?;
                    socket.flush().context("cannot send")?;
                }
                if actions.close[side as usize] && !actions.open[side as usize] {
                    *socket = None;
                }
            }
            if opened.is_empty() {
                return Ok(());
            }
            for side in opened {
                self.transport.connected(side, &mut self.context);
            }
        }
    }

    /// Reads until there is a message that `take` takes. Others stay for later.
    fn wait_for<T>(
        &mut self,
        what: &str,
        take: impl Fn(Incoming<'_>) -> Option<T>,
    ) -> anyhow::Result<T> {
        let namespace = &self.server.endpoint.access.namespace;
        self.wait(what, |client| {
            for index in 0..client.messages.len() {
                let incoming = Incoming::parse_in(&client.messages[index], namespace)?;
                if let Some(taken) = take(incoming) {
                    client.messages.remove(index);
                    return Ok(Some(taken));
                }
            }
            Ok(None)
        })
    }

    /// Reads until `find` returns something.
    fn wait<T>(
        &mut self,
        what: &str,
        mut find: impl FnMut(&mut Self) -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<T> {
        let timeout = self.timeout;
        let until = clock::now() + timeout.as_nanos() as u64;
        loop {
            if let Some(value) = find(self)? {
                return Ok(value);
            }
            if let Some(why) = &self.end_reason {
                bail!("{why} instead of {what}");
            }
            ensure!(
                clock::now() < until,
                "{what} did not come within {timeout:?}"
            );
            self.read().with_context(|| format!("waiting for {what}"))?;
        }
    }

    /// Reads what the next side has that has anything.
    fn read(&mut self) -> anyhow::Result<()> {
        let side = self.wait_for_side()?;
        let Some(socket) = &mut self.sockets[side as usize] else {
            return Ok(());
        };
        let kept = self.transport.restore(side, &mut self.buffer);
        let length = match socket.read(&mut self.buffer[kept..]) {
            Ok(0) => return self.ended(side),
            Ok(length) => kept + length,
            Err(error) if error.kind() == ErrorKind::Interrupted => kept,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                bail!("nothing came within {:?}", self.timeout)
            }
            Err(error) => return Err(error.into()),
        };
        let mut taken = 0;
        loop {
            let input = &self.buffer[..length];
            let transport = &mut self.transport;
            match transport.next(side, input, &mut taken, &mut self.context)? {
                Some(Event::Opened) => self.is_open = true,
                Some(Event::Upgraded) => self.is_upgraded = true,
                Some(Event::Message(text)) if self.is_plain => {
                    self.messages.push(text.into_owned())
                }
                Some(Event::Binary(bytes)) if self.is_plain => {
                    self.messages
                        .push(String::from_utf8_lossy(&bytes).into_owned());
                }
                Some(Event::Message(text)) => {
                    let namespace = &self.server.endpoint.access.namespace;
                    match read(&text, namespace)? {
                        ServerMessage::Refused(why) => {
                            self.end_reason = Some(format!("{NOT_ADMITTED} ({why})"));
                        }
                        ServerMessage::Disconnected => {
                            self.end_reason = Some("the server ended the connection".to_owned());
                        }
                        ServerMessage::Incomplete => self.incomplete = Incomplete::parse(&text),
                        _ => self.messages.push(text.into_owned()),
                    }
                }
                Some(Event::Closed(how)) => {
                    self.end_reason = Some(format!("the server closed the session ({how:?})"));
                }
                Some(Event::Binary(bytes)) => match &mut self.incomplete {
                    None => self.has_binary = true,
                    Some(held) => {
                        if held.add(&bytes)
                            && let Some(held) = self.incomplete.take()
                        {
                            self.messages.push(held.into_text(self.compares_bytes));
                        }
                    }
                },
                Some(Event::Ping) => {}
                None => break,
            }
        }
        self.transport.keep(side, &self.buffer[taken..length]);
        self.perform()
    }

    /// Returns a side that has bytes, or has ended.
    fn wait_for_side(&self) -> anyhow::Result<Side> {
        let open = Side::ALL.into_iter().zip(&self.sockets);
        let open: Vec<(Side, &Socket)> = open
            .filter_map(|(side, socket)| socket.as_ref().map(|socket| (side, socket)))
            .collect();
        let mut polled: Vec<PollFd<'_>> = open
            .iter()
            .map(|(_, socket)| PollFd::new(socket.as_fd(), PollFlags::POLLIN))
            .collect();
        loop {
            match poll(&mut polled, PollTimeout::try_from(self.timeout)?) {
                Err(Errno::EINTR) => {}
                polled => break polled.map(drop)?,
            }
        }
        let ready = polled.iter().position(|polled| polled.any() == Some(true));
        let ready = ready.with_context(|| format!("nothing came within {:?}", self.timeout))?;
        Ok(open[ready].0)
    }

    /// Handles the end of a side. Polling clients may open it again.
    fn ended(&mut self, side: Side) -> anyhow::Result<()> {
        self.sockets[side as usize] = None;
        let ended = self.transport.ended(side, &mut self.context);
        ensure!(ended.is_none(), "the server closed the connection");
        self.perform()
    }
}

/// The remedy if a server of Socket.IO does not answer a request.
const PROTOCOL: &str = "give the URL of a server of the presence protocol (presence:join, presence:heartbeat, …); other events of Socket.IO are not supported. The protocol is described in crates/subjects/presence-daemon/PROTOCOL.md of the sources, installed as share/doc/drover/presence-protocol.md";
/// The start of the reason if the server does not admit clients to the namespace.
const NOT_ADMITTED: &str = "the namespace refused the connection";

/// The message with which Socket.IO refuses a namespace that is not there.
const UNKNOWN_NAMESPACE: &str = "Invalid namespace";

/// The statuses with which a server refuses the handshake of a client that it does not know.
const REFUSALS: [&str; 2] = ["Status(401)", "Status(403)"];

impl Client<'_> {
    /// Describes why no session could be opened, with the remedy.
    fn no_session(&self, error: &anyhow::Error) -> String {
        let server = self.server;
        // The scheme with and without TLS, in the words of the URL.
        let (secure, open, no_tls) = if server.shown.to_ascii_lowercase().starts_with("ws") {
            (
                "wss://",
                "ws://",
                "check that the port uses TLS, or write ws://",
            )
        } else {
            (
                "https://",
                "http://",
                "check that the port uses TLS, or write http://",
            )
        };
        // A server without TLS may close the connection without a word.
        let schemes = match server.tls {
            Some(_) => format!("{open} if it does not use TLS"),
            None => format!("{secure} if it uses TLS"),
        };
        let io = error.root_cause().downcast_ref::<io::Error>();
        let (problem, remedy) = match io.filter(|io| tls_error(io).is_some()) {
            Some(io) => (describe(io), remedy(io, no_tls)),
            None if format!("{error:#}").contains(UNKNOWN_NAMESPACE) => (
                format!("{error:#}"),
                "name one that the server has with --namespace (driver.namespace)",
            ),
            None if format!("{error:#}").contains(NOT_ADMITTED) => (
                format!("{error:#}"),
                "give what it asks for with --auth (driver.auth), --header (driver.headers) or --namespace",
            ),
            None if REFUSALS
                .iter()
                .any(|status| format!("{error:#}").contains(status)) =>
            {
                (
                    format!("{error:#}"),
                    "give what it asks for with --header (driver.headers) or driver.conversation.query",
                )
            }
            None if self.is_open && !self.is_plain => (
                format!("does not answer as a Socket.IO server ({error:#})"),
                "correct --namespace (driver.namespace) and --auth (driver.auth), or look into the server's log",
            ),
            _ if self.is_plain => (
                format!("does not answer as a WebSocket server ({error:#})"),
                &*format!(
                    "give the URL of one, with its path, and {schemes}, what it asks for with driver.headers and driver.subprotocols, or set driver.conversation.protocol = \"socket.io\""
                ),
            ),
            _ => (
                format!("does not answer as a Socket.IO server ({error:#})"),
                &*format!(
                    "give the URL of one, with its path if that is not /socket.io/, {schemes}, and the --transport that it serves"
                ),
            ),
        };
        format!("{problem}: {remedy}")
    }
}

fn dial(server: &Server) -> anyhow::Result<Socket> {
    let stream = connect_within(&server.peer, TIMEOUT).map_err(|error| {
        let problem = format!(
            "cannot connect to {} ({error}): start the server, correct the URL, or leave it out to have a server launched",
            server.peer
        );
        wrong(server, problem)
    })?;
    Ok(Socket::new(stream, server.tls.as_ref())?)
}

fn wrong(server: &Server, problem: String) -> Invalid {
    Invalid::new(format!("URL {}", server.shown), problem)
}
