//! The state of a user, without I/O.

use crate::roles::population::Behaviour;

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
    pub(super) attempts: u8,
    /// True once its first attempt to join has ended: the load waits for that.
    pub(super) has_opened: bool,
    /// True while it is away because the plan asks for that.
    pub(crate) is_churning: bool,
    pub(super) sender: Sender,
    /// The epoch of its membership; 0 if the server issues none.
    pub(crate) epoch: u64,
    /// Time of its last request, or of the start of its connection attempt.
    pub(crate) sent: u64,
    /// Time at which its connection was lost; 0 if it was not.
    pub(super) lost_at: u64,
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
    pub(super) acked_before: u32,
    /// The number of its last change when its last join was sent.
    pub(super) joined_with: u32,
    /// The hash of its connection's id, and of the one before.
    pub(super) connection: u32,
    pub(super) previous: u32,
    /// Time since which it is joined; `u64::MAX` if it is not.
    pub(super) joined_at: u64,
    /// True if its last membership but this one ended with its connection.
    pub(super) has_broken: bool,
    /// True once any has: what was under way on its connection may be carried out after memberships that ended orderly.
    pub(super) has_ever_broken: bool,
    /// Its joins and leaves.
    pub(super) memberships: Memberships,
    /// The hash of the last connection whose leave was acknowledged, and the time of that.
    pub(super) left: u32,
    pub(super) left_at: u64,
}

impl Sender {
    /// Begins a change that was due at `at`. Returns its number.
    pub(super) fn change(&mut self, at: u64) -> u32 {
        self.n += 1;
        self.changes[self.n as usize % CHANGES] = at as u32;
        self.n
    }

    /// Returns true if `at` is the intended start of the change with the number `n`, or if that is too old to be known.
    pub(super) fn has_changed(&self, n: u32, at: u64) -> bool {
        let is_recent = self.n - n < CHANGES as u32;
        n > 0 && (!is_recent || self.changes[n as usize % CHANGES] == at as u32)
    }

    /// Returns true if this is its connection, with which it has joined once.
    pub(super) fn is_certain(&self, connection: u32) -> bool {
        connection == self.connection && !self.memberships.is_uncertain
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
        (self.acked_before, self.joined_with) = (self.acked, self.n);
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
