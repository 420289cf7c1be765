//! Tests of the audit.

use load::schedule::Share;

use super::*;
use crate::population::{Behaviour, Names, Population};
use crate::protocol::presence::Stamp;

const ORIGIN: u64 = 1_000;
const NOW: u64 = 10_000;

/// A room of three users, all joined, in which each can be told what to receive.
struct Room {
    audit: Audit,
    users: Vec<User>,
    seq: u64,
    names: Names,
}

impl Room {
    fn new() -> Self {
        let part = Part {
            population: Population {
                rooms: 1,
                users_per_room: 3,
                slow_consumers: 0,
                half_open: 0,
            },
            share: Share::ALL,
        };
        let mut room = Self {
            audit: Audit::new(part, ORIGIN),
            users: (0..3).map(|_| User::new(Behaviour::Active)).collect(),
            seq: 3,
            names: Names::default(),
        };
        for user in 0..3 {
            room.connect(user, &format!("c{user}"));
            room.audit.begin_join(user, &room.users);
        }
        for user in 0..3 {
            room.joined(user, &[(0, "c0", 0), (1, "c1", 0), (2, "c2", 0)]);
        }
        room
    }

    fn connect(&mut self, user: u32, connection: &str) {
        self.users[user as usize].sender.connect(connection);
    }

    /// Acknowledges a join with a snapshot of members, connections and sequence numbers.
    fn joined(&mut self, user: u32, snapshot: &[(u32, &str, u64)]) {
        let names: Vec<String> = snapshot.iter().map(|entry| self.name(entry.0)).collect();
        let members = snapshot.iter().zip(&names);
        let members = members.map(|((_, connection, n), name)| {
            Ok(Member {
                conn_id: (*connection).into(),
                user_id: name.as_str().into(),
                stamp: Some(Stamp { n: *n, t: ORIGIN }),
                last_seen_ms: None,
                epoch: None,
            })
        });
        let begun = (NOW - 100, Some(self.seq));
        let joined = self.audit.joined(user, begun, members, &self.users);
        assert_eq!(joined, Ok(snapshot.len() as u64));
        let user = &mut self.users[user as usize];
        user.phase = Phase::Joined;
        user.sender.joined_at = NOW - 5_000;
    }

    fn name(&mut self, user: u32) -> String {
        self.audit.part.write_names(user, &mut self.names);
        self.names.user.clone()
    }

    /// Sends changes of a user, all acknowledged.
    fn send(&mut self, user: u32, changes: u32) {
        let sender = &mut self.users[user as usize].sender;
        sender.n += changes;
        sender.acked = sender.n;
    }

    fn event(&mut self, user: u32, n: u64, seq: u64) -> PresenceEvent<'static> {
        PresenceEvent {
            kind: EventType::Update,
            room_id: "room-001".into(),
            user_id: self.name(user).into(),
            conn_id: format!("c{user}").into(),
            stamp: Some(Stamp { n, t: ORIGIN + n }),
            has_state: true,
            seq: Some(seq),
            epoch: None,
            ts: None,
            reason: None,
            degraded: false,
        }
    }

    fn receive(&mut self, receiver: u32, event: &PresenceEvent<'_>) -> Option<u64> {
        self.audit.event(receiver, event, &self.users, NOW)
    }

    /// Delivers the changes of user 1 in this order to user 0, each with the number of its sequence, and everything else
    /// to everybody in order. Returns the counts at the end.
    fn deliver(mut self, changes: &[u64]) -> AuditCounts {
        let most = changes.iter().copied().max().unwrap_or(0);
        self.send(1, most as u32);
        for n in changes {
            let event = self.event(1, *n, 3 + n);
            self.receive(0, &event);
        }
        for receiver in 1..3 {
            for n in 1..=most {
                let event = self.event(1, n, 3 + n);
                self.receive(receiver, &event);
            }
        }
        self.audit.finish(&self.users);
        self.audit.counts
    }
}

fn counted(events: u64) -> AuditCounts {
    AuditCounts {
        events,
        ..AuditCounts::default()
    }
}

#[test]
fn events_in_their_order_are_right() {
    assert_eq!(Room::new().deliver(&[1, 2, 3, 4]), counted(12));
}

#[test]
fn an_event_that_never_comes_is_lost_once() {
    let expected = AuditCounts {
        lost: 1,
        sequence_gaps: 1,
        ..counted(11)
    };
    assert_eq!(Room::new().deliver(&[1, 3, 4]), expected);
}

