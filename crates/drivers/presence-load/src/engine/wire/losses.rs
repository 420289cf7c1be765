//! Timeouts and lost connections.

use load::clock;
use load::slots::Id;

use super::connection::Connection;
use super::requests::{Request, RequestKind};
use super::{Cx, Wire};
use crate::outcome;
use crate::protocol::transport::Side;
use crate::roles::{ConnectionEnd, Phase};

impl<'a> Wire<'a> {
    /// Returns the time until which the server must send a ping to a connection that reads.
    pub(super) fn ping_due(&self, connection: &Connection) -> u64 {
        if self.users.user(connection.user).has_stopped_reading() {
            return u64::MAX;
        }
        let pause = self.transports[connection.server].longest_pause_ns;
        connection.pinged.saturating_add(pause)
    }

    /// Handles a deadline of a connection that has passed.
    pub(super) fn time_out(&mut self, id: Id, cx: &mut Cx<'a>) {
        let Some(connection) = cx.connections.get_mut(id) else {
            return;
        };
        let user = connection.user;
        if self.users.user(user).phase == Phase::Connecting {
            return self.lose(id, outcome::CONNECT_TIMEOUT, cx);
        }
        if cx.state.now > self.ping_due(connection) {
            return self.miss_ping(id, cx);
        }
        if connection.requests.is_empty() {
            if self.conversations.is_none() {
                self.keep_alive(id, user, cx);
            }
            return;
        }
        let now = cx.state.now;
        while let Some(request) = self.take_overdue(id, now, cx) {
            match request.kind {
                kind @ (RequestKind::Heartbeat | RequestKind::Step(_)) => {
                    let outcome = match kind {
                        RequestKind::Heartbeat => outcome::HEARTBEAT_TIMEOUT,
                        _ => outcome::ANSWER_TIMEOUT,
                    };
                    self.end_operation(user, (kind, request.change), Err(outcome), now, cx);
                    // The late answer would be taken for the next one's.
                    let own = self.conversations.as_ref();
                    if own.is_some_and(|own| own.has_answers_in_order(kind)) {
                        return self.lose(id, outcome::CONNECTION_LOST, cx);
                    }
                }
                RequestKind::KeepAlive => {}
                RequestKind::Join | RequestKind::Start(_) => {
                    return self.lose(id, outcome::JOIN_TIMEOUT, cx);
                }
                RequestKind::Leave => return self.lose(id, outcome::LEAVE_TIMEOUT, cx),
            }
        }
    }

    /// Gives up a server whose ping is overdue.
    fn miss_ping(&mut self, id: Id, cx: &mut Cx<'a>) {
        let stream = cx
            .connections
            .get_mut(id)
            .and_then(|own| own.stream(Side::Main));
        if stream.is_some_and(|stream| !stream.is_connecting) {
            // It may be there, if it is this program that is late.
            self.read(id, Side::Main, false, cx);
        }
        let now = cx.state.now;
        let connection = cx.connections.get_mut(id);
        if connection.is_some_and(|connection| now > self.ping_due(connection)) {
            self.lose(id, outcome::PING_TIMEOUT, cx);
        }
    }

    fn take_overdue(&mut self, id: Id, now: u64, cx: &mut Cx<'a>) -> Option<Request> {
        let connection = cx.connections.get_mut(id)?;
        let first = self.requests.first(connection.requests)?;
        if now <= first.change.sent.saturating_add(self.timeout_ns) {
            return None;
        }
        connection.overdue += 1;
        self.requests.take_first(&mut connection.requests)
    }

    /// Ends a connection because of `kind`. Its user comes back later.
    pub(super) fn lose(&mut self, id: Id, kind: &'static str, cx: &mut Cx<'a>) {
        self.disconnect(id, ConnectionEnd::Lost(kind), cx);
    }

    /// Ends a connection, and its requests with it.
    pub(super) fn disconnect(&mut self, id: Id, end: ConnectionEnd, cx: &mut Cx<'a>) {
        let Some(connection) = cx.connections.remove(id) else {
            return;
        };
        let (user, mut requests) = (connection.user, connection.requests);
        if let Some(conversations) = &mut self.conversations {
            conversations.disconnect(user);
        }
        // Its user may need the descriptor for the next one.
        drop(connection);
        self.connections[user as usize] = None;
        let now = clock::now();
        let kind = match end {
            ConnectionEnd::Lost(outcome::HEARTBEAT_TIMEOUT) => outcome::HEARTBEAT_TIMEOUT,
            ConnectionEnd::Lost(_) => outcome::CONNECTION_LOST,
            ConnectionEnd::Cut | ConnectionEnd::Left => outcome::CUT,
        };
        while let Some(request) = self.requests.take_first(&mut requests) {
            if request.kind.is_operation() {
                self.end_operation(user, (request.kind, request.change), Err(kind), now, cx);
            }
        }
        self.users.disconnect(user, end, &mut cx.state);
    }

    /// Removes all requests: those that are open at the end are counted.
    pub(super) fn forget_requests(&mut self, cx: &mut Cx<'a>) {
        for id in self.connections.iter().flatten() {
            if let Some(connection) = cx.connections.get_mut(*id) {
                while (self.requests.take_first(&mut connection.requests)).is_some() {}
            }
        }
    }
}
