//! A session from the handshake to the join, and the messages of the server.

use std::borrow::Cow;

use load::slots::Id;

use super::{Cx, Load};
use crate::outcome;
use crate::population::Behaviour;
use crate::protocol::packet;
use crate::protocol::presence::{
    Ack, Incoming, JoinRequest, PresenceEvent, Stamp, write_heartbeat, write_join,
};
use crate::protocol::transport::{Closed, Event};
use crate::requests::{Kind, Request};
use crate::series::{CONNECT, JOIN, PROPAGATION, RECONNECT};
use crate::users::{Memberships, Phase};

impl<'a> Load<'a> {
    /// Handles an event of a transport that came at `now`.
    pub(super) fn handle(&mut self, id: Id, event: Event<'_>, now: u64, cx: &mut Cx<'a>) {
        match event {
            Event::Opened(_) => {
                let auth = self.transports[0].endpoint.access.auth.clone();
                self.send(id, |out| packet::write_connect(out, &auth), cx);
            }
            // Clients have the same credentials at all servers.
            Event::Message(text) => {
                match Incoming::parse_in(&text, &self.transports[0].endpoint.access.namespace) {
                    Ok(incoming) => self.incoming(id, incoming, now, cx),
                    Err(error) => self.fail_protocol(id, error, cx),
                }
            }
            Event::Binary(_) => self.counts.ignored += 1,
            Event::Ping | Event::Upgraded => {}
            Event::Closed(Closed::Status(_)) => self.lose(id, outcome::STATUS, cx),
            Event::Closed(_) => self.lose(id, outcome::CONNECTION_LOST, cx),
        }
    }

    fn incoming(&mut self, id: Id, incoming: Incoming<'_>, now: u64, cx: &mut Cx<'a>) {
        let Some(user) = cx.connections.get_mut(id).map(|connection| connection.user) else {
            return;
        };
        match incoming {
            Incoming::Presence(event) => self.presence(user, &event, now, cx),
            Incoming::Ack(number, ack) => {
                let state = &mut self.users[user as usize];
                let request = u32::try_from(number).ok();
                let request =
                    request.and_then(|number| self.requests.take(&mut state.requests, number));
                match request {
                    Some(request) => self.acknowledged(id, user, &request, &ack, now, cx),
                    None => self.unexpected_ack(user, number),
                }
            }
            Incoming::Connected(sid) => self.connected(id, user, &sid, now, cx),
            Incoming::Refused(why) => {
                self.debug(
                    user,
                    &format!("the namespace refused the connection: {why}"),
                );
                self.lose(id, outcome::NAMESPACE, cx);
            }
            Incoming::Disconnected => self.lose(id, outcome::CONNECTION_LOST, cx),
            Incoming::Other => self.counts.ignored += 1,
        }
    }

    /// Counts an acknowledgement that no request waits for.
    #[cold]
    fn unexpected_ack(&mut self, user: u32, number: u64) {
        let state = &mut self.users[user as usize];
        if number >= u64::from(state.next_id) {
            self.counts.unknown_acks += 1;
        } else if state.overdue > 0 {
            state.overdue -= 1;
            self.counts.late_acks += 1;
        } else {
            self.counts.duplicate_acks += 1;
        }
    }

    fn presence(&mut self, user: u32, event: &PresenceEvent<'_>, now: u64, cx: &mut Cx<'a>) {
        let begun = self.audit.event(user, event, &self.users, now);
        // Stamps of keep-alives do not exist, and those of joins begin before the measured time.
        if let Some(at) = begun.filter(|at| cx.state.phases.counts(*at)) {
            cx.state.record.value(PROPAGATION, (now - at).max(1));
        }
    }

    /// Joins, once the namespace is connected.
    fn connected(&mut self, id: Id, user: u32, sid: &str, now: u64, cx: &mut Cx<'a>) {
        let state = self.user(user);
        if state.phase != Phase::Connecting {
            self.counts.ignored += 1;
            return;
        }
        state.sender.connect(sid);
        state.overdue = 0;
        cx.state.record.value(CONNECT, now - state.connecting_since);
        self.counts.connected += 1;
        self.join(id, user, cx);
    }