#[test]
fn the_last_event_that_never_comes_is_lost() {
    let mut room = Room::new();
    room.send(2, 3);
    for receiver in 0..3 {
        for n in 1..=3 {
            if (receiver, n) != (1, 3) {
                let event = room.event(2, n, 3 + n);
                room.receive(receiver, &event);
            }
        }
    }
    assert!(!room.audit.is_settled(0, &room.users));
    room.audit.finish(&room.users);
    assert_eq!(
        (room.audit.counts.lost, room.audit.counts.duplicated),
        (1, 0)
    );
}

#[test]
fn an_event_that_comes_twice_is_duplicated() {
    let expected = AuditCounts {
        duplicated: 2,
        ..counted(14)
    };
    assert_eq!(Room::new().deliver(&[1, 2, 2, 3, 1, 4]), expected);
}

#[test]
fn an_event_that_comes_after_a_later_one_is_reordered_and_not_lost() {
    let expected = AuditCounts {
        reordered: 1,
        ..counted(12)
    };
    assert_eq!(Room::new().deliver(&[1, 3, 2, 4]), expected);
}

#[test]
fn an_event_of_another_room_is_wrong_and_says_nothing_of_its_sender() {
    let mut room = Room::new();
    room.send(1, 1);
    for (name, wrong) in [("room-002", 1), ("room-01", 2), ("", 3)] {
        let mut event = room.event(1, 1, 4);
        event.room_id = name.into();
        assert_eq!(room.receive(0, &event), None);
        assert_eq!(room.audit.counts.wrong_room, wrong);
    }
    let event = room.event(1, 1, 4);
    assert_eq!(room.receive(0, &event), Some(ORIGIN + 1));
    assert_eq!(room.audit.counts.sequence_gaps, 0);
}

#[test]
fn a_state_that_its_sender_never_sent_is_wrong() {
    let mut room = Room::new();
    room.send(1, 1);
    let right = room.event(1, 1, 4);
    let stamped = |n, t| Some(Stamp { n, t });
    for stamp in [
        None,
        stamped(2, ORIGIN),
        stamped(1, ORIGIN - 1),
        stamped(1, NOW + 1),
        stamped(1 << 32 | 1, ORIGIN),
    ] {
        let event = PresenceEvent {
            stamp,
            ..right.clone()
        };
        assert_eq!(room.receive(0, &event), None);
    }
    let event = PresenceEvent {
        conn_id: "c2".into(),
        ..right.clone()
    };
    assert_eq!(room.receive(0, &event), None);
    assert_eq!(room.audit.counts.wrong_state, 6);
}

#[test]
fn the_own_event_is_audited_and_is_no_propagation() {
    let mut room = Room::new();
    room.send(1, 1);
    let event = room.event(1, 1, 4);
    assert_eq!(room.receive(1, &event), None);
    assert_eq!(room.receive(0, &event), Some(ORIGIN + 1));
}

#[test]
fn users_of_others_are_foreign_and_count_in_the_sequence() {
    let mut room = Room::new();
    room.send(1, 1);
    let mut event = room.event(1, 1, 4);
    event.user_id = "somebody".into();
    room.receive(0, &event);
    let event = room.event(1, 1, 6);
    room.receive(0, &event);
    room.audit.end(0, true);
    let counts = room.audit.counts;
    assert_eq!(
        (counts.foreign, counts.sequence_gaps, counts.lost),
        (1, 1, 0)
    );
}

#[test]
fn a_snapshot_is_compared_with_what_was_acknowledged_before_and_sent_until_its_answer() {
    for (n, wrong) in [(4, 1), (5, 0), (6, 0), (7, 1)] {
        let mut room = Room::new();
        room.send(1, 5);
        room.audit.begin_join(0, &room.users);
        room.users[1].sender.n += 1;
        room.joined(0, &[(0, "c0", 0), (1, "c1", n), (2, "c2", 0)]);
        assert_eq!(room.audit.counts.snapshot_errors, wrong, "{n}");
    }
}

