//! The state of a user, without I/O.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::population::Behaviour;

/// The first and the longest delay before a user connects again; it doubles with each failed attempt. The official
/// client has the same values.
pub(crate) const FIRST_BACKOFF: Duration = Duration::from_secs(1);
pub(crate) const LONGEST_BACKOFF: Duration = Duration::from_secs(5);

/// The current activity of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Phase {
    /// Has not begun.
    #[default]
    Waiting,
    /// Connects: TCP, TLS, the transport, and the namespace.
    Connecting,
    /// Its join is not acknowledged.
    Joining,
    Joined,
    /// Its leave is not acknowledged.
    Leaving,
    /// Waits until it connects again.
    Backoff,
    /// Does not come back.
    Ended,
}

/// A user. It outlives its connections.
#[derive(Debug, Default)]
pub(crate) struct User {
    pub(crate) phase: Phase,
    pub(crate) behaviour: Behaviour,
    /// Failed attempts to connect since it was last joined.
    attempts: u8,
    /// True once its first attempt to join has ended: the load waits for that.
    has_opened: bool,
    /// True while it is away because the plan asks for that.
    pub(crate) is_churning: bool,
    pub(super) sender: Sender,
    /// The epoch of its membership; 0 if the server issues none.
    pub(crate) epoch: u64,
    /// Time of its last request, or of the start of its connection attempt.
    pub(crate) sent: u64,
    /// Time at which its connection was lost; 0 if it was not.
    lost_at: u64,
}

/// Number of changes of a user whose intended starts are kept: more are rarely on the way at once.
const CHANGES: usize = 4;

/// The facts about a user as a sender that the audit needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sender {
    /// The sequence number of its last change.
    pub(super) n: u32,
    /// The intended starts of its last changes in nanoseconds, modulo 2³², each at its number modulo their count.
    changes: [u32; CHANGES],
    /// The time in the stamp of its last join; 0 before the first.
    pub(super) join_stamp: u64,
    /// The sequence number of its last change that was acknowledged.
    pub(super) acked: u32,
    /// The same when its last join was sent.
    acked_before_join: u32,
    /// The number of its last change when its last join was sent.
    changes_before_join: u32,
    /// The hash of its connection's id, and of the one before.
    connection: u32,
    previous: u32,
    /// Time since which it is joined; `u64::MAX` if it is not.
    pub(super) joined_at: u64,
    /// True if its last membership but this one ended with its connection.
    pub(super) has_broken: bool,
    /// True once any has: what was under way on its connection may be carried out after memberships that ended orderly.
    has_ever_broken: bool,
    /// Its joins and leaves.
    pub(super) memberships: Memberships,
    /// The hash of the last connection whose leave was acknowledged, and the time of that.
    left: u32,
    left_at: u64,
}

/// A connection of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WhichConnection {
    Current,
    Previous,
}

impl Sender {
    /// Begins a change that was due at `at`. Returns its number.
    pub(super) fn change(&mut self, at: u64) -> u32 {
        self.n += 1;
        self.changes[self.n as usize % CHANGES] = at as u32;
        self.n
    }

    /// Returns true if a stamp with these values is of its last join, or of a change.
    pub(super) fn has_sent(&self, n: u32, at: u64) -> bool {
        at == self.join_stamp || self.has_changed(n, at)
    }

    /// Returns true if `at` is the intended start of the change with the number `n`, or if that is too old to be known.
    pub(super) fn has_changed(&self, n: u32, at: u64) -> bool {
        let is_recent = self.n - n < CHANGES as u32;
        n > 0 && (!is_recent || self.changes[n as usize % CHANGES] == at as u32)
    }

    /// Returns which of its connections this is; `None` for those before, and for another user's.
    pub(super) fn which(&self, connection: u32) -> Option<WhichConnection> {
        match connection {
            current if current == self.connection => Some(WhichConnection::Current),
            previous if previous == self.previous => Some(WhichConnection::Previous),
            _ => None,
        }
    }

    pub(super) fn is_current(&self, connection: u32) -> bool {
        connection == self.connection
    }

    /// Returns true if this is its connection, with which it has joined once.
    pub(super) fn is_certain(&self, connection: u32) -> bool {
        self.is_current(connection) && !self.memberships.is_uncertain
    }

