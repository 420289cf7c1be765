//! The users of a conversation: they send the steps of the plan, and read what the application answers and pushes.

use std::collections::HashMap;
use std::mem;

use load::clock;
use load::schedule::Share;
use load::slots::Id;
use traffic::{RowReader, Values};

mod receive;

use super::requests::{Request, RequestKind};
use super::{Cx, Wire};
use crate::conversation::{
    Answer, Conversation, Incomplete, Progress, ROOM, Step, USER, socket_id, values_of,
};
use crate::outcome::{self, count};
use crate::protocol::transport::Endpoint;
use crate::roles::population::{Behaviour, Part};
use crate::roles::{Change, ConnectionEnd, Phase};
use crate::spec::JOIN;

/// The conversation of one worker's users.
#[derive(Debug)]
pub(super) struct Conversations<'a> {
    conversation: &'a Conversation,
    rows: Option<RowReader>,
    /// The users' own rows.
    own_rows: Option<RowReader>,
    users: Vec<ConversationUser>,
    /// The message that is being sent.
    scratch: Vec<u8>,
    /// The message of each user whose attachments have not all come.
    incomplete: HashMap<u32, Incomplete>,
}

/// A user in a conversation.
#[derive(Debug)]
pub(super) struct ConversationUser {
    /// Its names, and the values that it has captured.
    values: Box<[Option<Box<[u8]>>]>,
    progress: Progress,
}

impl<'a> Conversations<'a> {
    pub(super) fn new(conversation: &'a Conversation, part: Part, share: Share) -> Self {
        let users = (0..part.users() as u32).map(|user| {
            let names = part.names(user);
            let mut values = vec![None; conversation.values];
            values[ROOM] = Some(names.room.into_bytes().into());
            values[USER] = Some(names.user.into_bytes().into());
            ConversationUser {
                values: values.into(),
                progress: conversation.progress(),
            }
        });
        let rows = conversation.rows.as_ref();
        Self {
            conversation,
            rows: rows.map(|rows| rows.reader(share, &conversation.columns)),
            own_rows: conversation.own_rows(),
            users: users.collect(),
            scratch: Vec::new(),
            incomplete: HashMap::new(),
        }
    }

    /// Takes the id of a user's connection from the object that a server of Socket.IO sent with it.
    fn connected(&mut self, user: u32, object: &str) {
        if let Some(socket) = self.conversation.socket {
            self.users[user as usize].values[socket] = socket_id(object);
        }
    }

    /// Holds a message until its attachments have come.
    #[cold]
    fn hold(&mut self, user: u32, text: &str) {
        if let Some(held) = Incomplete::parse(text) {
            self.incomplete.insert(user, held);
        }
    }

    /// Takes an attachment of the message that is held for a user, which is returned once all have come; `None` if none is
    /// held.
    #[expect(clippy::option_option, reason = "the two are told apart by the caller")]
    fn take_attachment(&mut self, user: u32, bytes: &[u8]) -> Option<Option<String>> {
        if !self.incomplete.get_mut(&user)?.add(bytes) {
            return Some(None);
        }
        let held = self.incomplete.remove(&user);
        held.map(|held| Some(held.into_text(self.conversation.compares_bytes)))
    }

    /// Forgets a message whose attachments can't come any more.
    pub(super) fn disconnect(&mut self, user: u32) {
        self.incomplete.remove(&user);
    }