#[test]
fn a_snapshot_that_lacks_a_member_is_wrong_unless_it_joined_or_left_meanwhile() {
    let without_1: &[(u32, &str, u64)] = &[(0, "c0", 0), (2, "c2", 0)];
    type Change = fn(&mut User);
    let cases: [(Change, u64); 3] = [
        (|_| {}, 1),
        (|user| user.sender.joined_at = NOW - 50, 0),
        (|user| user.phase = Phase::Leaving, 0),
    ];
    for (change, wrong) in cases {
        let mut room = Room::new();
        room.audit.begin_join(0, &room.users);
        change(&mut room.users[1]);
        room.joined(0, without_1);
        assert_eq!(room.audit.counts.snapshot_errors, wrong);
    }
    let mut room = Room::new();
    room.audit.begin_join(0, &room.users);
    room.joined(0, &[(1, "c1", 0), (2, "c2", 0)]);
    assert_eq!(
        room.audit.counts.snapshot_errors, 1,
        "its own entry is missing"
    );
    room.audit.begin_join(0, &room.users);
    room.joined(0, &[(0, "c0", 0), (1, "c1", 0), (1, "c1", 0), (2, "c2", 0)]);
    assert_eq!(room.audit.counts.snapshot_errors, 2, "an entry comes twice");
}

#[test]
fn a_receiver_that_was_away_is_compared_from_its_snapshot_on() {
    let mut room = Room::new();
    room.send(1, 7);
    room.audit.end(0, false);
    room.connect(0, "c9");
    room.audit.begin_join(0, &room.users);
    (room.seq, room.users[1].sender.n) = (20, 9);
    // Change 8 comes before the answer, and 9 after it.
    let early = room.event(1, 8, 20);
    room.receive(0, &early);
    room.joined(0, &[(0, "c9", 0), (1, "c1", 8), (2, "c2", 0)]);
    room.users[1].sender.acked = 9;
    let next = room.event(1, 9, 21);
    room.receive(0, &next);
    let again = room.event(1, 8, 20);
    room.receive(0, &again);
    let counts = room.audit.counts;
    assert_eq!(
        (counts.lost, counts.duplicated, counts.sequence_gaps),
        (0, 1, 0)
    );
}

/// User 1 sends five changes; user 0 gets three of them, and joins again with another connection.
fn rejoined(has_broken: bool) -> AuditCounts {
    let mut room = Room::new();
    room.send(1, 5);
    for n in 1..=3 {
        let event = room.event(1, n, 3 + n);
        room.receive(0, &event);
    }
    room.users[1].sender.acked_before = 5;
    room.users[1].sender.has_broken = has_broken;
    room.connect(1, "c7");
    let mut join = room.event(1, 5, 10);
    (join.kind, join.conn_id) = (EventType::Join, "c7".into());
    room.receive(0, &join);
    room.send(1, 1);
    let mut next = room.event(1, 6, 11);
    next.conn_id = "c7".into();
    assert!(room.receive(0, &next).is_some());
    room.audit.counts
}

#[test]
fn what_a_sender_sent_before_it_joined_again_is_lost_and_excused_if_its_connection_broke() {
    let counts = rejoined(false);
    assert_eq!((counts.lost, counts.lost_with_sender), (2, 0));
    let counts = rejoined(true);
    assert_eq!((counts.lost, counts.lost_with_sender), (0, 2));
}

#[test]
fn an_update_of_the_connection_before_may_follow_the_join_of_the_next_once() {
    let mut room = Room::new();
    room.send(1, 2);
    let updates = [room.event(1, 1, 4), room.event(1, 2, 6)];
    room.receive(0, &updates[0]);
    room.connect(1, "c1-again");
    let join = PresenceEvent {
        kind: EventType::Join,
        conn_id: "c1-again".into(),
        ..room.event(1, 2, 5)
    };
    room.receive(0, &join);
    room.receive(0, &updates[1]);
    assert_eq!(room.audit.counts, counted(3));
    room.receive(0, &updates[1]);
    assert_eq!(room.audit.counts.duplicated, 1);
}

#[test]
fn a_leave_that_never_comes_is_a_gap_of_the_sequence() {
    let mut room = Room::new();
    room.send(1, 1);
    let event = room.event(1, 1, 5);
    room.receive(0, &event);
    room.audit.finish(&room.users);
    // Users 1 and 2 did not get the change.
    let counts = room.audit.counts;
    assert_eq!((counts.sequence_gaps, counts.lost), (1, 2));
}

#[test]
fn a_node_that_is_cut_off_has_a_sequence_of_its_own() {
    let mut room = Room::new();
    room.send(1, 3);
    for (n, seq, degraded) in [(1, 4, false), (2, 90, true), (3, 91, true)] {
        let mut event = room.event(1, n, seq);
        event.degraded = degraded;
        room.receive(0, &event);
    }
    assert_eq!(room.audit.counts.sequence_gaps, 0);
}
