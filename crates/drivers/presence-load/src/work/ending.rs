//! The end of a worker: the last counts of the audit, then all users leave.

use super::{Cx, Load};
use crate::outcome::{self, count};
use crate::requests::Kind;

/// Leaves that are not acknowledged at once: each causes an event for each other member.
const LEAVING_AT_ONCE: u64 = 128;
/// Longest time for the leave of one user, nanoseconds, besides the timeout of the last one. A Node.js server needs
/// 0.4 ms; leaves that are not acknowledged by then are errors.
const LEAVE_NS: u64 = 1_000_000;

/// The users that leave at the end.
#[derive(Debug, Default)]
pub(super) struct Ending {
    has_begun: bool,
    /// The next user to leave.
    next: u32,
    /// Leaves that are not acknowledged.
    leaving: u64,
}

impl Ending {
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Counts a leave that has ended, in any way.
    pub(super) fn has_left(&mut self) {
        self.leaving = self.leaving.saturating_sub(u64::from(self.has_begun));
    }
}

impl<'a> Load<'a> {
    /// Counts what is open and what was lost, and lets all users leave.
    pub(super) fn end(&mut self, cx: &mut Cx<'a>) -> anyhow::Result<()> {
        self.audit.finish(&self.users);
        let unfinished = self.forget_requests(cx);
        cx.state.record.unfinished_many(unfinished);
        let away = self.users.iter().filter(|user| user.is_away()).count() as u64;
        cx.state.record.count(count::NOT_BACK, away);
        self.ending.has_begun = true;
        cx.state.now = load::clock::now();
        let until = cx.state.now + self.timeout_ns + self.joined * LEAVE_NS;
        while cx.state.now < until && self.leave_some(cx) {
            let is_last = self.ending.next >= self.users.len() as u32;
            let most = if is_last { 0 } else { LEAVING_AT_ONCE / 2 };
            cx.serve_while(self, until, |load, _| load.ending.leaving > most)?;
        }
        for _ in 0..self.ending.leaving {
            cx.state.record.begin();
            cx.state.record.error(outcome::LEAVE_TIMEOUT);
        }
        Ok(())
    }

    /// Removes all requests. Returns the number of heartbeats among them that count.
    fn forget_requests(&mut self, cx: &Cx<'a>) -> u64 {
        let mut unfinished = 0;
        for user in &mut self.users {
            while let Some(request) = self.requests.take_first(&mut user.requests) {
                let is_counted = cx.state.phases.counts(request.at);
                unfinished += u64::from(request.kind == Kind::Heartbeat && is_counted);
            }
        }
        self.open = 0;
        unfinished
    }

    /// Lets further users leave. Returns true if a leave is not acknowledged.
    fn leave_some(&mut self, cx: &mut Cx<'a>) -> bool {
        while self.ending.leaving < LEAVING_AT_ONCE && self.ending.next < self.users.len() as u32 {
            let user = self.ending.next;
            self.ending.next += 1;
            let state = &self.users[user as usize];
            if let Some(id) = state.connection.filter(|_| state.can_send()) {
                self.ending.leaving += 1;
                self.leave(id, user, cx);
            }
        }
        self.ending.leaving > 0
    }
}
