//! What the users of a worker do, without I/O: when they begin, send, leave and come back, and what the audit finds.
//!
//! An engine asks [`Users`] what happens next, performs it with its own connections, and reports what came of it. So both
//! engines make the same load of the same plan and seed.

mod audit;
mod churn;
mod fan_out;
mod memberships;
mod pace;
pub(crate) mod population;
mod progress;
mod user;

use std::rc::Rc;

use load::driver::Worker;
use load::event_loop::LoopState;
use load::pacer::Start;
use measure::counters::Counters;
use rand::RngExt as _;
use traffic::ThinkTime;

use crate::outcome::count;
use crate::protocol::presence::PresenceEvent;
use crate::shared::Shared;
use crate::spec::{HEARTBEAT, PROPAGATION, SERVICE};

use audit::Audit;
pub use audit::AuditedRoom;
use churn::Churn;
pub use fan_out::ChatRoom;
use fan_out::Pushes;
pub(crate) use fan_out::{Everybody, SenderNames};
pub(crate) use memberships::{ConnectionEnd, JoinAnswer};
use pace::ClosedLoop;
use population::{Behaviour, Part, Population};
use progress::Progress;
pub(crate) use user::{FIRST_BACKOFF, LONGEST_BACKOFF, Phase, User};

/// Leaves at the end of a worker that are not acknowledged at once: each causes an event for each other member.
pub(crate) const LEAVING_AT_ONCE: usize = 128;
/// Actions in one turn of the loop at most, so that connections are served between.
pub(crate) const ACTIONS_PER_TURN: u32 = 32;
/// Users that are tried to find one that can leave.
const TRIES: usize = 16;
/// Interval at which the last events are looked for, nanoseconds.
const LOOK_NS: u64 = 5_000_000;

/// The state of the loop of a worker.
pub(crate) type State = LoopState<Timer>;

/// The content of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    /// A user connects again.
    Connect(u32),
    /// The sender with this index sends its next heartbeat (closed loop).
    Next(u32),
}

/// The next action of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Connects for the first time.
    Connect(u32),
    /// Leaves, and comes back.
    Leave(u32),
    /// Loses its connection without a leave, and comes back.
    Cut(u32),
}

/// A change of a user's state, which a heartbeat of the load carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    /// The sequence number among the changes of its user; 0 for a request without a change.
    pub(crate) n: u32,
    /// Its intended start.
    pub(crate) at: u64,
    /// The time at which it was sent.
    pub(crate) sent: u64,
}

impl Change {
    /// Returns the times of a request without a change.
    pub(crate) fn none(sent: u64) -> Self {
        Self {
            n: 0,
            at: sent,
            sent,
        }
    }
}

/// The users of one worker.
#[derive(Debug)]
pub(crate) struct Users<'a> {
    shared: &'a Shared,
    part: Part,
    users: Vec<User>,
    /// The users that send heartbeats.
    senders: Vec<u32>,
    /// True if operations are numbered over all workers.
    is_even: bool,
    closed: Option<ClosedLoop>,
    churn: Option<Churn>,
    progress: Progress,
    /// Users that have begun to connect, and those whose first attempt to join has ended.
    begun: u32,
    opened: u64,
    joined: u64,
    /// Users whose leave is not acknowledged.
    leaving: usize,
    /// Users that connect, join, leave or wait to connect again.
    unsettled: u64,
    /// Heartbeats of the load that are not acknowledged, and those among them that count.
    open: u64,
    open_counted: u64,
    /// Rooms whose members have received all that was acknowledged. Nothing changes in them once the load is over.
    settled_rooms: u64,
    /// True once nobody comes back any more.
    has_ended: bool,
    /// The audit of the presence protocol; of no users in a conversation.
    pub(crate) audit: Audit,
    /// The pushes of a conversation.
    fan_out: Option<Pushes>,
    pub(crate) counts: Rc<Counters>,
}