    /// Fails once rows can't be read any more.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        let mut readers = self.rows.iter_mut().chain(&mut self.own_rows);
        let failure = readers.find_map(RowReader::take_failure);
        failure.map_or(Ok(()), |problem| Err(anyhow::anyhow!(problem)))
    }

    /// Prepares a user for a connection: takes its row, if it has none. Returns the server as it reaches it, if that differs
    /// from how others do.
    pub(super) fn connect(&mut self, user: u32, part: Part, server: &Endpoint) -> Option<Endpoint> {
        let own = &mut self.users[user as usize];
        if let Some(reader) = &mut self.own_rows {
            let index = part.index_of(user);
            (self.conversation).take_own_row(reader, index, &mut own.values);
        }
        let access = self.conversation.access.as_ref()?;
        Some(access.endpoint(server, values_of(&own.values, 0)))
    }

    /// Writes a step of a user into the buffer, with the next row.
    #[inline]
    fn write(&mut self, user: u32, step: &Step, number: u32) {
        if let (Some(reader), Some(rows), true) =
            (&mut self.rows, &self.conversation.rows, step.uses_rows)
        {
            reader.advance(rows);
        }
        let values = Values {
            row: self.rows.as_ref(),
            ..values(&self.users[user as usize], number)
        };
        self.scratch.clear();
        step.text.render(values, &mut self.scratch);
    }

    /// Returns true if a late answer to this request can be taken for the answer to a later one.
    pub(super) fn has_answers_in_order(&self, kind: RequestKind) -> bool {
        let is_by_number = self.conversation.answer_id.is_some();
        !is_by_number && self.step(kind).is_some_and(Step::has_answers_in_order)
    }

    /// Returns the step of a request.
    fn step(&self, kind: RequestKind) -> Option<&'a Step> {
        match kind {
            RequestKind::Start(index) => self.conversation.start.get(usize::from(index)),
            RequestKind::Step(index) => self.conversation.steps.get(usize::from(index)),
            _ => None,
        }
    }

    /// Returns true if a message answers a request.
    fn answers(&self, user: u32, request: &Request, event: &str, name: Option<&str>) -> bool {
        let Some(step) = self.step(request.kind) else {
            return false;
        };
        let is_it = match (&step.answer, name) {
            (Answer::Event(expected), Some(name)) => expected == name,
            (Answer::Message, None) => true,
            _ => false,
        };
        let values = values(&self.users[user as usize], request.change.n);
        // Another event of the same name may be the answer.
        is_it && step.fits(event, values) == Ok(true)
    }
}

fn values(user: &ConversationUser, number: u32) -> Values<'_> {
    values_of(&user.values, number)
}

impl<'a> Wire<'a> {
    /// Sends the next step of a user, which was due at `at`.
    pub(super) fn send_next(&mut self, user: u32, at: u64, cx: &mut Cx<'a>) {
        let now = clock::now();
        let id = self.connections[user as usize].filter(|_| self.users.user(user).can_send());
        let (Some(id), Some(conversations)) = (id, &mut self.conversations) else {
            let (never, outcome) = (Change { n: 0, at, sent: at }, Err(outcome::NOT_JOINED));
            return (self.users).end_heartbeat(user, never, outcome, now, &mut cx.state);
        };
        let own = &mut conversations.users[user as usize];
        let index = conversations
            .conversation
            .take_step(user, &mut own.progress);
        let kind = RequestKind::Step(index);
        let step = &conversations.conversation.steps[usize::from(index)];
        let n = if step.is_numbered {
            self.users.number(user, at)
        } else {
            0
        };
        self.users.counts.add(count::MESSAGES, 1);
        let change = Change { n, at, sent: now };
        if self.send_step(id, user, (step, kind), change, cx) && step.answer == Answer::None {
            self.end_operation(user, (kind, change), Ok(()), clock::now(), cx);
        }
    }

    /// Sends a step. Returns false if the connection has ended with it.
    fn send_step(
        &mut self,
        id: Id,
        user: u32,
        (step, kind): (&Step, RequestKind),
        change: Change,
        cx: &mut Cx<'a>,
    ) -> bool {
        let Some(conversations) = &mut self.conversations else {
            return false;
        };
        conversations.write(user, step, change.n);
        let message = mem::take(&mut conversations.scratch);
        let Some(connection) = cx.connections.get_mut(id) else {
            return false;
        };
        if step.answer == Answer::None {
            // Nothing waits for it, so that a connection that ends with it would end it twice.
            self.users.touch(user, change.sent);
        } else {
            let number = connection.take_id();
            self.users.touch(user, change.sent);
            let request = Request {
                kind,
                id: number,
                change,
            };
            self.requests.push(&mut connection.requests, request);
        }
        let number = (step.answer == Answer::Ack).then(|| connection.last_id());
        let transports = &mut self.transports[connection.server];
        step.send(&mut connection.transport, transports, number, &message);
        if let Some(conversations) = &mut self.conversations {
            conversations.scratch = message;
        }
        self.perform(id, cx);
        if step.answer == Answer::None && cx.connections.get_mut(id).is_none() {
            // A step of the load has begun, and its connection has nothing that would end it.
            if let RequestKind::Step(_) = kind {
                let outcome = Err(outcome::CONNECTION_LOST);
                self.end_operation(user, (kind, change), outcome, clock::now(), cx);
            }
            return false;
        }
        true
    }

