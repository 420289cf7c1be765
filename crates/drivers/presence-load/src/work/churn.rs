//! Users that leave and come back during the load.

use load::event_loop::LoopState;
use load::slots::Id;
use rand::RngExt as _;
use rand::rngs::StdRng;

use super::losses::Ended;
use super::pace::is_over;
use super::{Cx, Load};
use crate::outcome;
use crate::population::Part;
use crate::protocol::presence::{Ack, write_leave};
use crate::requests::{Kind, Request};
use crate::series::LEAVE;
use crate::settings::Settings;
use crate::users::Phase;

/// Users that are tried to find one that can leave.
pub(crate) const TRIES: u32 = 16;
/// Users that leave in one turn of the loop at most.
pub(crate) const LEFT_PER_TURN: u32 = 32;

/// The rate at which users leave and come back.
#[derive(Debug)]
pub(crate) struct Churn {
    every_ns: f64,
    cut: f64,
    /// Number of users that were due.
    due: u64,
}

impl Churn {
    /// Creates the share of a worker with this number of users that send heartbeats: only those leave.
    pub(crate) fn new(settings: &Settings, part: Part, senders: usize) -> Option<Self> {
        let share = senders as f64 / part.population.senders() as f64;
        let rate = settings.churn.filter(|_| senders > 0);
        rate.map(|rate| Self {
            every_ns: 1e9 / (rate * share),
            cut: settings.churn_cut,
            due: 0,
        })
    }

    /// Takes the next user that is due to leave. Returns true if its connection is to be cut.
    ///
    /// # Errors
    /// The time at which the next one is due.
    pub(crate) fn take_due<T>(
        &mut self,
        state: &LoopState<T>,
        random: &mut StdRng,
    ) -> Result<bool, u64> {
        if is_over(state, state.now) {
            return Err(u64::MAX);
        }
        let after = ((self.due + 1) as f64 * self.every_ns) as u64;
        let due = state.phases.begin.saturating_add(after);
        if due > state.now {
            return Err(due);
        }
        self.due += 1;
        Ok(random.random_range(0.0..1.0) < self.cut)
    }
}

impl<'a> Load<'a> {
    /// Lets the users leave that are due. Returns when the next one is.
    pub(super) fn churn_users(&mut self, cx: &mut Cx<'a>) -> u64 {
        for _ in 0..LEFT_PER_TURN {
            let Some(churn) = &mut self.churn else {
                return u64::MAX;
            };
            let cuts = match churn.take_due(&cx.state, &mut self.random) {
                Ok(cuts) => cuts,
                Err(next) => return next,
            };
            self.churn_one(cuts, cx);
        }
        cx.state.now
    }

    fn churn_one(&mut self, cuts: bool, cx: &mut Cx<'a>) {
        for _ in 0..TRIES {
            let sender = self.random.random_range(0..self.senders.len());
            let user = self.senders[sender];
            let closed = self.closed.as_ref();
            // The first heartbeat of a closed loop has its time, so its user must be there.
            let has_begun = closed.is_none_or(|closed| closed.has_begun(sender));
            let state = self.user(user);
            let Some(id) = state.connection.filter(|_| has_begun && state.can_send()) else {
                continue;
            };
            state.is_churning = true;
            if cuts {
                self.counts.cut += 1;
                self.disconnect(id, Ended::Cut, cx);
            } else {
                self.counts.left += 1;
                self.leave(id, user, cx);
            }
            return;
        }
    }

    /// Sends the leave of a joined user.
    pub(super) fn leave(&mut self, id: Id, user: u32, cx: &mut Cx<'a>) {
        let now = load::clock::now();
        let state = &mut self.users[user as usize];
        state.phase = Phase::Leaving;
        state.sent = now;
        let number = state.take_id();
        let request = Request {
            kind: Kind::Leave,
            id: number,
            n: 0,
            at: now,
            sent: now,
        };
        self.requests.push(&mut state.requests, request);
        self.joined -= 1;
        self.unsettled += 1;
        self.send(id, |out| write_leave(out, u64::from(number)), cx);
    }

    pub(super) fn leave_acknowledged(
        &mut self,
        id: Id,
        user: u32,
        request: &Request,
        ack: &Ack<'_>,
        now: u64,
        cx: &mut Cx<'a>,
    ) {
        if !ack.ok {
            self.debug(user, "the leave was refused");
            return self.lose(id, outcome::LEAVE_REJECTED, cx);
        }
        cx.state.record.value(LEAVE, now - request.sent);
        self.counts.leaves += 1;
        self.user(user).sender.leave_acknowledged(now);
        let server = self.server_of(user);
        if let Some(connection) = cx.connections.get_mut(id) {
            connection.transport.close(&mut self.transports[server]);
        }
        self.perform(id, cx);
        self.disconnect(id, Ended::Left, cx);
    }
}
