//! Finds every event that was lost, duplicated, reordered or wrong, by arithmetic.
//!
//! Each change of a user carries a sequence number, `n`. For each receiver and each sender of its room, the audit keeps
//! the last `n` that arrived and which of the 32 before it have: two words. For each receiver it keeps the same of the
//! room's own sequence, `seq`. A membership begins with the snapshot of its join, so a receiver that was away is compared
//! from there on.
//!
//! Joins and leaves carry no number of their sender, but each of its connections has one of each. For each receiver and
//! sender, two octets say which of the last two connections' have arrived.
//!
//! While a receiver joins, the two words of a sender are what was acknowledged when the join was sent, and the last
//! number that arrived since.

mod clock;
mod presence;
mod room;
mod snapshot;
mod window;

use std::rc::Rc;

use measure::counters::{Counter, Counters};

use crate::outcome::count;
use crate::protocol::presence::{EventType, PresenceEvent};
use crate::roles::population::Part;
use crate::roles::user::{Memberships, Phase, Sender, User, WhichConnection, hash};

use clock::ServerClock;
use presence::Presence;
pub use room::AuditedRoom;
pub(super) use window::{Arrival, Window};

/// The counters of the audit.
pub(crate) const COUNTERS: [Counter; 17] = [
    count::EVENTS,
    count::LOST,
    count::LOST_WITH_SENDER,
    count::LOST_JOINS,
    count::LOST_LEAVES,
    count::DUPLICATED,
    count::REORDERED,
    count::WRONG_ROOM,
    count::WRONG_STATE,
    count::WRONG_EPOCH,
    count::WRONG_TIME,
    count::WRONG_TYPE,
    count::FALSE_LEAVES,
    count::SNAPSHOT_ERRORS,
    count::LINGERING,
    count::SEQUENCE_GAPS,
    count::FOREIGN,
];

/// The audit of the rooms of one worker.
#[derive(Debug)]
pub(crate) struct Audit {
    part: Part,
    /// The earliest time that a stamp can have.
    origin: u64,
    /// For each receiver, one for each member of its room.
    windows: Vec<Window>,
    presences: Vec<Presence>,
    receivers: Vec<Receiver>,
    /// For each sender.
    unasked: Vec<UnaskedLeaves>,
    clock: ServerClock,
    /// Number of letters in the state of each heartbeat.
    padding: u32,
    /// True once the last events should have arrived: what comes later is counted, and not compared.
    has_finished: bool,
    counts: Rc<Counters>,
}

/// The room's sequence as a receiver sees it.
#[derive(Debug, Clone, Copy)]
struct Receiver {
    /// The sequence numbers in the window count from here.
    base: u64,
    window: Window,
    membership: Membership,
    /// True if the sequence starts again with the next event: a node that can't reach the others has one of its own.
    is_degraded: bool,
}

/// The leaves of a sender that arrived although it is joined and has not asked for them. The server may have removed it,
/// which its next heartbeat shows.
#[derive(Debug, Clone, Copy, Default)]
struct UnaskedLeaves {
    count: u32,
    /// The time at which the last one arrived.
    at: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Membership {
    None,
    /// The join is not acknowledged.
    Joining,
    Member,
}

impl Audit {
    pub(crate) fn new(part: Part, origin: u64, padding: u32, counts: &Rc<Counters>) -> Self {
        let users = part.users() as usize;
        let receiver = Receiver {
            base: 0,
            window: Window::after(0),
            membership: Membership::None,
            is_degraded: false,
        };
        let pairs = users * part.population.users_per_room as usize;
        Self {
            part,
            origin,
            windows: vec![Window::after(0); pairs],
            presences: vec![Presence::begin(Memberships::default()); pairs],
            receivers: vec![receiver; users],
            unasked: vec![UnaskedLeaves::default(); users],
            clock: ServerClock::default(),
            padding,
            has_finished: false,
            counts: Rc::clone(counts),
        }
    }

    /// Returns the memory for a user in a room of this size.
    #[cfg(test)]
    pub(crate) const fn bytes_per_user(users_per_room: usize) -> usize {
        size_of::<Receiver>()
            + size_of::<UnaskedLeaves>()
            + users_per_room * (size_of::<Window>() + size_of::<Presence>())
    }

    fn size(&self) -> usize {
        self.part.population.users_per_room as usize
    }