    /// Sends the join of a user.
    pub(super) fn join(&mut self, id: Id, user: u32, cx: &mut Cx<'a>) {
        let now = load::clock::now();
        self.audit.begin_join(user, &self.users);
        let state = &mut self.users[user as usize];
        state.phase = Phase::Joining;
        state.sender.join_stamp = now;
        state.sent = now;
        let (number, n) = (state.take_id(), state.sender.begin_join());
        let request = Request {
            kind: Kind::Join,
            id: number,
            n,
            at: now,
            sent: now,
        };
        self.requests.push(&mut state.requests, request);
        let mut names = std::mem::take(&mut self.names);
        self.part.write_names(user, &mut names);
        let join = JoinRequest {
            room_id: &names.room,
            user_id: &names.user,
            stamp: Some(Stamp {
                n: u64::from(n),
                t: now,
            }),
            padding: 0,
            resume: None,
        };
        self.send(id, |out| write_join(out, u64::from(number), &join), cx);
        self.names = names;
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
        match request.kind {
            Kind::Heartbeat => self.heartbeat_acknowledged(id, user, request, ack, now, cx),
            Kind::KeepAlive if !ack.ok => self.renew(id, user, ack.code.as_deref(), cx),
            Kind::KeepAlive => self.check_epoch(user, request, ack),
            Kind::Join => self.join_acknowledged(id, user, request, ack, now, cx),
            Kind::Leave => self.leave_acknowledged(id, user, request, ack, now, cx),
        }
    }

    fn join_acknowledged(
        &mut self,
        id: Id,
        user: u32,
        request: &Request,
        ack: &Ack<'_>,
        now: u64,
        cx: &mut Cx<'a>,
    ) {
        if !ack.ok {
            let why = ack.error.as_deref().unwrap_or("without a reason");
            self.debug(user, &format!("the join was refused: {why}"));
            let kind = outcome::join_rejected(ack.code.as_deref());
            return self.lose(id, kind, cx);
        }
        let state = &mut self.users[user as usize];
        if let Some(connection) = &ack.self_conn_id {
            state.sender.connect(connection);
        }
        let begun = (request.sent, now, ack.seq);
        let joined = self.audit.joined(user, begun, ack.members(), &self.users);
        match joined {
            Ok(members) => self.counts.snapshot_members += members,
            Err(error) => return self.fail_protocol(id, error, cx),
        }
        cx.state.record.value(JOIN, now - request.sent);
        self.counts.joins += 1;
        self.joined += 1;
        self.unsettled -= 1;
        let state = &mut self.users[user as usize];
        state.phase = Phase::Joined;
        state.epoch = ack.self_epoch.unwrap_or(0);
        state.sender.joined_at = now;
        if ack.degraded {
            state.sender.memberships.set_uncertain()
        } else {
            state.sender.memberships.publish(Memberships::JOIN)
        }
        (state.attempts, state.is_churning) = (0, false);
        let lost_at = std::mem::take(&mut state.lost_at);
        if lost_at > 0 {
            cx.state.record.value(RECONNECT, now - lost_at);
            self.counts.reconnects += 1;
        }
        if state.behaviour == Behaviour::HalfOpen
            && let Some(connection) = cx.connections.get_mut(id)
        {
            connection.transport.ignore_pings();
        }
        self.has_opened(user, cx);
    }

    /// Joins again after the server has removed the member.
    pub(super) fn renew(&mut self, id: Id, user: u32, code: Option<&str>, cx: &mut Cx<'a>) {
        let state = &mut self.users[user as usize];
        // Of several heartbeats that are refused, the first joins again.
        if state.phase != Phase::Joined {
            return;
        }
        // The server no longer sends events to it, so those that are missing may be on no way.
        state.sender.end(true);
        state.sender.memberships.set_uncertain();
        self.audit.end(user);
        self.counts.expired += 1;
        self.joined -= 1;
        self.unsettled += 1;
        self.debug(
            user,
            &format!("joins again: {}", code.unwrap_or("refused without a code")),
        );
        self.join(id, user, cx);
    }

    /// Compares the epoch in the answer to a heartbeat with that of the join.
    pub(super) fn check_epoch(&mut self, user: u32, request: &Request, ack: &Ack<'_>) {
        let state = &self.users[user as usize];
        let is_of_join = state.epoch > 0 && request.sent > state.sender.joined_at;
        let is_other = ack.epoch.is_some_and(|epoch| epoch != state.epoch);
        self.audit.counts.wrong_epoch += u64::from(is_of_join && is_other);
    }

    /// Sends a heartbeat without a change, which keeps the membership alive.
    pub(super) fn keep_alive(&mut self, id: Id, user: u32, cx: &mut Cx<'a>) {
        let now = load::clock::now();
        let state = &mut self.users[user as usize];
        state.sent = now;
        let number = state.take_id();
        // A slow consumer does not read the acknowledgement.
        if state.behaviour == Behaviour::Active {
            let request = Request {
                kind: Kind::KeepAlive,
                id: number,
                n: 0,
                at: now,
                sent: now,
            };
            self.requests.push(&mut state.requests, request);
        }
        self.counts.heartbeats += 1;
        self.counts.keep_alives += 1;
        let number = u64::from(number);
        self.send(id, |out| write_heartbeat(out, number, None, None, 0), cx);
    }
}

/// Returns a code as it is counted.
pub(super) fn code<'a>(ack: &'a Ack<'a>) -> Option<&'a str> {
    ack.code.as_ref().map(Cow::as_ref)
}