    /// Ends an operation: its user pauses as its step says.
    #[inline]
    pub(super) fn end_operation(
        &mut self,
        user: u32,
        (kind, change): (RequestKind, Change),
        outcome: Result<(), &'static str>,
        now: u64,
        cx: &mut Cx<'a>,
    ) {
        let step = self.conversations.as_ref().and_then(|own| own.step(kind));
        let think = step.and_then(|step| step.think.as_ref());
        (self.users).end_operation(user, change, outcome, (now, think), &mut cx.state);
    }

    /// Returns the object that goes with a user's connection to the namespace.
    pub(super) fn auth(&self, id: Id, cx: &mut Cx<'a>) -> String {
        let connection = cx.connections.get_mut(id);
        let own = connection.zip(self.conversations.as_ref());
        let own = own.and_then(|(connection, conversations)| {
            let user = &conversations.users[connection.user as usize];
            let access = conversations.conversation.access.as_ref()?;
            Some(access.auth(values(user, 0)))
        });
        // Clients have the same credentials at all servers.
        own.unwrap_or_else(|| self.transports[0].endpoint.access.auth.clone())
    }

    /// Begins the first steps of a user, once it is connected.
    pub(super) fn begin_steps(&mut self, id: Id, user: u32, now: u64, cx: &mut Cx<'a>) {
        if self.users.user(user).phase != Phase::Connecting {
            self.users.counts.add(count::IGNORED, 1);
            return;
        }
        self.users.connected(user, None, now, &cx.state);
        if let Some(conversations) = &mut self.conversations {
            let own = &mut conversations.users[user as usize];
            conversations.conversation.begin_again(&mut own.progress);
        }
        self.users.begin_start(user, now);
        self.start_from(0, id, user, now, cx);
    }

    /// Sends the first steps from this one on, up to one that is answered. `begun` is the time of the first.
    fn start_from(&mut self, first: u16, id: Id, user: u32, begun: u64, cx: &mut Cx<'a>) {
        let Some(conversation) = self.conversations.as_ref().map(|own| own.conversation) else {
            return;
        };
        let steps = &conversation.start;
        for (index, step) in (first..).zip(&steps[usize::from(first)..]) {
            // The time of the first step goes on with each.
            let change = Change {
                n: 0,
                at: begun,
                sent: clock::now(),
            };
            let is_sent = self.send_step(id, user, (step, RequestKind::Start(index)), change, cx);
            if !is_sent || step.answer != Answer::None {
                return;
            }
        }
        let rule = conversation.fan_out.as_ref();
        if let (Some(name), Some(own)) = (
            rule.and_then(|rule| rule.name.as_ref()),
            &self.conversations,
        ) {
            let name = name.bytes(values(&own.users[user as usize], 0));
            self.users.announce(user, &String::from_utf8_lossy(&name));
        }
        let now = clock::now();
        self.users.started(user, now, &mut cx.state);
        cx.state.record.value(JOIN, (now - begun).max(1));
        if self.users.user(user).behaviour == Behaviour::HalfOpen
            && let Some(connection) = cx.connections.get_mut(id)
        {
            connection.transport.ignore_pings();
        }
    }

    /// Ends the connection of a user that leaves the conversation.
    pub(super) fn leave_conversation(&mut self, user: u32, cx: &mut Cx<'a>) {
        let Some(id) = self.connections[user as usize] else {
            return;
        };
        if let Some(connection) = cx.connections.get_mut(id) {
            let transports = &mut self.transports[connection.server];
            connection.transport.close(transports);
        }
        self.perform(id, cx);
        self.disconnect(id, ConnectionEnd::Left, cx);
    }
}
