//! A room without connections, which benches the audit.

use std::rc::Rc;

use measure::counters::Counters;

use super::{Audit, COUNTERS};
use crate::outcome::count;
use crate::protocol::presence::{Member, PresenceEvent};
use crate::roles::population::{Behaviour, Part};
use crate::roles::user::{Phase, User};

/// The room `room-001` with its users `user-1-1` and so on, as the audit of a worker sees them.
#[derive(Debug)]
pub struct AuditedRoom {
    audit: Audit,
    users: Vec<User>,
    now: u64,
}

impl AuditedRoom {
    /// Creates a room whose users are connected as `c0`, `c1` and so on, and are not joined.
    #[must_use]
    pub fn new(users: u32) -> Self {
        let part = Part::new_room(users);
        let connected = (0..users).map(|user| {
            let mut connected = User::new(Behaviour::Active);
            connected.sender.connect(&format!("c{user}"));
            connected
        });
        Self {
            audit: Audit::new(part, 0, 0, &Rc::new(Counters::new(count::COUNTERS))),
            users: connected.collect(),
            now: 1,
        }
    }

    /// Joins a user, and checks the snapshot with the sequence number `seq`. Returns the number of its members.
    pub fn join<'a>(
        &mut self,
        user: u32,
        seq: u64,
        snapshot: impl Iterator<Item = Member<'a>>,
    ) -> u64 {
        self.now += 1;
        self.audit.begin_join(user, &self.users);
        let begun = (self.now, self.now, Some(seq));
        let members = self.audit.joined(user, begun, snapshot, &self.users);
        let user = &mut self.users[user as usize];
        (user.phase, user.sender.joined_at) = (Phase::Joined, self.now);
        members
    }

    /// Sends a heartbeat of a user, and takes its acknowledgement.
    pub fn heartbeat(&mut self, user: u32) {
        self.now += 1;
        let sender = &mut self.users[user as usize].sender;
        sender.acked = sender.change(self.now);
    }

    /// Audits an event that a user receives. Returns the intended start of its change, if it is new.
    pub fn receive(&mut self, user: u32, event: &PresenceEvent<'_>) -> Option<u64> {
        self.now += 1;
        self.audit.event(user, event, &self.users, self.now)
    }

    /// Returns true if nothing was lost, duplicated, reordered or wrong so far.
    #[must_use]
    pub fn is_right(&self) -> bool {
        let is_right = |counter| counter == count::EVENTS || self.audit.counts.get(counter) == 0;
        COUNTERS.into_iter().all(is_right)
    }
}