    /// Returns true if its connection may overtake what is under way on this one, since one that broke is among those
    /// before.
    pub(super) fn may_be_overtaken(&self, connection: u32) -> bool {
        self.has_ever_broken && !self.is_current(connection)
    }

    /// Returns true if the leave of this connection was acknowledged before a time.
    pub(super) fn had_left(&self, connection: u32, before: u64) -> bool {
        connection == self.left && self.left_at < before
    }

    /// Returns true if the leave of its connection was acknowledged, and the next one is not known.
    pub(super) fn has_left_current(&self) -> bool {
        self.connection == self.left
    }

    /// Returns the number of its last change that was acknowledged when its last join was sent.
    pub(super) fn acked_before_join(&self) -> u32 {
        self.acked_before_join
    }

    /// Returns the number of its last change when its last join was sent.
    pub(super) fn changes_before_join(&self) -> u32 {
        self.changes_before_join
    }

    /// Takes over the id of a new connection.
    pub(super) fn connect(&mut self, id: &str) {
        let connection = hash(id);
        if connection != self.connection {
            self.previous = self.connection;
            self.connection = connection;
            self.memberships.begin();
        }
    }

    /// Begins a membership: its join is being sent. Returns the number of its last change, for the join.
    pub(super) fn begin_join(&mut self) -> u32 {
        (self.acked_before_join, self.changes_before_join) = (self.acked, self.n);
        self.n
    }

    /// Ends its membership, with its connection if that broke.
    pub(super) fn end(&mut self, has_broken: bool) {
        self.joined_at = u64::MAX;
        self.has_broken = has_broken;
        self.has_ever_broken |= has_broken;
    }

    /// Registers that its leave was acknowledged.
    pub(super) fn leave_acknowledged(&mut self, now: u64) {
        (self.left, self.left_at) = (self.connection, now);
        self.memberships.publish(Memberships::LEAVE);
    }

    /// Returns the time by which its last certain join or leave was published; `u64::MAX` if that is not known.
    pub(super) fn published_by(&self) -> u64 {
        match self.memberships.certain & Memberships::LEAVE {
            0 => self.joined_at,
            _ => self.left_at,
        }
    }

    pub(super) fn is_joined(&self) -> bool {
        self.joined_at != u64::MAX
    }
}

/// The joins and leaves of a user that were published for certain: each other member of the room gets them once.
///
/// A connection has one of each. The leave of a connection that broke is not certain, nor is anything of one that joins
/// again because the server had removed the member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Memberships {
    /// Number of connections, modulo 256.
    pub(super) connections: u8,
    /// True if nothing is certain of the current connection.
    pub(super) is_uncertain: bool,
    /// Two bits for each of the last eight connections, the current one lowest: [`LEAVE`](Self::LEAVE) and
    /// [`JOIN`](Self::JOIN).
    pub(super) certain: u16,
}

impl Memberships {
    pub(super) const LEAVE: u16 = 1;
    pub(super) const JOIN: u16 = 2;

    fn begin(&mut self) {
        self.connections = self.connections.wrapping_add(1);
        self.is_uncertain = false;
        self.certain <<= 2;
    }

    /// Registers that the current connection's join or leave was acknowledged.
    pub(super) fn publish(&mut self, event: u16) {
        if !self.is_uncertain {
            self.certain |= event;
        }
    }

    /// Registers that the current connection joins again, or was told that other nodes can't be reached.
    pub(super) fn set_uncertain(&mut self) {
        self.is_uncertain = true;
        self.certain &= !(Self::JOIN | Self::LEAVE);
    }
}

impl User {
    pub(super) fn new(behaviour: Behaviour) -> Self {
        Self {
            behaviour,
            sender: Sender {
                joined_at: u64::MAX,
                ..Sender::default()
            },
            ..Self::default()
        }
    }

    /// Begins to connect. Returns the number of attempts that have failed since it was last joined.
    pub(super) fn begin_connect(&mut self, now: u64) -> u64 {
        (self.phase, self.sent) = (Phase::Connecting, now);
        self.attempts.into()
    }

