//! The opening: users connect and join over the ramp, before the load begins.

use std::time::Duration;

use load::event_loop::LoopState;

use super::{Cx, Load, Timer};
use crate::outcome::count;

/// Users that begin in one turn of the loop at most, so that connections are served between.
const BEGUN_PER_TURN: u32 = 32;

/// The users that have not begun.
#[derive(Debug)]
pub(super) struct Arrivals {
    next: u32,
    ramp_up_ns: u64,
    origin: u64,
    /// Users whose first attempt to join has ended.
    opened: u64,
    users: u64,
}

impl Arrivals {
    pub(super) fn new(ramp_up: Duration, origin: u64) -> Self {
        Self {
            next: 0,
            ramp_up_ns: ramp_up.as_nanos() as u64,
            origin,
            opened: 0,
            users: u64::MAX,
        }
    }

    /// Returns true if no user begins any more.
    pub(super) fn is_over(&self, state: &LoopState<Timer>) -> bool {
        u64::from(self.next) >= self.users || state.now >= state.phases.end
    }
}

impl<'a> Load<'a> {
    /// Begins to connect the users that are due. Returns when the next one is.
    pub(super) fn begin_users(&mut self, cx: &mut Cx<'a>) -> u64 {
        if self.arrivals.users == u64::MAX {
            self.arrivals.users = self.part.users();
            cx.state.record.count(count::USERS, self.arrivals.users);
        }
        for _ in 0..BEGUN_PER_TURN {
            if self.arrivals.is_over(&cx.state) {
                return u64::MAX;
            }
            let user = self.arrivals.next;
            let after = self.part.begins_at(user, self.arrivals.ramp_up_ns);
            let due = self.arrivals.origin + after;
            if due > cx.state.now {
                return due;
            }
            self.arrivals.next += 1;
            self.unsettled += 1;
            self.connect(user, cx);
        }
        cx.state.now
    }

    /// Registers that the first attempt of a user to join has ended. The load begins when all have.
    pub(super) fn has_opened(&mut self, user: u32, cx: &mut Cx<'a>) {
        if std::mem::replace(&mut self.user(user).has_opened, true) {
            return;
        }
        self.arrivals.opened += 1;
        if self.arrivals.opened == self.part.users() {
            cx.state.report_open();
        }
    }
}
