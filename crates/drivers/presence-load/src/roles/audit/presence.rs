//! Joins and leaves that should arrive once each, with or without numbers of the server.

use super::window::Arrival;
use crate::roles::user::{Memberships, WhichConnection};

/// Two bits for each connection, as in [`Memberships`], of the current connection and the one before.
const BITS: u8 = 0b1111;

/// The joins and leaves of a sender as a receiver sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Presence {
    /// The sender's number of connections that the bits count from.
    connections: u8,
    /// The events that have arrived, and above them those that need not: the snapshot may include them.
    bits: u8,
}

impl Presence {
    /// Begins a membership of the receiver: no event of the past need arrive.
    pub(super) fn begin(sender: Memberships) -> Self {
        Self {
            connections: sender.connections,
            bits: BITS << 4,
        }
    }

    /// Continues with the snapshot of the receiver's join. If it shows the sender under a connection, its leave must
    /// arrive. If it does not, and the sender `will_join`, that must arrive too.
    pub(super) fn compare(
        &mut self,
        (shows_previous, shows_current): (bool, bool),
        will_join: bool,
        sender: Memberships,
    ) {
        self.advance(sender);
        let mut must_arrive = 0;
        if shows_previous {
            must_arrive |= bit(WhichConnection::Previous, Memberships::LEAVE);
        }
        if shows_current || will_join {
            must_arrive |= bit(WhichConnection::Current, Memberships::LEAVE);
        }
        if !shows_current && will_join {
            must_arrive |= bit(WhichConnection::Current, Memberships::JOIN);
        }
        self.bits = (self.bits & BITS) | (BITS & !must_arrive) << 4;
    }

    /// Takes a join or leave. Returns its place, and the events that are lost for certain.
    pub(super) fn arrive(
        &mut self,
        connection: WhichConnection,
        event: u16,
        sender: Memberships,
    ) -> (Arrival, u16) {
        // Events of the connection before the last can no longer be told from others.
        let lost = self.missing(sender) & !u16::from(BITS);
        self.advance(sender);
        let bit = bit(connection, event);
        let is_certain = sender.certain & u16::from(bit) != 0;
        let is_once = is_certain || connection == WhichConnection::Current && !sender.is_uncertain;
        let (has_arrived, need_not) = (self.bits & BITS, self.bits >> 4);
        let leave = self::bit(connection, Memberships::LEAVE);
        let has_left = has_arrived & leave != 0 && sender.certain & u16::from(leave) == 0;
        let arrival =
            if has_left && event == Memberships::JOIN && (has_arrived | need_not) & bit != 0 {
                // The server had removed the member, and it is back with its connection.
                self.bits &= !leave;
                Arrival::Later { lost: 0 }
            } else if has_arrived & bit != 0 && is_once {
                Arrival::Again
            } else if has_arrived & (bit - 1) != 0 && is_certain && need_not & bit == 0 {
                Arrival::Late
            } else {
                Arrival::Later { lost: 0 }
            };
        self.bits |= bit;
        (arrival, lost)
    }

    /// Returns true if events of connections before the sender's last two may be under way to the receiver.
    pub(super) fn is_behind(self, sender: Memberships) -> bool {
        self.behind(sender) >= 2
    }

    /// Takes a join or leave of a connection before the sender's last two. It can't be told which, so none of those
    /// connections is judged.
    pub(super) fn arrive_behind(&mut self, sender: Memberships) {
        if self.is_behind(sender) {
            self.connections = sender.connections.wrapping_sub(2);
            self.bits = BITS << 4;
        }
    }

    /// Returns true if the current connection's join has arrived, or need not, and its leave has not.
    pub(super) fn knows(mut self, sender: Memberships) -> bool {
        self.advance(sender);
        let join = bit(WhichConnection::Current, Memberships::JOIN);
        let leave = bit(WhichConnection::Current, Memberships::LEAVE);
        (self.bits | self.bits >> 4) & join != 0 && self.bits & leave == 0
    }

    /// Returns true if a receiver should see the changes of a connection: the snapshot showed it, or it joined later.
    pub(super) fn follows(mut self, connection: WhichConnection, sender: Memberships) -> bool {
        self.advance(sender);
        let need_not = self.bits >> 4;
        need_not & bit(connection, Memberships::LEAVE) == 0
            || self.bits & bit(connection, Memberships::JOIN) != 0
    }

    /// Takes back the leave of the current connection: its sender is still joined.
    pub(super) fn retract_leave(&mut self, sender: Memberships) {
        self.advance(sender);
        self.bits &= !bit(WhichConnection::Current, Memberships::LEAVE);
    }

    /// Returns the events that must have arrived by now, and have not.
    pub(super) fn missing(self, sender: Memberships) -> u16 {
        let behind = 2 * self.behind(sender);
        let come = u16::from(self.bits & BITS | self.bits >> 4);
        let come = come.checked_shl(behind).unwrap_or(0);
        let judged = u16::MAX.checked_shl(behind + 4).unwrap_or(0);
        sender.certain & !(come | judged)
    }

    /// Returns the missing events before the last that has arrived.
    pub(super) fn skipped(self, sender: Memberships) -> u16 {
        let last = u32::from(self.bits & BITS).trailing_zeros() + 2 * self.behind(sender);
        self.missing(sender) & u16::MAX.checked_shl(last).unwrap_or(0)
    }