    /// Returns the first user of a user's room.
    fn first_of_room(&self, user: u32) -> usize {
        self.part.room_of(user) as usize * self.size()
    }

    fn window(&mut self, receiver: u32, member: u32) -> &mut Window {
        let size = self.size();
        &mut self.windows[receiver as usize * size + member as usize]
    }

    fn presence(&mut self, receiver: u32, member: u32) -> &mut Presence {
        let size = self.size();
        &mut self.presences[receiver as usize * size + member as usize]
    }

    /// Begins a membership: the join of `receiver` is being sent.
    pub(crate) fn begin_join(&mut self, receiver: u32, users: &[User]) {
        let first = self.first_of_room(receiver);
        for member in 0..self.size() {
            let sender = &users[first + member].sender;
            *self.window(receiver, member as u32) = Window {
                last: sender.acked,
                seen: 0,
            };
            *self.presence(receiver, member as u32) = Presence::begin(sender.memberships);
        }
        let state = &mut self.receivers[receiver as usize];
        state.membership = Membership::Joining;
        (state.base, state.window) = (0, Window::after(0));
        state.is_degraded = false;
    }

    /// Ends a membership with its connection: numbers that are missing may have been under way.
    pub(crate) fn end(&mut self, receiver: u32) {
        self.receivers[receiver as usize].membership = Membership::None;
        self.unasked[receiver as usize] = UnaskedLeaves::default();
    }

    /// Notes that a heartbeat of a sender, sent at `sent`, was acknowledged: leaves that arrived before are false.
    #[inline]
    pub(crate) fn still_joined(&mut self, sender: u32, sent: u64, users: &[User]) {
        let unasked = self.unasked[sender as usize];
        if unasked.count > 0 && sent > unasked.at {
            self.take_back_leaves(sender, users);
        }
    }

    #[cold]
    fn take_back_leaves(&mut self, sender: u32, users: &[User]) {
        let unasked = std::mem::take(&mut self.unasked[sender as usize]);
        self.count(count::FALSE_LEAVES, u64::from(unasked.count));
        let (first, member) = (self.first_of_room(sender), self.part.member_of(sender));
        let memberships = users[sender as usize].sender.memberships;
        for receiver in first..first + self.size() {
            self.presence(receiver as u32, member)
                .retract_leave(memberships);
        }
    }

    /// Ends a membership whose leave was acknowledged.
    pub(crate) fn leave(&mut self, receiver: u32, users: &[User]) {
        let was_member = self.receivers[receiver as usize].membership == Membership::Member;
        self.end(receiver);
        if !was_member || self.has_finished {
            return;
        }
        self.count_missing(receiver);
        for (member, sender) in self.others(receiver, users) {
            // Events that were published after the request to leave may not arrive.
            let skipped = self.presence(receiver, member).skipped(sender.memberships);
            self.lose(skipped);
        }
    }

    /// Returns the joins and leaves of a sender that a receiver has missed. The server may have removed the receiver
    /// after its last request, without its knowledge; but it was a member when an event arrived.
    fn missed(&self, receiver: u32, member: u32, sender: &Sender, users: &[User]) -> u16 {
        let presence = self.presences[receiver as usize * self.size() + member as usize];
        if users[receiver as usize].sent > sender.published_by() {
            presence.missing(sender.memberships)
        } else {
            presence.skipped(sender.memberships)
        }
    }