impl<'a> Users<'a> {
    /// Creates the users of a worker, and gives it their heartbeats. Returns `None` if other workers have all rooms.
    pub(crate) fn new(shared: &'a Shared, worker: &mut Worker) -> Option<Self> {
        let part = Part {
            population: shared.population,
            share: worker.share,
        };
        let behaviour = |user| part.population.behaviour(part.index_of(user));
        let users = (0..part.users() as u32).map(|user| User::new(behaviour(user)));
        let users: Vec<User> = users.collect();
        if users.is_empty() {
            return None;
        }
        let senders = (0..).zip(&users);
        let senders = senders.filter(|(_, user)| user.behaviour == Behaviour::Active);
        let senders: Vec<u32> = senders.map(|(index, _)| index).collect();
        worker.record.count(count::USERS, part.users());
        let counts = Rc::clone(worker.record.counters());
        let settings = shared.settings();
        let origin = worker.phases.origin;
        let conversation = shared.conversation.as_ref();
        let audited = Part {
            population: Population {
                rooms: if conversation.is_some() {
                    0
                } else {
                    part.population.rooms
                },
                ..part.population
            },
            ..part
        };
        Some(Self {
            fan_out: conversation.map(|conversation| {
                let rule = conversation.fan_out.as_ref();
                let is_named = rule.is_some_and(|rule| rule.name.is_some());
                let names = is_named.then_some(&shared.sender_names);
                let senders = (shared.everybody.as_ref(), names);
                Pushes::new(part, rule.map(|rule| rule.to), senders, &counts)
            }),
            shared,
            part,
            users,
            is_even: pace::fit(shared, senders.len() as u64, worker),
            closed: ClosedLoop::new(shared, senders.len()),
            churn: Churn::new(shared, part, senders.len()),
            senders,
            progress: Progress::new(settings.report_interval, origin),
            begun: 0,
            opened: 0,
            joined: 0,
            leaving: 0,
            unsettled: 0,
            open: 0,
            open_counted: 0,
            settled_rooms: 0,
            has_ended: false,
            audit: Audit::new(audited, origin, settings.padding, &counts),
            counts,
        })
    }

    /// Returns the memory for the audit of a user in a room of this size.
    #[cfg(test)]
    pub(crate) const fn audit_bytes_per_user(users_per_room: usize) -> usize {
        Audit::bytes_per_user(users_per_room)
    }

    /// Returns the memory for the pushes to a user in a room of this size.
    #[cfg(test)]
    pub(crate) const fn fan_out_bytes_per_user(users_per_room: usize) -> usize {
        fan_out::FanOut::bytes_per_user(users_per_room)
    }

