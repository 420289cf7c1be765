//! The heartbeats of the load.

use load::clock;
use load::pacer::Start;
use load::slots::Id;

use super::session::code;
use super::{Cx, Load};
use crate::outcome;
use crate::protocol::presence::{Ack, Stamp, write_heartbeat};
use crate::requests::{Kind, Request};
use crate::series::{HEARTBEAT, SERVICE};

impl<'a> Load<'a> {
    /// Begins a heartbeat of the sender with this index, or of the next one if it is away because the plan asks for
    /// that.
    pub(super) fn begin_heartbeat(&mut self, sender: u32, start: Start, cx: &mut Cx<'a>) {
        if let Some(closed) = &mut self.closed {
            closed.begin(sender, start);
        }
        match self.sender_for(sender) {
            Some(user) => self.send_heartbeat(user, start.at, cx),
            None => {
                self.fail_operation(start.at, outcome::NOT_JOINED, cx);
                self.wait_for_next(sender, clock::now(), cx);
            }
        }
    }

    /// Returns the user that sends the heartbeat of a sender.
    fn sender_for(&self, sender: u32) -> Option<u32> {
        let user = self.senders[sender as usize];
        let state = &self.users[user as usize];
        if state.can_send() {
            return Some(user);
        }
        // A closed loop is the loop of one user.
        if !state.is_churning || self.closed.is_some() {
            return None;
        }
        let (before, from) = self.senders.split_at(sender as usize);
        let mut others = from.iter().chain(before);
        others
            .find(|user| self.users[**user as usize].can_send())
            .copied()
    }

    fn send_heartbeat(&mut self, user: u32, at: u64, cx: &mut Cx<'a>) {
        let state = &mut self.users[user as usize];
        let Some(id) = state.connection else {
            return;
        };
        let now = clock::now();
        state.sent = now;
        let (number, n) = (state.take_id(), state.sender.change(at));
        let epoch = (state.epoch > 0).then_some(state.epoch);
        let request = Request {
            kind: Kind::Heartbeat,
            id: number,
            n,
            at,
            sent: now,
        };
        self.requests.push(&mut state.requests, request);
        self.open += 1;
        self.counts.heartbeats += 1;
        let stamp = Some(Stamp {
            n: u64::from(n),
            t: at,
        });
        let padding = self.shared.settings().padding as usize;
        let write = |out: &mut Vec<u8>| {
            write_heartbeat(out, u64::from(number), stamp, epoch, padding);
        };
        self.send(id, write, cx);
    }

    pub(super) fn heartbeat_acknowledged(
        &mut self,
        id: Id,
        user: u32,
        request: &Request,
        ack: &Ack<'_>,
        now: u64,
        cx: &mut Cx<'a>,
    ) {
        // A server that keeps to the model's answers accepts heartbeats of members that it has removed.
        let is_accepted = ack.ok && ack.changed != Some(false);
        if !is_accepted {
            let kind = if ack.ok {
                outcome::HEARTBEAT_WITHOUT_EFFECT
            } else {
                outcome::heartbeat_rejected(code(ack))
            };
            self.end_heartbeat(user, request, Err(kind), now, cx);
            if ack.ok
                || [
                    outcome::HEARTBEAT_EXPIRED,
                    outcome::HEARTBEAT_NOT_JOINED,
                    outcome::HEARTBEAT_STALE,
                ]
                .contains(&kind)
            {
                self.renew(id, user, code(ack), cx);
            }
            return;
        }
        self.check_epoch(user, request, ack);
        self.audit.still_joined(user, request.sent, &self.users);
        let state = self.user(user);
        state.sender.acked = state.sender.acked.max(request.n);
        self.end_heartbeat(user, request, Ok(()), now, cx);
    }

    /// Ends a heartbeat that was sent.
    pub(super) fn end_heartbeat(
        &mut self,
        user: u32,
        request: &Request,
        ended: Result<(), &'static str>,
        now: u64,
        cx: &mut Cx<'a>,
    ) {
        let is_counted = cx.state.phases.counts(request.at);
        self.open -= 1;
        match (ended, is_counted) {
            (Ok(()), true) => {
                self.counts.ok += 1;
                cx.state.record.value(HEARTBEAT, now - request.at);
                cx.state.record.value(SERVICE, now - request.sent);
            }
            (Ok(()), false) => self.counts.ok_of_warmup += 1,
            (Err(kind), true) => cx.state.record.error(kind),
            (Err(_), false) => cx.state.record.error_of_warmup(),
        }
        if self.closed.is_some() {
            let senders = self.senders.binary_search(&user);
            if let Ok(sender) = senders {
                self.wait_for_next(sender as u32, now, cx);
            }
        }
    }

    /// Counts an operation that failed before anything was sent.
    fn fail_operation(&mut self, at: u64, kind: &'static str, cx: &mut Cx<'a>) {
        if cx.state.phases.counts(at) {
            cx.state.record.error(kind)
        } else {
            cx.state.record.error_of_warmup()
        }
    }
}