    /// Returns the other members of a receiver's room.
    fn others<'a>(
        &self,
        receiver: u32,
        users: &'a [User],
    ) -> impl Iterator<Item = (u32, &'a Sender)> + use<'a> {
        let own = self.part.member_of(receiver);
        let room = &users[self.first_of_room(receiver)..][..self.size()];
        let members = (0..).zip(room).map(|(member, user)| (member, &user.sender));
        members.filter(move |(member, _)| *member != own)
    }

    fn count_missing(&mut self, receiver: u32) {
        let missing = self.receivers[receiver as usize].window.missing();
        self.count(count::SEQUENCE_GAPS, missing.into());
        for member in 0..self.size() as u32 {
            let missing = self.window(receiver, member).missing();
            self.count(count::LOST, u64::from(missing));
        }
    }

    /// Checks an event that `receiver` got at `now`. Returns the intended start of the change, if it is a new change of
    /// another user.
    pub(crate) fn event(
        &mut self,
        receiver: u32,
        event: &PresenceEvent<'_>,
        users: &[User],
        now: u64,
    ) -> Option<u64> {
        self.count(count::EVENTS, 1);
        if self.has_finished {
            return None;
        }
        let room = self.part.room_of(receiver);
        let membership = self.receivers[receiver as usize].membership;
        if membership == Membership::None || !self.part.is_room(room, &event.room_id) {
            self.count(count::WRONG_ROOM, 1);
            return None;
        }
        let in_sequence = self.sequence(receiver, event);
        let Some(member) = self.part.member_named(room, &event.user_id) else {
            self.count(count::FOREIGN, 1);
            return None;
        };
        let user = &users[self.first_of_room(receiver) + member as usize];
        let sender = &user.sender;
        let is_own = self.part.member_of(receiver) == member;
        let kind = self.compare(event, (receiver, member), user, now);
        match kind {
            EventType::Update => {
                let (n, t) = self.stamp((receiver, member), event, users, now)?;
                let is_overtaken = || sender.may_be_overtaken(hash(&event.conn_id));
                let is_new = self.update((receiver, member), n, is_overtaken, in_sequence);
                (is_new && !is_own).then_some(t)
            }
            EventType::Join => {
                let repeats_own = is_own && sender.is_current(hash(&event.conn_id));
                if !repeats_own {
                    let place = (receiver, member, Memberships::JOIN);
                    self.arrive(place, (event, sender), in_sequence);
                }
                let (n, _) = self.stamp((receiver, member), event, users, now)?;
                self.rejoin(receiver, member, n, (event, sender));
                None
            }
            EventType::Leave => {
                if user.phase == Phase::Joined && sender.is_certain(hash(&event.conn_id)) {
                    let index = self.first_of_room(receiver) + member as usize;
                    let unasked = &mut self.unasked[index];
                    (unasked.count, unasked.at) = (unasked.count + 1, now);
                }
                let place = (receiver, member, Memberships::LEAVE);
                self.arrive(place, (event, sender), in_sequence);
                None
            }
        }
    }

    /// Compares the epoch and the time of an event with what its sender knows, and returns its true type.
    fn compare(
        &mut self,
        event: &PresenceEvent<'_>,
        (receiver, member): (u32, u32),
        user: &User,
        now: u64,
    ) -> EventType {
        let sender = &user.sender;
        let since = event.stamp.map_or(0, |stamp| stamp.t);
        // A stamp that nobody sent is counted by itself.
        let since = if since <= now { since } else { 0 };
        let has_wrong_time = !self.clock.is_between(event.ts, (since, now));
        self.count(count::WRONG_TIME, has_wrong_time.into());
        if user.phase != Phase::Joined || !sender.is_certain(hash(&event.conn_id)) {
            return event.kind;
        }
        let has_wrong_epoch = !self.is_epoch(event.epoch, user);
        self.count(count::WRONG_EPOCH, has_wrong_epoch.into());
        let Some(stamp) = event.stamp.filter(|_| sender.join_stamp > 0) else {
            return event.kind;
        };
        let is_join = stamp.t == sender.join_stamp;
        let is_update = !is_join
            && (1..=u64::from(sender.n)).contains(&stamp.n)
            && sender.has_changed(stamp.n as u32, stamp.t);
        let kind = match event.kind {
            // A node that has missed the join, or removed the member, tells of it later, in its present state.
            EventType::Join if is_update && self.knows(receiver, member, sender) => {
                EventType::Update
            }
            EventType::Update if is_join => EventType::Join,
            kind => kind,
        };
        self.count(count::WRONG_TYPE, u64::from(kind != event.kind));
        kind
    }

    /// Returns true if a receiver was told that a sender has joined with its connection, and not that it has left.
    fn knows(&mut self, receiver: u32, member: u32, sender: &Sender) -> bool {
        self.presence(receiver, member).knows(sender.memberships)
    }

    /// Follows the room's sequence. Returns the place of the event, if the server numbers its events and the receiver's
    /// join is acknowledged.
    fn sequence(&mut self, receiver: u32, event: &PresenceEvent<'_>) -> Option<Arrival> {
        let seq = event.seq?;
        let state = &mut self.receivers[receiver as usize];
        if state.membership == Membership::Joining {
            state.base = state.base.max(seq);
            return None;
        }
        let restarts = event.degraded != state.is_degraded;
        let number = seq.checked_sub(state.base);
        if restarts || number.is_some_and(|number| number > u64::from(u32::MAX)) {
            state.is_degraded = event.degraded;
            (state.base, state.window) = (seq, Window::after(0));
            return None;
        }
        let number = number.unwrap_or(0) as u32;
        if state.base == 0 && state.window == Window::after(0) {
            // The join had no number: the sequence begins with the first event.
            (state.base, state.window) = (seq, Window::after(0));
            return None;
        }
        let arrival = state.window.arrive(number);
        if let Arrival::Later { lost } = arrival {
            self.count(count::SEQUENCE_GAPS, u64::from(lost));
        }
        Some(arrival)
    }

    /// Takes a join or leave of a sender's connection.
    fn arrive(
        &mut self,
        (receiver, member, kind): (u32, u32, u16),
        (event, sender): (&PresenceEvent<'_>, &Sender),
        in_sequence: Option<Arrival>,
    ) {
        let is_joining = self.receivers[receiver as usize].membership == Membership::Joining;
        let Some(connection) = sender.which(hash(&event.conn_id)) else {
            // The receiver is behind, or it is the late leave of a connection that broke.
            let presence = self.presence(receiver, member);
            presence.arrive_behind(sender.memberships);
            return self.judge(in_sequence);
        };
        let presence = self.presence(receiver, member);
        let (arrival, lost) = presence.arrive(connection, kind, sender.memberships);
        self.judge(match arrival {
            Arrival::Later { .. } => in_sequence,
            late_or_again => Some(late_or_again),
        });
        // What was published before the snapshot need not arrive.
        if !is_joining {
            self.lose(lost);
        }
    }

    /// Returns true if an event may be of a connection before the sender's last two: the receiver is behind, or the
    /// server has carried out late what was under way on a connection that broke.
    #[cold]
    fn is_of_older_connection(
        &self,
        (receiver, member): (u32, u32),
        connection: u32,
        users: &[User],
    ) -> bool {
        let room = &users[self.first_of_room(receiver)..][..self.size()];
        let sender = &room[member as usize].sender;
        let presence = self.presences[receiver as usize * self.size() + member as usize];
        presence.is_behind(sender.memberships)
            || sender.may_be_overtaken(connection)
                && room.iter().all(|user| !user.sender.is_current(connection))
    }

    /// Returns the stamp of an event, if its sender can have sent it.
    fn stamp(
        &mut self,
        (receiver, member): (u32, u32),
        event: &PresenceEvent<'_>,
        users: &[User],
        now: u64,
    ) -> Option<(u32, u64)> {
        let sender = &users[self.first_of_room(receiver) + member as usize].sender;
        let connection = hash(&event.conn_id);
        let is_sender = sender.which(connection).is_some()
            || self.is_of_older_connection((receiver, member), connection, users);
        let is_certain = sender.is_certain(connection) && sender.join_stamp > 0;
        let is_whole = is_certain && event.kind == EventType::Update;
        let is_padding = |letters| letters == self.padding || letters == 0 && !is_whole;
        let stamp = event.stamp.filter(|stamp| {
            stamp.n <= u64::from(sender.n)
                && (self.origin..=now).contains(&stamp.t)
                && event.padding.is_some_and(is_padding)
                && (!is_certain || sender.has_sent(stamp.n as u32, stamp.t))
        });
        match stamp.filter(|_| is_sender) {
            Some(stamp) => Some((stamp.n as u32, stamp.t)),
            None => {
                self.count(count::WRONG_STATE, 1);
                None
            }
        }
    }

    /// Takes an update. Returns true if it is new.
    fn update(
        &mut self,
        (receiver, member): (u32, u32),
        n: u32,
        is_overtaken: impl FnOnce() -> bool,
        in_sequence: Option<Arrival>,
    ) -> bool {
        let is_joining = self.receivers[receiver as usize].membership == Membership::Joining;
        let window = self.window(receiver, member);
        if is_joining {
            window.seen = window.seen.max(n);
            return true;
        }
        let arrival = window.arrive(n);
        // The sequence of the room orders the changes of different senders too. A server may carry out the last requests
        // of a connection that was cut after the join of the next one, which had their changes already.
        self.judge(match arrival {
            Arrival::Later { .. } => in_sequence,
            Arrival::Again if is_overtaken() => in_sequence,
            late_or_again => Some(late_or_again),
        });
        if let Arrival::Later { lost } = arrival {
            self.count(count::LOST, u64::from(lost));
        }
        arrival != Arrival::Again
    }

    /// Begins a new membership of a sender, as a receiver sees it: all changes of the one before should have arrived.
    fn rejoin(
        &mut self,
        receiver: u32,
        member: u32,
        n: u32,
        (event, sender): (&PresenceEvent<'_>, &Sender),
    ) {
        let is_joining = self.receivers[receiver as usize].membership == Membership::Joining;
        let is_current = sender.is_current(hash(&event.conn_id));
        let window = self.window(receiver, member);
        if is_joining {
            window.seen = window.seen.max(n);
            return;
        }
        let before = std::mem::replace(window, Window::after(n));
        // An event that comes again must not begin a membership again.
        if n < before.last {
            *window = before;
            return;
        }
        self.count(count::LOST, u64::from(before.missing()));
        let presence = self.presence(receiver, member);
        if is_current && presence.follows(WhichConnection::Previous, sender.memberships) {
            let unseen = u64::from(sender.acked_before_join().saturating_sub(before.last));
            if sender.has_broken {
                self.count(count::LOST_WITH_SENDER, unseen)
            } else {
                self.count(count::LOST, unseen)
            }
        }
    }

    fn count(&self, counter: Counter, number: u64) {
        self.counts.add(counter, number);
    }

    /// Counts an event that did not arrive in its place.
    fn judge(&self, arrival: Option<Arrival>) {
        match arrival {
            Some(Arrival::Late) => self.count(count::REORDERED, 1),
            Some(Arrival::Again) => self.count(count::DUPLICATED, 1),
            Some(Arrival::Later { .. }) | None => {}
        }
    }

    /// Counts joins and leaves that never arrived: bits as in [`Memberships`].
    fn lose(&self, events: u16) {
        let [joins, leaves] = [0xAAAA, 0x5555].map(|kind| u64::from((events & kind).count_ones()));
        self.count(count::LOST_JOINS, joins);
        self.count(count::LOST_LEAVES, leaves);
    }

    /// Returns true if each member of a room has received all that was acknowledged.
    pub(crate) fn is_settled(&self, room: u32, users: &[User]) -> bool {
        let first = room as usize * self.size();
        let members = first..first + self.size();
        members.clone().all(|receiver| {
            let receiver = receiver as u32;
            let mut senders = (0..).zip(&users[members.clone()]);
            let mut others = self.others(receiver, users);
            !self.is_audited(receiver, users)
                || senders.all(|(member, user)| self.unseen(receiver, member, &user.sender) == 0)
                    && others
                        .all(|(member, sender)| self.missed(receiver, member, sender, users) == 0)
        })
    }

    /// Returns how many acknowledged changes of a sender's last membership a receiver should still see.
    fn unseen(&self, receiver: u32, member: u32, sender: &Sender) -> u32 {
        let pair = receiver as usize * self.size() + member as usize;
        if self.presences[pair].follows(WhichConnection::Current, sender.memberships) {
            sender.acked.saturating_sub(self.windows[pair].last)
        } else {
            0
        }
    }

    fn is_audited(&self, receiver: u32, users: &[User]) -> bool {
        let receiver = receiver as usize;
        users[receiver].can_send() && self.receivers[receiver].membership == Membership::Member
    }

    /// Counts what is missing at the end: each member should have received the last change of each sender that was
    /// acknowledged.
    pub(crate) fn finish(&mut self, users: &[User]) {
        self.has_finished = true;
        for receiver in 0..self.receivers.len() as u32 {
            if !self.is_audited(receiver, users) {
                continue;
            }
            self.count_missing(receiver);
            for (member, sender) in self.others(receiver, users) {
                let missed = self.missed(receiver, member, sender, users);
                self.lose(missed);
            }
            let first = self.first_of_room(receiver);
            for member in 0..self.size() {
                let sender = &users[first + member].sender;
                let unseen = u64::from(self.unseen(receiver, member as u32, sender));
                if sender.is_joined() {
                    self.count(count::LOST, unseen)
                } else {
                    self.count(count::LOST_WITH_SENDER, unseen)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