    pub(crate) fn shared(&self) -> &'a Shared {
        self.shared
    }

    pub(crate) fn part(&self) -> Part {
        self.part
    }

    pub(crate) fn user(&self, user: u32) -> &User {
        &self.users[user as usize]
    }

    /// Returns the number of joined users.
    pub(crate) fn joined_count(&self) -> u64 {
        self.joined
    }

    /// Returns the number of users whose leave is not acknowledged.
    pub(crate) fn leaving_count(&self) -> usize {
        self.leaving
    }

    /// Takes what a user does next.
    ///
    /// # Errors
    /// The time at which the next action is due.
    pub(crate) fn next_action(&mut self, state: &State) -> Result<Action, u64> {
        match self.next_to_begin(state) {
            Ok(user) => Ok(Action::Connect(user)),
            Err(next) => self.next_to_leave(state).map_err(|leave| leave.min(next)),
        }
    }

    fn next_to_begin(&mut self, state: &State) -> Result<u32, u64> {
        let user = self.begun;
        if user as usize >= self.users.len() || state.now >= state.phases.end {
            return Err(u64::MAX);
        }
        let ramp_up_ns = self.shared.settings().ramp_up.as_nanos() as u64;
        let due = state.phases.origin + self.part.begins_at(user, ramp_up_ns);
        if due > state.now {
            return Err(due);
        }
        self.begun += 1;
        self.unsettled += 1;
        Ok(user)
    }

    fn next_to_leave(&mut self, state: &State) -> Result<Action, u64> {
        let churn = self.churn.as_mut().ok_or(u64::MAX)?;
        let (cuts, mut random) = churn.take_due(state)?;
        let first = random.random_range(0..self.senders.len());
        let senders = (first..self.senders.len()).chain(0..first).take(TRIES);
        for sender in senders {
            let user = self.senders[sender];
            let closed = self.closed.as_ref();
            // The first heartbeat of a closed loop has its time, so its user must be there.
            let has_begun = closed.is_none_or(|closed| closed.has_begun(sender));
            let own = &mut self.users[user as usize];
            if !has_begun || !own.can_send() {
                continue;
            }
            own.is_churning = true;
            return Ok(if cuts {
                self.counts.add(count::CUT, 1);
                Action::Cut(user)
            } else {
                self.counts.add(count::LEFT, 1);
                Action::Leave(user)
            });
        }
        // Those that are away may be back in the next turn.
        Err(state.now)
    }

    /// Begins a heartbeat of the schedule. Returns the user that sends it.
    #[inline]
    pub(crate) fn begin(&mut self, start: Start, state: &State) -> u32 {
        // Operation k of all workers belongs to worker k mod n; among its own they are counted without gaps.
        let number = if self.is_even {
            start.index / state.share.of
        } else {
            start.index
        };
        let sender = (number % self.senders.len() as u64) as u32;
        self.begin_of(sender, start, state)
    }

    /// Begins the next heartbeat of a sender of a closed loop. Returns its user, and the intended start.
    pub(crate) fn begin_next(&mut self, sender: u32, state: &mut State) -> Option<(u32, u64)> {
        let closed = self.closed.as_mut()?;
        if self.users[self.senders[sender as usize] as usize].is_churning {
            // It is away because the plan asks for that.
            let at = closed.next_at(state.now, None);
            state.timers.set(at, Timer::Next(sender));
            return None;
        }
        let start = closed.next(sender, state)?;
        Some((self.begin_of(sender, start, state), start.at))
    }

    /// Begins a heartbeat of the sender with this index. Returns its user, or the next one if that is away because the
    /// plan asks for it.
    #[inline]
    fn begin_of(&mut self, sender: u32, start: Start, state: &State) -> u32 {
        if let Some(closed) = &mut self.closed {
            closed.begin(sender, start);
        }
        self.open += 1;
        self.open_counted += u64::from(state.phases.counts(start.at));
        let user = self.senders[sender as usize];
        // A closed loop is the loop of one user.
        if !self.users[user as usize].is_churning || self.closed.is_some() {
            return user;
        }
        let (before, from) = self.senders.split_at(sender as usize);
        let mut others = from.iter().chain(before);
        let other = others.find(|user| self.users[**user as usize].can_send());
        other.copied().unwrap_or(user)
    }

    /// Takes the change of a heartbeat that is being sent.
    #[inline]
    pub(crate) fn change(&mut self, user: u32, at: u64, sent: u64) -> Change {
        self.counts.add(count::HEARTBEATS, 1);
        let n = self.users[user as usize].sender.change(at);
        Change { n, at, sent }
    }

    /// Registers the time of a request, which shows that its user was still there.
    #[inline]
    pub(crate) fn touch(&mut self, user: u32, sent: u64) {
        self.users[user as usize].sent = sent;
    }

    /// Ends a heartbeat that has begun, at `now`.
    #[inline]
    pub(crate) fn end_heartbeat(
        &mut self,
        user: u32,
        change: Change,
        outcome: Result<(), &'static str>,
        now: u64,
        state: &mut State,
    ) {
        self.end_operation(user, change, outcome, (now, None), state);
    }

    /// Ends an operation that has begun, at `now`. In a closed loop, the next one follows after a think time of its own, or
    /// else the plan's.
    #[inline]
    pub(crate) fn end_operation(
        &mut self,
        user: u32,
        change: Change,
        outcome: Result<(), &'static str>,
        (now, think): (u64, Option<&ThinkTime>),
        state: &mut State,
    ) {
        let is_counted = state.phases.counts(change.at);
        self.open -= 1;
        self.open_counted -= u64::from(is_counted);
        match (outcome, is_counted) {
            (Ok(()), _) => state.record.ok_with(
                is_counted,
                [(HEARTBEAT, now - change.at), (SERVICE, now - change.sent)],
            ),
            (Err(kind), true) => state.record.error(kind),
            (Err(kind), false) => state.record.error_of_warmup(kind),
        }
        match (&mut self.fan_out, outcome) {
            (None, Ok(())) => self.audit.still_joined(user, change.sent, &self.users),
            (Some(fan_out), Err(_)) if change.n > 0 => fan_out.excuse(user, change.n),
            (Some(fan_out), Ok(())) if change.n > 0 => fan_out.answer(user, change.n),
            _ => {}
        }
        if outcome.is_ok() {
            let sender = &mut self.users[user as usize].sender;
            sender.acked = sender.acked.max(change.n);
        }
        if let Some(closed) = &mut self.closed
            && let Ok(sender) = self.senders.binary_search(&user)
        {
            let at = closed.next_at(now, think);
            state.timers.set(at, Timer::Next(sender as u32));
        }
    }

    /// Audits an event that a user got at `now`.
    #[inline]
    pub(crate) fn event(
        &mut self,
        receiver: u32,
        event: &PresenceEvent<'_>,
        now: u64,
        state: &State,
    ) {
        let begun = self.audit.event(receiver, event, &self.users, now);
        // Keep-alives have no stamp, and the stamps of joins are older than the measured time.
        if let Some(at) = begun.filter(|at| state.phases.counts(*at)) {
            state.record.value(PROPAGATION, (now - at).max(1));
        }
    }

    /// Takes the number of a message of a conversation that was due at `at`, and is being sent.
    #[inline]
    pub(crate) fn number(&mut self, user: u32, at: u64) -> u32 {
        let n = self.users[user as usize].sender.change(at);
        if let Some(fan_out) = &mut self.fan_out {
            fan_out.send(user, n, at);
        }
        n
    }

    /// Announces the name that a user has in the pushes of its messages from now on.
    pub(crate) fn announce(&self, user: u32, name: &str) {
        let index = self.part.index_of(user) as u32;
        self.shared.sender_names.announce(index, name);
    }

    /// Audits a push of a conversation that a user got at `now`: the message with this number of the user with this name.
    #[inline]
    pub(crate) fn pushed(
        &mut self,
        receiver: u32,
        (name, number): (&str, u64),
        now: u64,
        state: &State,
    ) {
        let fan_out = self.fan_out.as_mut();
        let age = fan_out.and_then(|fan_out| fan_out.receive(receiver, name, number, now));
        if let Some(age) = age.filter(|age| state.phases.counts(now.saturating_sub(*age))) {
            state.record.value(PROPAGATION, age);
        }
    }

    /// Records once a second the users that are there.
    pub(crate) fn record(&mut self, held: u64, state: &State) {
        self.progress.write(held, state);
    }

    /// Returns when to look again for the last events, once the load is over and all is acknowledged.
    pub(crate) fn next_look(&mut self, state: &State) -> u64 {
        if state.now < state.phases.end {
            return state.phases.end;
        }
        if let Some(fan_out) = &mut self.fan_out
            && self.open == 0
            && state.pacer.over(state.now)
        {
            fan_out.end_sending();
        }
        if !self.is_quiet(state) {
            return u64::MAX;
        }
        let rooms = self.part.rooms();
        let mut is_settled = |room| match &mut self.fan_out {
            None => self.audit.is_settled(room, &self.users),
            Some(fan_out) => fan_out.is_settled(room, &self.users),
        };
        while self.settled_rooms < rooms && is_settled(self.settled_rooms as u32) {
            self.settled_rooms += 1;
        }
        if self.settled_rooms == rooms {
            u64::MAX
        } else {
            state.now + LOOK_NS
        }
    }

    /// Returns true once the load is over, and every member has received all that was acknowledged.
    pub(crate) fn is_idle(&self, state: &State) -> bool {
        self.is_quiet(state) && self.settled_rooms >= self.part.rooms()
    }

    fn is_quiet(&self, state: &State) -> bool {
        self.unsettled == 0 && self.is_over(state.now, state)
    }

    /// Returns true if no heartbeat is open, and none starts any more at `now`. A closed loop has no schedule beyond its
    /// first starts, and a worker without senders has none at all; both last until the end of the load.
    pub(crate) fn is_over(&self, now: u64, state: &State) -> bool {
        self.open == 0 && state.pacer.over(now) && now >= state.phases.end
    }

    /// Counts what is open and what was lost. Nobody comes back from here on.
    pub(crate) fn give_up(&mut self, state: &State) {
        self.has_ended = true;
        let counters = match &mut self.fan_out {
            None => {
                self.audit.finish(&self.users);
                &audit::COUNTERS[..]
            }
            Some(fan_out) => {
                fan_out.finish(&self.users);
                &fan_out::COUNTERS
            }
        };
        state.record.unfinished_many(self.open_counted);
        let away = self.users.iter().filter(|user| user.is_away()).count();
        state.record.count(count::NOT_BACK, away as u64);
        // A result shows that it was audited, even if nothing was found.
        for counter in counters {
            state.record.count(*counter, 0);
        }
    }

    /// Prints a line about a user, with `--debug`.
    pub(crate) fn debug(&self, user: u32, text: &str) {
        self.shared.debug(self.part, user, text);
    }
}