    /// Returns how many connections the sender has had since.
    fn behind(self, sender: Memberships) -> u32 {
        sender.connections.wrapping_sub(self.connections).into()
    }

    fn advance(&mut self, sender: Memberships) {
        let behind = 2 * self.behind(sender);
        let shift = |bits: u8| bits.checked_shl(behind).unwrap_or(0) & BITS;
        self.bits = shift(self.bits & BITS) | shift(self.bits >> 4) << 4;
        self.connections = sender.connections;
    }
}

fn bit(connection: WhichConnection, event: u16) -> u8 {
    let event = event as u8;
    match connection {
        WhichConnection::Current => event,
        WhichConnection::Previous => event << 2,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::roles::user::{Sender, hash};

    /// A sender that comes and goes, and a receiver that gets all of it, but for one wrong delivery.
    struct Model {
        sender: Sender,
        presence: Presence,
        connections: u32,
        /// The connection that broke, if its leave was not delivered.
        broken: Option<u32>,
        /// Joins and leaves that were acknowledged, so far.
        certain: usize,
        wrong: Option<(usize, Wrong)>,
        lost: u32,
        again: u32,
        late: u32,
    }

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Wrong {
        Lose,
        Repeat,
    }

    impl Model {
        fn new(wrong: Option<(usize, Wrong)>) -> Self {
            let sender = Sender::default();
            Self {
                sender,
                presence: Presence::begin(sender.memberships),
                connections: 0,
                broken: None,
                certain: 0,
                wrong,
                lost: 0,
                again: 0,
                late: 0,
            }
        }

        fn connect(&mut self) {
            self.connections += 1;
            self.sender.connect(&format!("c{}", self.connections));
        }

        /// Delivers an event of the connection with this number.
        fn deliver(&mut self, connection: u32, event: u16) {
            let Some(connection) = self.sender.which(hash(&format!("c{connection}"))) else {
                return;
            };
            let memberships = self.sender.memberships;
            let (arrival, lost) = self.presence.arrive(connection, event, memberships);
            self.lost += lost.count_ones();
            self.again += u32::from(arrival == Arrival::Again);
            self.late += u32::from(arrival == Arrival::Late);
        }

        /// Delivers an event that is acknowledged at the same time.
        fn deliver_certain(&mut self, event: u16) {
            let wrong = self.wrong.filter(|(at, _)| *at == self.certain);
            self.certain += 1;
            let times = match wrong {
                Some((_, Wrong::Lose)) => 0,
                Some((_, Wrong::Repeat)) => 2,
                None => 1,
            };
            for _ in 0..times {
                self.deliver(self.connections, event);
            }
        }

        /// Joins if the sender is away; otherwise leaves, or breaks its connection. The leave of a broken connection
        /// comes at a later step, or never.
        fn step(&mut self, step: u8, is_away: bool) {
            if step & 1 != 0
                && let Some(broken) = self.broken.take()
            {
                self.deliver(broken, Memberships::LEAVE);
            }
            if is_away {
                self.connect();
                self.deliver_certain(Memberships::JOIN);
                self.sender.memberships.publish(Memberships::JOIN);
            } else if step & 2 != 0 {
                self.broken = Some(self.connections);
            } else if step & 4 != 0 {
                self.deliver_certain(Memberships::LEAVE);
                self.sender.leave_acknowledged(1);
            } else {
                self.sender.leave_acknowledged(1);
                self.deliver_certain(Memberships::LEAVE);
            }
        }

        /// Returns how many events were lost, came twice, and came late, and how many were certain.
        fn run(mut self, steps: &[u8]) -> (u32, u32, u32, usize) {
            for (index, step) in steps.iter().enumerate() {
                self.step(*step, index % 2 == 0);
            }
            let missing = self.presence.missing(self.sender.memberships);
            (
                self.lost + missing.count_ones(),
                self.again,
                self.late,
                self.certain,
            )
        }
    }

    #[test]
    fn connections_of_which_nothing_arrived_are_lost_as_far_as_they_are_kept() {
        let mut model = Model::new(None);
        let both = Memberships::JOIN | Memberships::LEAVE;
        for _ in 0..6 {
            model.connect();
            model.sender.memberships.publish(both);
        }
        let missing = |model: &Model| {
            let memberships = model.sender.memberships;
            let counts = [Presence::missing, Presence::skipped];
            counts.map(|count| count(model.presence, memberships).count_ones())
        };
        assert_eq!(missing(&model), [12, 0]);
        model.deliver(model.connections, Memberships::LEAVE);
        // The leave of the connection before, and both joins, may still come.
        assert_eq!(model.lost, 8);
        assert_eq!(missing(&model), [3, 3]);
        model.connect();
        model.sender.memberships.publish(both);
        assert_eq!(missing(&model), [5, 3]);
    }

    proptest! {
        #[test]
        fn one_wrong_delivery_is_found_and_nothing_else(
            steps in prop::collection::vec(0..8_u8, 1..700),
            at in 0..700_usize,
        ) {
            let (lost, again, late, certain) = Model::new(None).run(&steps);
            prop_assert_eq!((lost, again, late), (0, 0, 0));
            let at = at % certain;
            let (lost, again, late, _) = Model::new(Some((at, Wrong::Lose))).run(&steps);
            prop_assert_eq!((lost, again, late), (1, 0, 0));
            let (lost, again, late, _) = Model::new(Some((at, Wrong::Repeat))).run(&steps);
            prop_assert_eq!((lost, again, late), (0, 1, 0));
        }
    }
}
