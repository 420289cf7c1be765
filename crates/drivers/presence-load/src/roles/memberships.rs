//! How users join, lose their connections, leave, and come back.

use std::time::Duration;

use load::clock;

use super::user::{WhichConnection, hash};
use super::{Phase, State, Timer, Users};
use crate::outcome::{self, count};
use crate::protocol::presence::Member;
use crate::roles::population::Behaviour;
use crate::spec::{CONNECT, LEAVE, RECONNECT};

/// Why a connection ends, as far as that decides what its requests become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionEnd {
    /// The server or the network ended it.
    Lost(&'static str),
    /// The driver cut it, as the plan asks.
    Cut,
    /// Its user has left.
    Left,
}

/// The answer to a join, besides the members.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JoinAnswer<'a> {
    /// The id of the own connection, if the server names it.
    pub(crate) connection: Option<&'a str>,
    /// The epoch of the membership; 0 if the server issues none.
    pub(crate) epoch: u64,
    /// The number of the last event that the snapshot includes.
    pub(crate) seq: Option<u64>,
    /// True if the server serves only what its own node knows.
    pub(crate) is_degraded: bool,
    /// The time at which the join was sent.
    pub(crate) sent: u64,
    /// The time at which the answer came.
    pub(crate) now: u64,
}

impl Users<'_> {
    /// Begins to connect a user. Returns the index of its server.
    pub(crate) fn begin_connect(&mut self, user: u32) -> usize {
        let index = self.part.index_of(user);
        let attempts = self.users[user as usize].begin_connect(clock::now());
        self.shared.server_of(index, attempts)
    }

    /// Registers that a user is connected to the namespace. `sid` is the id of its connection, if the server told it.
    pub(crate) fn connected(&mut self, user: u32, sid: Option<&str>, now: u64, state: &State) {
        let own = &mut self.users[user as usize];
        if let Some(sid) = sid {
            own.sender.connect(sid);
        }
        self.counts.add(count::CONNECTED, 1);
        state.record.value(CONNECT, now - own.sent);
    }

    /// Begins to join: a join with a stamp of `now` is sent. Returns the number of the user's last change.
    pub(crate) fn begin_join(&mut self, user: u32, now: u64) -> u32 {
        self.users[user as usize].sender.join_stamp = now;
        self.begin_rejoin(user, now)
    }

    /// Begins to join with the state that the user has. Returns the number of its last change.
    pub(crate) fn begin_rejoin(&mut self, user: u32, now: u64) -> u32 {
        self.audit.begin_join(user, &self.users);
        let own = &mut self.users[user as usize];
        own.phase = Phase::Joining;
        own.sent = now;
        own.sender.begin_join()
    }

    /// Takes the answer to a join: checks the snapshot, and begins the membership. Returns true if the connection of the
    /// user had been lost before.
    pub(crate) fn joined<'m>(
        &mut self,
        user: u32,
        answer: JoinAnswer<'_>,
        snapshot: impl IntoIterator<Item = Member<'m>>,
        state: &mut State,
    ) -> bool {
        if let Some(connection) = answer.connection {
            self.users[user as usize].sender.connect(connection);
        }
        let begun = (answer.sent, answer.now, answer.seq);
        let members = self.audit.joined(user, begun, snapshot, &self.users);
        self.counts.add(count::SNAPSHOT_MEMBERS, members);
        let lost_at = self.users[user as usize].join(answer.epoch, answer.is_degraded, answer.now);
        self.count_join(user, lost_at, answer.now, state);
        lost_at.is_some()
    }

    fn count_join(&mut self, user: u32, lost_at: Option<u64>, now: u64, state: &mut State) {
        self.counts.add(count::JOINS, 1);
        self.joined += 1;
        self.unsettled -= 1;
        if let Some(lost_at) = lost_at {
            state.record.value(RECONNECT, now - lost_at);
            self.counts.add(count::RECONNECTS, 1);
        }
        self.has_opened(user, state);
    }

    /// Begins the first steps of a conversation.
    pub(crate) fn begin_start(&mut self, user: u32, now: u64) {
        let own = &mut self.users[user as usize];
        (own.phase, own.sent) = (Phase::Joining, now);
    }

    /// Notes that the first steps of a conversation are done: the user takes part from `now` on.
    pub(crate) fn started(&mut self, user: u32, now: u64, state: &mut State) {
        if let Some(fan_out) = &mut self.fan_out {
            fan_out.join(user);
        }
        let lost_at = self.users[user as usize].join(0, false, now);
        self.count_join(user, lost_at, now, state);
    }

    /// Registers that the first attempt of a user to join has ended. The load begins when all have.
    fn has_opened(&mut self, user: u32, state: &mut State) {
        if self.users[user as usize].open() {
            self.opened += 1;
            if self.opened == self.part.users() {
                state.report_open();
            }
        }
    }

    /// Ends the membership of a joined user, which joins again at once. Returns false if it is not joined.
    pub(crate) fn suspend(&mut self, user: u32) -> bool {
        let own = &mut self.users[user as usize];
        if own.phase != Phase::Joined {
            return false;
        }
        // The server no longer sends events to it, so those that are missing may be on no way.
        own.sender.end(true);
        own.sender.memberships.set_uncertain();
        self.audit.end(user);
        self.joined -= 1;
        self.unsettled += 1;
        true
    }

    /// Takes over the connection of a user whose join is under way, as another member sees it: a client library reports
    /// it only with the answer, and others may have the event, or a snapshot that shows it, before.
    pub(crate) fn learn_connection(&mut self, receiver: u32, user_id: &str, conn_id: &str) {
        let room = self.part.room_of(receiver);
        let Some(member) = self.part.member_named(room, user_id) else {
            return;
        };
        let first = receiver - self.part.member_of(receiver);
        let own = &mut self.users[(first + member) as usize];
        // A receiver that is late has the join of the connection before.
        if own.phase == Phase::Joining
            && own.sender.which(hash(conn_id)) != Some(WhichConnection::Previous)
        {
            own.sender.connect(conn_id);
        }
    }

    /// Compares the epoch in the answer to a heartbeat that was sent at `sent` with the epoch of the join.
    #[inline]
    pub(crate) fn check_epoch(&mut self, user: u32, sent: u64, epoch: Option<u64>) {
        let own = &self.users[user as usize];
        let is_of_join = own.epoch > 0 && sent > own.sender.joined_at;
        let is_other = epoch.is_some_and(|epoch| epoch != own.epoch);
        let is_wrong = is_of_join && is_other;
        self.counts.add(count::WRONG_EPOCH, is_wrong.into());
    }

    /// Begins the leave of a joined user.
    pub(crate) fn begin_leave(&mut self, user: u32) {
        self.users[user as usize].phase = Phase::Leaving;
        self.joined -= 1;
        self.leaving += 1;
        self.unsettled += 1;
    }

    /// Registers that a leave was acknowledged, and the time that it took.
    pub(crate) fn left(&mut self, took_ns: u64, state: &State) {
        self.counts.add(count::LEAVES, 1);
        state.record.value(LEAVE, took_ns);
    }

    /// Ends the membership of a user whose connection has ended. The user comes back later.
    pub(crate) fn disconnect(&mut self, user: u32, end: ConnectionEnd, state: &mut State) {
        let own = &mut self.users[user as usize];
        let phase = own.phase;
        let has_left = own.disconnect(end == ConnectionEnd::Left, clock::now());
        match (&mut self.fan_out, has_left) {
            (None, true) => self.audit.leave(user, &self.users),
            (None, false) => self.audit.end(user),
            (Some(fan_out), true) => fan_out.leave(user),
            (Some(fan_out), false) => fan_out.end(user),
        }
        self.joined -= u64::from(phase == Phase::Joined);
        self.unsettled += u64::from(phase == Phase::Joined);
        self.leaving -= usize::from(phase == Phase::Leaving);
        if let ConnectionEnd::Lost(kind) = end {
            match phase {
                Phase::Joined | Phase::Leaving => self.count_loss(user, kind, state),
                Phase::Connecting | Phase::Joining => self.fail_attempt(user, kind, state),
                Phase::Waiting | Phase::Backoff | Phase::Ended => {}
            }
        }
        self.come_back(user, end, state);
    }

    /// Counts the end of a connection whose user was joined.
    fn count_loss(&mut self, user: u32, kind: &'static str, state: &State) {
        let own = &self.users[user as usize];
        let phase = own.phase;
        if own.behaviour != Behaviour::Active {
            self.counts.add(count::DROPPED, 1);
            return;
        }
        self.lose(user, kind);
        // The end of a connection alone is counted by its heartbeats; a violation of the protocol is an error always.
        if kind != outcome::CONNECTION_LOST || phase == Phase::Leaving {
            state.record.begin();
            state.record.error(kind);
        }
    }

    /// Notes that the connection of a user was lost.
    pub(crate) fn lose(&mut self, user: u32, why: &str) {
        self.debug(user, &format!("the connection was lost: {why}"));
        let is_new = self.users[user as usize].lose(clock::now());
        self.counts.add(count::CONNECTIONS_LOST, u64::from(is_new));
    }

    /// Counts an attempt to connect and join that failed.
    pub(crate) fn fail_attempt(&mut self, user: u32, kind: &'static str, state: &mut State) {
        self.debug(user, &format!("cannot join: {kind}"));
        if self.users[user as usize].fail_attempt() {
            self.counts.add(count::RETRIES, 1);
            if [outcome::DESCRIPTORS, outcome::PORTS].contains(&kind) {
                state.record.count_by_name(kind, 1);
            }
        } else {
            let kind = match kind {
                outcome::CONNECTION_LOST => outcome::CONNECT,
                kind => kind,
            };
            state.record.begin();
            state.record.error(kind);
            self.has_opened(user, state);
        }
    }

    /// Lets a user connect again: at once if the plan asks for that, otherwise after its backoff.
    fn come_back(&mut self, user: u32, end: ConnectionEnd, state: &mut State) {
        let index = self.part.index_of(user);
        let own = &mut self.users[user as usize];
        if self.has_ended || !own.comes_back() {
            own.phase = Phase::Ended;
            self.unsettled -= 1;
            return;
        }
        own.phase = Phase::Backoff;
        let mut delay = Duration::ZERO;
        if let ConnectionEnd::Lost(_) = end {
            delay = own.backoff(self.shared.plan.seed, index);
            let seconds = delay.as_secs_f64();
            self.debug(user, &format!("tries again in {seconds:.3} s"));
        }
        let at = clock::now() + delay.as_nanos() as u64;
        state.timers.set(at, Timer::Connect(user));
    }
}