    /// Counts a failed attempt. Returns false for the first of all, for which the load waits.
    pub(super) fn fail_attempt(&mut self) -> bool {
        self.attempts = self.attempts.saturating_add(1);
        self.has_opened
    }

    /// Registers that its first attempt to join has ended. Returns false if it had before.
    pub(super) fn open(&mut self) -> bool {
        !std::mem::replace(&mut self.has_opened, true)
    }

    /// Registers the answer to its join, which came at `now`. Returns the time at which its connection was lost, if it
    /// was.
    pub(super) fn join(&mut self, epoch: u64, is_degraded: bool, now: u64) -> Option<u64> {
        (self.phase, self.epoch) = (Phase::Joined, epoch);
        self.sender.joined_at = now;
        if is_degraded {
            self.sender.memberships.set_uncertain()
        } else {
            self.sender.memberships.publish(Memberships::JOIN)
        }
        (self.attempts, self.is_churning) = (0, false);
        Some(std::mem::take(&mut self.lost_at)).filter(|at| *at > 0)
    }

    /// Notes the loss of its connection. Returns false if that is known.
    pub(super) fn lose(&mut self, now: u64) -> bool {
        let is_new = self.lost_at == 0;
        if is_new {
            self.lost_at = now;
        }
        is_new
    }

    /// Ends its membership. Returns true if that was by a leave, on a connection that was not lost.
    pub(super) fn disconnect(&mut self, has_left: bool, now: u64) -> bool {
        let is_orderly = has_left && self.lost_at == 0;
        self.sender.end(!is_orderly);
        if is_orderly {
            self.sender.leave_acknowledged(now);
        }
        is_orderly
    }

    /// Returns true if it connects again after its connection has ended.
    pub(super) fn comes_back(&self) -> bool {
        self.behaviour == Behaviour::Active || !self.has_opened
    }

    /// Returns the delay before it connects again: the same in each run with the same seed, whatever the other users do.
    /// `index` is its number in the run.
    pub(super) fn backoff(&self, seed: u64, index: u64) -> Duration {
        let doubled = FIRST_BACKOFF * (1 << self.attempts.min(8));
        let seed = seed.wrapping_add(index << 8 | u64::from(self.attempts));
        // Users that were cut at once must not come back at once.
        let jitter: f64 = StdRng::seed_from_u64(seed).random_range(0.5..1.5);
        doubled.min(LONGEST_BACKOFF).mul_f64(jitter)
    }

    /// Returns true if it can send a heartbeat of the load.
    pub(crate) fn can_send(&self) -> bool {
        self.phase == Phase::Joined && self.behaviour == Behaviour::Active
    }

    /// Returns true if it is joined and reads nothing any more.
    #[inline]
    pub(crate) fn has_stopped_reading(&self) -> bool {
        self.phase == Phase::Joined && self.behaviour != Behaviour::Active
    }

    /// Returns true for a user that was joined, and has not come back.
    pub(super) fn is_away(&self) -> bool {
        let is_on_its_way = matches!(
            self.phase,
            Phase::Connecting | Phase::Joining | Phase::Backoff
        );
        let was_joined = self.lost_at > 0 || self.is_churning || self.sender.has_broken;
        is_on_its_way && was_joined && self.behaviour == Behaviour::Active
    }
}

/// Hashes the id of a connection to 32 bits: a wrong id matches with probability 2⁻³².
pub(super) fn hash(id: &str) -> u32 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut hash = id.len() as u64;
    for chunk in id.as_bytes().chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
    }
    // 0 stands for no connection.
    ((hash >> 32) as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_differ_in_one_byte_have_different_hashes() {
        let id = "Xw6kVhzp3tVnOPBgAAAB";
        for place in 0..id.len() {
            let mut other = id.as_bytes().to_vec();
            other[place] ^= 1;
            let other = String::from_utf8(other).unwrap();
            assert_ne!(hash(id), hash(&other), "{other}");
        }
        assert_ne!(hash("a"), hash("a\0"));
    }

    #[test]
    fn a_new_connection_keeps_the_one_before() {
        let mut sender = Sender::default();
        sender.connect("a");
        sender.connect("b");
        sender.connect("b");
        assert_eq!((sender.previous, sender.connection), (hash("a"), hash("b")));
    }
}
