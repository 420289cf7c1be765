//! A session from the handshake to the join, and the messages of the server.

use load::clock;
use load::slots::Id;

use super::requests::{Request, RequestKind};
use super::{Cx, Wire};
use crate::outcome::{self, count};
use crate::protocol::packet;
use crate::protocol::presence::{
    Ack, Incoming, JoinRequest, Stamp, write_heartbeat, write_join, write_leave,
};
use crate::protocol::transport::{Closed, Event};
use crate::roles::population::Behaviour;
use crate::roles::{Change, ConnectionEnd, JoinAnswer, Phase};
use crate::spec::JOIN;

impl<'a> Wire<'a> {
    /// Handles an event of a transport that came at `now`.
    pub(super) fn handle(&mut self, id: Id, event: Event<'_>, now: u64, cx: &mut Cx<'a>) {
        match event {
            Event::Opened if self.users.shared().is_plain() => {
                if let Some(connection) = cx.connections.get_mut(id) {
                    let user = connection.user;
                    self.begin_steps(id, user, now, cx);
                }
            }
            Event::Opened => {
                self.pinged(id, now, cx);
                let auth = self.auth(id, cx);
                self.send(id, |out| packet::write_connect(out, &auth), cx);
            }
            Event::Message(text) if self.conversations.is_some() => {
                self.receive_message(id, &text, now, cx)
            }
            // Clients have the same credentials at all servers.
            Event::Message(text) => {
                match Incoming::parse_in(&text, &self.transports[0].endpoint.access.namespace) {
                    Ok(incoming) => self.incoming(id, incoming, now, cx),
                    Err(error) => self.fail_protocol(id, error, cx),
                }
            }
            Event::Binary(bytes) => self.receive_binary(id, &bytes, now, cx),
            Event::Ping => self.pinged(id, now, cx),
            Event::Upgraded => {}
            Event::Closed(Closed::Status(_)) => self.lose(id, outcome::STATUS, cx),
            Event::Closed(_) => self.lose(id, outcome::CONNECTION_LOST, cx),
        }
    }

    fn pinged(&mut self, id: Id, now: u64, cx: &mut Cx<'a>) {
        if let Some(connection) = cx.connections.get_mut(id) {
            connection.pinged = now;
        }
    }

    fn incoming(&mut self, id: Id, incoming: Incoming<'_>, now: u64, cx: &mut Cx<'a>) {
        let Some(connection) = cx.connections.get_mut(id) else {
            return;
        };
        let user = connection.user;
        match incoming {
            Incoming::Presence(event) => self.users.event(user, &event, now, &cx.state),
            Incoming::Ack(number, ack) => {
                let request = u32::try_from(number).ok();
                let request =
                    request.and_then(|id| self.requests.take(&mut connection.requests, id));
                match request {
                    Some(request) => self.acknowledged(id, user, &request, &ack, now, cx),
                    None => self.unexpected_ack(id, number, cx),
                }
            }
            Incoming::Connected(sid) => self.connected(id, user, &sid, now, cx),
            Incoming::Refused(why) => self.refused(id, user, why, cx),
            Incoming::Disconnected => self.lose(id, outcome::CONNECTION_LOST, cx),
            Incoming::Other => self.users.counts.add(count::IGNORED, 1),
        }
    }

    /// Ends a connection that the namespace has refused.
    #[cold]
    pub(super) fn refused(&mut self, id: Id, user: u32, why: &str, cx: &mut Cx<'a>) {
        let text = format!("the namespace refused the connection: {why}");
        self.users.debug(user, &text);
        self.lose(id, outcome::NAMESPACE, cx);
    }

    /// Counts an acknowledgement that no request waits for.
    #[cold]
    pub(super) fn unexpected_ack(&mut self, id: Id, number: u64, cx: &mut Cx<'a>) {
        let Some(connection) = cx.connections.get_mut(id) else {
            return;
        };
        if !connection.has_sent(number) {
            self.users.counts.add(count::UNKNOWN_ACKS, 1);
        } else if connection.overdue > 0 {
            connection.overdue -= 1;
            self.users.counts.add(count::LATE_ACKS, 1);
        } else {
            self.users.counts.add(count::DUPLICATE_ACKS, 1);
        }
    }

    /// Joins, once the namespace is connected.
    fn connected(&mut self, id: Id, user: u32, sid: &str, now: u64, cx: &mut Cx<'a>) {
        if self.users.user(user).phase != Phase::Connecting {
            self.users.counts.add(count::IGNORED, 1);
            return;
        }
        self.users.connected(user, Some(sid), now, &cx.state);
        self.join(id, user, cx);
    }

    /// Sends a request of a user, and remembers it until its acknowledgement.
    #[inline]
    pub(super) fn request(
        &mut self,
        id: Id,
        kind: RequestKind,
        change: Change,
        write: impl FnOnce(&mut Vec<u8>, u64),
        cx: &mut Cx<'a>,
    ) {
        let Some(connection) = cx.connections.get_mut(id) else {
            return;
        };
        self.users.touch(connection.user, change.sent);
        let number = connection.take_id();
        let request = Request {
            kind,
            id: number,
            change,
        };
        self.requests.push(&mut connection.requests, request);
        self.send(id, |out| write(out, number.into()), cx);
    }

