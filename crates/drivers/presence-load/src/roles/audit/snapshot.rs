//! Compares the snapshots of joins with what may be in them.

use super::window::Window;
use super::{Audit, Membership};
use crate::outcome::count;
use crate::protocol::presence::Member;
use crate::roles::user::{Phase, Sender, User, WhichConnection, hash};

impl Audit {
    /// Checks the snapshot of a join that was sent at `sent` and acknowledged at `now`, and begins to compare from
    /// there. Returns the number of its members.
    pub(crate) fn joined<'a>(
        &mut self,
        receiver: u32,
        (sent, now, seq): (u64, u64, Option<u64>),
        snapshot: impl IntoIterator<Item = Member<'a>>,
        users: &[User],
    ) -> u64 {
        let (room, first) = (self.part.room_of(receiver), self.first_of_room(receiver));
        let mut members = 0;
        // True for each member that it shows with the current connection, and with the one before.
        let mut shown = vec![false; self.size()];
        let mut shown_before = shown.clone();
        for entry in snapshot {
            members += 1;
            let Some(member) = self.part.member_named(room, &entry.user_id) else {
                continue;
            };
            let sender = &users[first + member as usize].sender;
            let connection = hash(&entry.conn_id);
            // The user may have been here before, in this run or in an earlier one.
            let which = sender.which(connection);
            if sender.had_left(connection, sent) {
                self.count(count::LINGERING, 1);
            } else if which == Some(WhichConnection::Previous) {
                shown_before[member as usize] = true;
            } else if which == Some(WhichConnection::Current) {
                if std::mem::replace(&mut shown[member as usize], true) {
                    self.count(count::SNAPSHOT_ERRORS, 1);
                }
                if member == self.part.member_of(receiver) {
                    self.clock.learn(entry.last_seen_ms, (sent, now));
                }
                let user = &users[first + member as usize];
                let n = entry.stamp.and_then(|stamp| u32::try_from(stamp.n).ok());
                let n = n.filter(|_| self.is_entry_right(&entry, user, (sent, now)));
                self.shown(receiver, member, n, sender);
            }
        }
        for member in 0..self.size() {
            let user = &users[first + member];
            let (shows_previous, shows_current) = (shown_before[member], shown[member]);
            let member = member as u32;
            if !shows_current {
                self.not_shown(receiver, member, user, sent);
            }
            // The connection of its next join may not be known yet.
            let is_coming = matches!(user.phase, Phase::Joining | Phase::Joined)
                && !user.sender.has_left_current();
            // If it was joined all the time, its absence is an error of the snapshot.
            let will_join = !shows_current && is_coming && user.sender.joined_at >= sent;
            let memberships = user.sender.memberships;
            let presence = self.presence(receiver, member);
            presence.compare((shows_previous, shows_current), will_join, memberships);
        }
        self.begin_sequence(receiver, seq);
        members
    }

    /// Returns true if a snapshot that was made between two times may show a user like this.
    fn is_entry_right(&self, entry: &Member<'_>, user: &User, (sent, now): (u64, u64)) -> bool {
        let sender = &user.sender;
        let is_certain = !sender.memberships.is_uncertain && sender.join_stamp > 0;
        let was_joined = is_certain && user.phase == Phase::Joined && sender.joined_at < sent;
        let is_epoch = !was_joined || self.is_epoch(entry.epoch, user);
        let is_state = entry.stamp.is_none_or(|stamp| {
            let n = u32::try_from(stamp.n).unwrap_or(u32::MAX).min(sender.n);
            !is_certain || sender.has_sent(n, stamp.t)
        });
        let is_padding = entry
            .padding
            .is_some_and(|letters| letters == 0 || letters == self.padding);
        let since = if is_certain { sender.join_stamp } else { 0 };
        let is_time = self.clock.is_between(entry.last_seen_ms, (since, now));
        is_epoch && is_state && is_padding && is_time
    }

    /// Returns true if an epoch may belong to a joined user.
    pub(super) fn is_epoch(&self, epoch: Option<u64>, user: &User) -> bool {
        user.epoch == 0 || epoch.is_none_or(|epoch| epoch == user.epoch)
    }

    /// Begins to compare with a member's number in the snapshot.
    fn shown(&mut self, receiver: u32, member: u32, n: Option<u32>, sender: &Sender) {
        let window = self.window(receiver, member);
        let (acked, arrived) = (window.last, window.seen);
        let n = n.filter(|n| (acked..=sender.n).contains(n));
        *window = Window::after(n.unwrap_or(acked).max(arrived));
        self.count(count::SNAPSHOT_ERRORS, u64::from(n.is_none()));
    }

    /// Checks that a member that the snapshot does not show was not joined all the time since the join was sent.
    /// Whatever its changes before the snapshot, those after its last join are still to come, if that was later.
    fn not_shown(&mut self, receiver: u32, member: u32, user: &User, sent: u64) {
        let sender = &user.sender;
        let is_own = self.part.member_of(receiver) == member;
        let was_joined = sender.joined_at < sent && user.phase == Phase::Joined;
        let is_missing = is_own || (was_joined && user.can_send());
        let window = self.window(receiver, member);
        let arrived = window.seen;
        *window = Window::after(match arrived {
            0 if is_missing => sender.acked,
            0 => sender.changes_before_join(),
            arrived => arrived,
        });
        self.count(count::SNAPSHOT_ERRORS, u64::from(is_missing));
    }

    fn begin_sequence(&mut self, receiver: u32, seq: Option<u64>) {
        let state = &mut self.receivers[receiver as usize];
        state.membership = Membership::Member;
        // Events may have arrived while the join was under way.
        state.base = seq.unwrap_or(0).max(state.base);
        state.window = Window::after(0);
    }
}
