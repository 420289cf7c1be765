//! Timeouts, lost connections, and how users come back.

use load::clock;
use load::slots::Id;
use rand::RngExt as _;

use super::{Cx, Load, Timer};
use crate::outcome;
use crate::population::Behaviour;
use crate::requests::{Kind, Request};
use crate::users::Phase;

/// The first and the longest delay before a user connects again, nanoseconds; it doubles with each failed attempt. The
/// values are those of the official client.
const FIRST_BACKOFF_NS: u64 = 1_000_000_000;
const LONGEST_BACKOFF_NS: u64 = 5_000_000_000;

/// Why a connection ends, as far as that decides what its requests become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// The server or the network ended it.
    Lost(&'static str),
    /// The driver cut it, as the plan asks.
    Cut,
    /// Its user has left.
    Left,
}

impl<'a> Load<'a> {
    /// Handles a deadline of a user that has passed.
    pub(super) fn time_out(&mut self, id: Id, cx: &mut Cx<'a>) {
        let Some(user) = cx.connections.get_mut(id).map(|connection| connection.user) else {
            return;
        };
        if self.users[user as usize].phase == Phase::Connecting {
            return self.lose(id, outcome::CONNECT_TIMEOUT, cx);
        }
        if self.users[user as usize].requests.is_empty() {
            return self.keep_alive(id, user, cx);
        }
        let now = cx.state.now;
        while let Some(request) = self.take_overdue(user, now) {
            match request.kind {
                Kind::Heartbeat => {
                    let kind = Err(outcome::HEARTBEAT_TIMEOUT);
                    self.end_heartbeat(user, &request, kind, now, cx);
                }
                Kind::KeepAlive => {}
                Kind::Join => return self.lose(id, outcome::JOIN_TIMEOUT, cx),
                Kind::Leave => return self.lose(id, outcome::LEAVE_TIMEOUT, cx),
            }
        }
    }

    fn take_overdue(&mut self, user: u32, now: u64) -> Option<Request> {
        let state = &mut self.users[user as usize];
        let first = self.requests.first(state.requests)?;
        let is_overdue = now > first.sent.saturating_add(self.timeout_ns);
        let request = is_overdue.then(|| self.requests.take_first(&mut state.requests))?;
        state.overdue += u32::from(request.is_some());
        request
    }

    /// Ends a connection because of `kind`. Its user comes back later.
    pub(super) fn lose(&mut self, id: Id, kind: &'static str, cx: &mut Cx<'a>) {
        self.disconnect(id, Ended::Lost(kind), cx);
    }

    /// Ends a connection.
    pub(super) fn disconnect(&mut self, id: Id, ended: Ended, cx: &mut Cx<'a>) {
        let Some(connection) = cx.connections.remove(id) else {
            return;
        };
        let user = connection.user;
        drop(connection);
        self.user(user).connection = None;
        self.fail_requests(user, ended, cx);
        let state = &mut self.users[user as usize];
        let phase = state.phase;
        state.sender.end(ended != Ended::Left);
        match ended {
            Ended::Left => self.audit.leave(user, &self.users),
            Ended::Lost(_) | Ended::Cut => self.audit.end(user),
        }
        match phase {
            Phase::Joined => {
                self.joined -= 1;
                self.unsettled += 1;
                self.count_loss(user, ended, cx);
            }
            Phase::Connecting | Phase::Joining => self.count_failed_attempt(user, ended, cx),
            Phase::Leaving => {
                self.ending.has_left();
                self.count_loss(user, ended, cx);
            }
            Phase::Waiting | Phase::Backoff | Phase::Ended => {}
        }
        self.come_back(user, ended, cx);
    }

    /// Ends the requests of a user whose connection has ended.
    fn fail_requests(&mut self, user: u32, ended: Ended, cx: &mut Cx<'a>) {
        let now = clock::now();
        while let Some(request) = self
            .requests
            .take_first(&mut self.users[user as usize].requests)
        {
            let kind = match ended {
                Ended::Lost(outcome::HEARTBEAT_TIMEOUT) => outcome::HEARTBEAT_TIMEOUT,
                Ended::Lost(_) => outcome::CONNECTION_LOST,
                Ended::Cut | Ended::Left => outcome::CUT,
            };
            if request.kind == Kind::Heartbeat {
                self.end_heartbeat(user, &request, Err(kind), now, cx);
            }
        }
    }

    /// Counts the end of a connection whose user was joined.
    fn count_loss(&mut self, user: u32, ended: Ended, cx: &mut Cx<'a>) {
        let Ended::Lost(kind) = ended else {
            return;
        };
        let state = &mut self.users[user as usize];
        let phase = state.phase;
        if state.behaviour != Behaviour::Active {
            self.counts.dropped += 1;
            return;
        }
        state.lost_at = clock::now();
        self.counts.connections_lost += 1;
        self.debug(user, &format!("the connection was lost: {kind}"));
        // The end of a connection alone is counted by its heartbeats; a violation of the protocol is an error always.
        if kind != outcome::CONNECTION_LOST || phase == Phase::Leaving {
            cx.state.record.begin();
            cx.state.record.error(kind);
        }
    }

    fn count_failed_attempt(&mut self, user: u32, ended: Ended, cx: &mut Cx<'a>) {
        let Ended::Lost(kind) = ended else {
            return;
        };
        let state = &mut self.users[user as usize];
        let is_first = !state.has_opened;
        state.attempts = state.attempts.saturating_add(1);
        self.debug(user, &format!("cannot join: {kind}"));
        if is_first {
            let kind = match kind {
                outcome::CONNECTION_LOST => outcome::CONNECT,
                kind => kind,
            };
            cx.state.record.begin();
            cx.state.record.error(kind);
            self.has_opened(user, cx);
        } else {
            self.counts.retries += 1;
            if [outcome::DESCRIPTORS, outcome::PORTS].contains(&kind) {
                cx.state.record.count(kind, 1);
            }
        }
    }

    /// Lets a user connect again: at once if the plan asks for that, otherwise after its backoff.
    fn come_back(&mut self, user: u32, ended: Ended, cx: &mut Cx<'a>) {
        let is_over = self.ending.has_begun();
        let state = &mut self.users[user as usize];
        if is_over || state.behaviour != Behaviour::Active && state.has_opened {
            state.phase = Phase::Ended;
            self.unsettled -= 1;
            return;
        }
        state.phase = Phase::Backoff;
        let delay_ns = match ended {
            Ended::Lost(_) => {
                let doubled = FIRST_BACKOFF_NS << state.attempts.min(8);
                // Users that were cut at once must not come back at once.
                let jitter: f64 = self.random.random_range(0.5..1.5);
                (doubled.min(LONGEST_BACKOFF_NS) as f64 * jitter) as u64
            }
            Ended::Cut | Ended::Left => 0,
        };
        let at = clock::now() + delay_ns;
        cx.state.timers.set(at, Timer::Connect(user));
    }
}
