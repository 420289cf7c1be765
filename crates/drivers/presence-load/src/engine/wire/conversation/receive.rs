//! Messages of the application: answers, pushes, and attachments.

use load::slots::Id;

use super::{Cx, values};
use crate::conversation::{ServerMessage, read};
use crate::engine::wire::Wire;
use crate::engine::wire::requests::{Request, RequestKind};
use crate::outcome::{self, count};
use crate::protocol::ProtocolError;

impl<'a> Wire<'a> {
    /// Handles a message of the server.
    pub(in crate::engine::wire) fn receive_message(
        &mut self,
        id: Id,
        text: &str,
        now: u64,
        cx: &mut Cx<'a>,
    ) {
        if let Err(error) = self.try_receive(id, text, now, cx) {
            self.fail_protocol(id, error, cx);
        }
    }

    /// Handles a binary message: of a plain WebSocket, or an attachment.
    pub(in crate::engine::wire) fn receive_binary(
        &mut self,
        id: Id,
        bytes: &[u8],
        now: u64,
        cx: &mut Cx<'a>,
    ) {
        if self.users.shared().is_plain() {
            // Bytes are no value that a pointer finds.
            let text = std::str::from_utf8(bytes).unwrap_or_default();
            return self.receive_message(id, text, now, cx);
        }
        let user = cx.connections.get_mut(id).map(|connection| connection.user);
        let missing = user.zip(self.conversations.as_mut());
        let missing = missing.and_then(|(user, own)| own.take_attachment(user, bytes));
        match missing {
            None => self.users.counts.add(count::IGNORED, 1),
            Some(None) => {}
            Some(Some(text)) => self.receive_message(id, &text, now, cx),
        }
    }

    fn try_receive(
        &mut self,
        id: Id,
        text: &str,
        now: u64,
        cx: &mut Cx<'a>,
    ) -> Result<(), ProtocolError> {
        let (Some(connection), Some(conversations)) =
            (cx.connections.get_mut(id), &mut self.conversations)
        else {
            return Ok(());
        };
        let user = connection.user;
        if conversations.conversation.is_plain() {
            return self.receive_event(id, user, (None, text), now, cx);
        }
        match read(text, &self.transports[0].endpoint.access.namespace)? {
            ServerMessage::Event(name, event) => {
                self.receive_event(id, user, (Some(&name), event), now, cx)?
            }
            ServerMessage::Ack(number, arguments) => {
                let request = u32::try_from(number).ok();
                let request =
                    request.and_then(|id| self.requests.take(&mut connection.requests, id));
                match request {
                    Some(request) => self.answered(id, user, &request, arguments, now, cx)?,
                    None => self.unexpected_ack(id, number, cx),
                }
            }
            ServerMessage::Incomplete => conversations.hold(user, text),
            ServerMessage::Connected(object) => {
                conversations.connected(user, object);
                self.begin_steps(id, user, now, cx);
            }
            ServerMessage::Refused(why) => self.refused(id, user, why, cx),
            ServerMessage::Disconnected => self.lose(id, outcome::CONNECTION_LOST, cx),
            ServerMessage::Other => self.users.counts.add(count::IGNORED, 1),
        }
        Ok(())
    }

    /// Handles an event of Socket.IO, with its name, or a message of a plain WebSocket: a push, or an answer.
    fn receive_event(
        &mut self,
        id: Id,
        user: u32,
        (name, event): (Option<&str>, &str),
        now: u64,
        cx: &mut Cx<'a>,
    ) -> Result<(), ProtocolError> {
        let Some(conversations) = &self.conversations else {
            return Ok(());
        };
        let conversation = conversations.conversation;
        let rule = conversation.fan_out.as_ref();
        let rule = rule.filter(|rule| rule.event.as_deref() == name);
        let origin = match rule.map(|rule| rule.origin(event)) {
            Some(Ok(origin)) => origin,
            // Messages of a plain WebSocket need not be JSON.
            Some(Err(error)) if name.is_some() => return Err(error),
            _ => None,
        };
        let mut is_known = origin.is_some();
        let is_push = is_known || rule.is_some() && name.is_some();
        self.users.counts.add(count::EVENTS, u64::from(is_push));
        if let Some((sender, number)) = origin {
            self.users.pushed(user, (&sender, number), now, &cx.state);
        }
        if name.is_none() || conversation.expects_events {
            is_known |= self.answer_with(id, user, event, name, now, cx)?;
        }
        self.users.counts.add(count::IGNORED, u64::from(!is_known));
        Ok(())
    }

    /// Ends the request that a message answers: the oldest one that it fits. Returns false if there is none.
    fn answer_with(
        &mut self,
        id: Id,
        user: u32,
        message: &str,
        name: Option<&str>,
        now: u64,
        cx: &mut Cx<'a>,
    ) -> Result<bool, ProtocolError> {
        let (Some(connection), Some(conversations)) =
            (cx.connections.get_mut(id), &self.conversations)
        else {
            return Ok(false);
        };
        if connection.requests.is_empty() {
            return Ok(false);
        }
        let number = conversations.conversation.answered_number(message);
        let request = (self.requests).take_where(&mut connection.requests, |request| {
            let is_its = number.is_none_or(|number| u64::from(request.change.n) == number);
            is_its && conversations.answers(user, request, message, name)
        });
        match request {
            Some(request) => self
                .answered(id, user, &request, message, now, cx)
                .map(|()| true),
            None => Ok(false),
        }
    }

    /// Ends a request with its answer.
    fn answered(
        &mut self,
        id: Id,
        user: u32,
        request: &Request,
        answer: &str,
        now: u64,
        cx: &mut Cx<'a>,
    ) -> Result<(), ProtocolError> {
        let Some((conversations, step)) = self.conversations.as_mut().and_then(|conversations| {
            conversations
                .step(request.kind)
                .map(|step| (conversations, step))
        }) else {
            return Ok(());
        };
        let own = &mut conversations.users[user as usize];
        let outcome = if step.fits(answer, values(own, request.change.n))? {
            step.capture(answer, &mut own.values)
        } else {
            Err(outcome::ANSWER_WRONG)
        };
        match (request.kind, outcome) {
            (RequestKind::Start(index), Ok(())) => {
                self.start_from(index + 1, id, user, request.change.at, cx);
            }
            (RequestKind::Start(_), Err(kind)) => {
                self.users.debug(user, &format!("{}: {answer}", step.field));
                self.lose(id, kind, cx);
            }
            (_, outcome) => {
                let think = step.think.as_ref();
                let state = &mut cx.state;
                (self.users).end_operation(user, request.change, outcome, (now, think), state);
            }
        }
        Ok(())
    }
}