    /// Sends the join of a user.
    fn join(&mut self, id: Id, user: u32, cx: &mut Cx<'a>) {
        let now = clock::now();
        let n = self.users.begin_join(user, now);
        let names = self.users.part().names(user);
        let join = JoinRequest {
            room_id: &names.room,
            user_id: &names.user,
            stamp: Some(Stamp {
                n: u64::from(n),
                t: now,
            }),
            padding: 0,
        };
        let write = |out: &mut Vec<u8>, id| write_join(out, id, &join);
        self.request(id, RequestKind::Join, Change::none(now), write, cx);
    }

    fn acknowledged(
        &mut self,
        id: Id,
        user: u32,
        request: &Request,
        ack: &Ack<'_>,
        now: u64,
        cx: &mut Cx<'a>,
    ) {
        let sent = request.change.sent;
        match request.kind {
            RequestKind::Heartbeat => self.heartbeat_acknowledged(id, user, request, ack, now, cx),
            RequestKind::KeepAlive if !ack.ok => self.renew(id, user, ack.code.as_deref(), cx),
            RequestKind::KeepAlive => self.users.check_epoch(user, sent, ack.epoch),
            RequestKind::Join => self.join_acknowledged(id, user, sent, ack, now, cx),
            RequestKind::Leave => self.leave_acknowledged(id, user, sent, ack, now, cx),
            // Requests of a conversation.
            RequestKind::Start(_) | RequestKind::Step(_) => {}
        }
    }

    fn join_acknowledged(
        &mut self,
        id: Id,
        user: u32,
        sent: u64,
        ack: &Ack<'_>,
        now: u64,
        cx: &mut Cx<'a>,
    ) {
        if !ack.ok {
            let why = ack.error.as_deref().unwrap_or("without a reason");
            self.users
                .debug(user, &format!("the join was refused: {why}"));
            let kind = outcome::join_rejected(ack.code.as_deref());
            return self.lose(id, kind, cx);
        }
        let answer = JoinAnswer {
            connection: ack.self_conn_id.as_deref(),
            epoch: ack.self_epoch.unwrap_or(0),
            seq: ack.seq,
            is_degraded: ack.degraded,
            sent,
            now,
        };
        let members = match ack.members() {
            Ok(members) => members,
            Err(error) => return self.fail_protocol(id, error, cx),
        };
        self.users.joined(user, answer, members, &mut cx.state);
        cx.state.record.value(JOIN, now - sent);
        if self.users.user(user).behaviour == Behaviour::HalfOpen
            && let Some(connection) = cx.connections.get_mut(id)
        {
            connection.transport.ignore_pings();
        }
    }

    /// Joins again after the server has removed the member.
    pub(super) fn renew(&mut self, id: Id, user: u32, code: Option<&str>, cx: &mut Cx<'a>) {
        // Of several heartbeats that are refused, the first joins again.
        if self.users.suspend(user) {
            self.users.counts.add(count::EXPIRED, 1);
            let code = code.unwrap_or("refused without a code");
            self.users.debug(user, &format!("joins again: {code}"));
            self.join(id, user, cx);
        }
    }

    /// Sends a heartbeat without a change, which keeps the membership alive.
    pub(super) fn keep_alive(&mut self, id: Id, user: u32, cx: &mut Cx<'a>) {
        let now = clock::now();
        self.users.counts.add(count::HEARTBEATS, 1);
        self.users.counts.add(count::KEEP_ALIVES, 1);
        let write = |out: &mut Vec<u8>, id| write_heartbeat(out, id, None, None, 0);
        self.request(id, RequestKind::KeepAlive, Change::none(now), write, cx);
        // A slow consumer does not read the acknowledgement.
        if self.users.user(user).behaviour != Behaviour::Active
            && let Some(connection) = cx.connections.get_mut(id)
        {
            self.requests.take_first(&mut connection.requests);
        }
    }

    /// Sends the leave of a joined user.
    pub(super) fn leave(&mut self, user: u32, cx: &mut Cx<'a>) {
        if self.conversations.is_some() {
            return self.leave_conversation(user, cx);
        }
        let Some(id) = self.connections[user as usize] else {
            return;
        };
        self.users.begin_leave(user);
        let change = Change::none(clock::now());
        self.request(id, RequestKind::Leave, change, write_leave, cx);
    }

    fn leave_acknowledged(
        &mut self,
        id: Id,
        user: u32,
        sent: u64,
        ack: &Ack<'_>,
        now: u64,
        cx: &mut Cx<'a>,
    ) {
        if !ack.ok {
            self.users.debug(user, "the leave was refused");
            return self.lose(id, outcome::LEAVE_REJECTED, cx);
        }
        self.users.left(now - sent, &cx.state);
        if let Some(connection) = cx.connections.get_mut(id) {
            let transports = &mut self.transports[connection.server];
            connection.transport.close(transports);
        }
        self.perform(id, cx);
        self.disconnect(id, ConnectionEnd::Left, cx);
    }
}
