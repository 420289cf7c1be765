//! Tests of the audit.

use load::schedule::Share;

use super::*;
use crate::protocol::presence::{Member, Stamp};
use crate::roles::population::{Behaviour, Population};

mod compared;
mod snapshots;

const ORIGIN: u64 = 1_000;
const NOW: u64 = 10_000;

/// A room of three users, all joined, in which each can be told what to receive.
struct Room {
    audit: Audit,
    users: Vec<User>,
    seq: u64,
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
            audit: Audit::new(part, ORIGIN, 0, &counted(0, &[])),
            users: (0..3).map(|_| User::new(Behaviour::Active)).collect(),
            seq: 3,
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
        let members = members.map(|((_, connection, n), name)| Member {
            conn_id: (*connection).into(),
            user_id: name.as_str().into(),
            stamp: Some(Stamp { n: *n, t: ORIGIN }),
            padding: Some(0),
            last_seen_ms: None,
            epoch: None,
        });
        let begun = (NOW - 100, NOW, Some(self.seq));
        let joined = self.audit.joined(user, begun, members, &self.users);
        assert_eq!(joined, snapshot.len() as u64);
        let user = &mut self.users[user as usize];
        user.phase = Phase::Joined;
        (user.sent, user.sender.joined_at) = (NOW, NOW - 5_000);
        user.sender.memberships.publish(Memberships::JOIN);
    }

    /// Ends the membership of user 1 with a leave that is acknowledged at a time.
    fn leave(&mut self, now: u64) {
        self.audit.leave(1, &self.users);
        let user = &mut self.users[1];
        user.sender.leave_acknowledged(now);
        (user.phase, user.sender.joined_at) = (Phase::Backoff, u64::MAX);
    }

    /// Lets user 1 come back with another connection.
    fn come_back(&mut self, connection: &str) {
        self.connect(1, connection);
        self.audit.begin_join(1, &self.users);
        self.joined(1, &[(0, "c0", 0), (1, connection, 0), (2, "c2", 0)]);
    }

    /// Delivers a join or leave of user 1, without a number of the server.
    fn announce(&mut self, receiver: u32, kind: EventType, connection: &str) {
        let event = PresenceEvent {
            kind,
            conn_id: connection.to_owned().into(),
            stamp: (kind == EventType::Join).then_some(Stamp { n: 0, t: ORIGIN }),
            seq: None,
            ..self.event(1, 0, 0)
        };
        self.receive(receiver, &event);
    }

    fn name(&self, user: u32) -> String {
        self.audit.part.names(user).user
    }

    /// Sends changes of a user, all acknowledged.
    fn send(&mut self, user: u32, changes: u32) {
        let sender = &mut self.users[user as usize].sender;
        for _ in 0..changes {
            sender.change(ORIGIN + u64::from(sender.n) + 1);
        }
        sender.acked = sender.n;
    }

    fn event(&mut self, user: u32, n: u64, seq: u64) -> PresenceEvent<'static> {
        PresenceEvent {
            kind: EventType::Update,
            room_id: "room-001".into(),
            user_id: self.name(user).into(),
            conn_id: format!("c{user}").into(),
            stamp: Some(Stamp { n, t: ORIGIN + n }),
            padding: Some(0),
            seq: Some(seq),
            epoch: None,
            ts: None,
            degraded: false,
        }
    }

    fn receive(&mut self, receiver: u32, event: &PresenceEvent<'_>) -> Option<u64> {
        self.audit.event(receiver, event, &self.users, NOW)
    }

    fn count(&self, counter: Counter) -> u64 {
        self.audit.counts.get(counter)
    }

    fn counts<const N: usize>(&self, counters: [Counter; N]) -> [u64; N] {
        counters.map(|counter| self.count(counter))
    }

    /// Delivers the changes of user 1 in this order to user 0, each with the number of its sequence, and everything
    /// else to everybody in order. Returns the counts at the end.
    fn deliver(mut self, changes: &[u64]) -> Rc<Counters> {
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

/// Returns the counters after this many events, with these findings.
fn counted(events: u64, findings: &[(Counter, u64)]) -> Rc<Counters> {
    let counts = Counters::new(count::COUNTERS);
    counts.add(count::EVENTS, events);
    for (counter, number) in findings {
        counts.add(*counter, *number);
    }
    Rc::new(counts)
}

#[test]
fn events_in_their_order_are_right() {
    assert_eq!(Room::new().deliver(&[1, 2, 3, 4]), counted(12, &[]));
}

#[test]
fn an_event_that_never_comes_is_lost_once() {
    let expected = counted(11, &[(count::LOST, 1), (count::SEQUENCE_GAPS, 1)]);
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
    assert_eq!(room.counts([count::LOST, count::DUPLICATED]), [1, 0]);
}

#[test]
fn an_event_that_comes_twice_is_duplicated() {
    let expected = counted(14, &[(count::DUPLICATED, 2)]);
    assert_eq!(Room::new().deliver(&[1, 2, 2, 3, 1, 4]), expected);
}

#[test]
fn an_event_that_comes_after_a_later_one_is_reordered_and_not_lost() {
    let expected = counted(12, &[(count::REORDERED, 1)]);
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
        assert_eq!(room.count(count::WRONG_ROOM), wrong);
    }
    let event = room.event(1, 1, 4);
    assert_eq!(room.receive(0, &event), Some(ORIGIN + 1));
    assert_eq!(room.count(count::SEQUENCE_GAPS), 0);
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
    assert_eq!(room.count(count::WRONG_STATE), 6);
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
    room.audit.leave(0, &room.users);
    assert_eq!(
        room.counts([count::FOREIGN, count::SEQUENCE_GAPS, count::LOST]),
        [1, 1, 0]
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
        assert_eq!(room.count(count::SNAPSHOT_ERRORS), wrong, "{n}");
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
        assert_eq!(room.count(count::SNAPSHOT_ERRORS), wrong);
    }
    let mut room = Room::new();
    room.audit.begin_join(0, &room.users);
    room.joined(0, &[(1, "c1", 0), (2, "c2", 0)]);
    assert_eq!(
        room.count(count::SNAPSHOT_ERRORS),
        1,
        "its own entry is missing"
    );
    room.audit.begin_join(0, &room.users);
    room.joined(0, &[(0, "c0", 0), (1, "c1", 0), (1, "c1", 0), (2, "c2", 0)]);
    assert_eq!(
        room.count(count::SNAPSHOT_ERRORS),
        2,
        "an entry comes twice"
    );
}

#[test]
fn a_receiver_that_was_away_is_compared_from_its_snapshot_on() {
    let mut room = Room::new();
    room.send(1, 7);
    room.audit.end(0);
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
    assert_eq!(
        room.counts([count::LOST, count::DUPLICATED, count::SEQUENCE_GAPS]),
        [0, 1, 0]
    );
}

/// User 1 sends five changes; user 0 gets three of them, and joins again with another connection. Returns the counts of
/// lost events, and of events lost with their sender.
fn rejoined(has_broken: bool) -> [u64; 2] {
    let mut room = Room::new();
    room.send(1, 5);
    for n in 1..=3 {
        let event = room.event(1, n, 3 + n);
        room.receive(0, &event);
    }
    room.users[1].sender.begin_join();
    room.users[1].sender.end(has_broken);
    room.connect(1, "c7");
    let mut join = room.event(1, 5, 10);
    (join.kind, join.conn_id) = (EventType::Join, "c7".into());
    room.receive(0, &join);
    room.send(1, 1);
    let mut next = room.event(1, 6, 11);
    next.conn_id = "c7".into();
    assert!(room.receive(0, &next).is_some());
    room.counts([count::LOST, count::LOST_WITH_SENDER])
}

#[test]
fn events_sent_before_a_rejoin_are_lost_and_excused_if_the_connection_broke() {
    assert_eq!(rejoined(false), [2, 0]);
    assert_eq!(rejoined(true), [0, 2]);
}

#[test]
fn a_leave_that_never_comes_is_a_gap_of_the_sequence() {
    let mut room = Room::new();
    room.send(1, 1);
    let event = room.event(1, 1, 5);
    room.receive(0, &event);
    room.audit.finish(&room.users);
    // Users 1 and 2 did not get the change.
    assert_eq!(room.counts([count::SEQUENCE_GAPS, count::LOST]), [1, 2]);
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
    assert_eq!(room.count(count::SEQUENCE_GAPS), 0);
}

/// Joins and leaves of user 1: it leaves with `c1` and comes back with `c7`. Each of the two others gets the events
/// that are listed for it. Returns the counts of lost joins, lost leaves, duplicated and reordered events.
fn announced(to_first: &[(EventType, &str)], to_other: &[(EventType, &str)]) -> [u64; 4] {
    let mut room = Room::new();
    room.leave(NOW);
    room.come_back("c7");
    for (receiver, events) in [(0, to_first), (2, to_other)] {
        for (kind, connection) in events {
            room.announce(receiver, *kind, connection);
        }
    }
    let is_complete = room.audit.is_settled(0, &room.users);
    room.audit.finish(&room.users);
    assert_eq!(
        is_complete,
        room.count(count::LOST_JOINS) + room.count(count::LOST_LEAVES) == 0
    );
    room.counts([
        count::LOST_JOINS,
        count::LOST_LEAVES,
        count::DUPLICATED,
        count::REORDERED,
    ])
}

#[test]
fn each_join_and_leave_must_arrive_once_and_in_order_without_numbers_of_the_server() {
    use EventType::{Join, Leave};
    let all = [(Leave, "c1"), (Join, "c7")];
    assert_eq!(announced(&all, &all), [0, 0, 0, 0]);
    assert_eq!(announced(&all[..1], &all), [1, 0, 0, 0]);
    assert_eq!(announced(&all, &all[1..]), [0, 1, 0, 0]);
    assert_eq!(announced(&[], &[]), [2, 2, 0, 0]);
    let leave_twice = [all[0], all[0], all[1]];
    assert_eq!(announced(&leave_twice, &all), [0, 0, 1, 0]);
    let join_twice = [all[0], all[1], all[1]];
    assert_eq!(announced(&all, &join_twice), [0, 0, 1, 0]);
    assert_eq!(announced(&[all[1], all[0]], &all), [0, 0, 0, 1]);
    // Its first join was in the snapshots of the others.
    assert_eq!(announced(&[(Join, "c1"), all[0], all[1]], &all), [0; 4]);
}

#[test]
fn the_leave_of_a_connection_that_broke_may_come_late_or_never() {
    use EventType::{Join, Leave};
    let cases: [&[(EventType, &str)]; 4] = [
        &[(Leave, "c1"), (Join, "c7")],
        &[(Join, "c7"), (Leave, "c1")],
        &[(Join, "c7")],
        &[(Join, "c7"), (Leave, "c0")],
    ];
    for events in cases {
        let mut room = Room::new();
        room.audit.end(1);
        room.come_back("c7");
        for (receiver, (kind, connection)) in [0, 2]
            .iter()
            .flat_map(|to| events.iter().map(move |event| (*to, event)))
        {
            room.announce(receiver, *kind, connection);
        }
        assert!(room.audit.is_settled(0, &room.users));
        room.audit.finish(&room.users);
        assert_eq!(
            room.audit.counts,
            counted(2 * events.len() as u64, &[]),
            "{events:?}"
        );
    }
}

#[test]
fn an_expired_member_leaves_and_joins_again_with_its_connection() {
    use EventType::{Join, Leave};
    let mut room = Room::new();
    room.announce(0, Leave, "c1");
    room.users[1].sender.memberships.set_uncertain();
    room.audit.end(1);
    room.come_back("c1");
    for kind in [Join, Leave, Join] {
        room.announce(0, kind, "c1");
    }
    room.leave(NOW);
    room.announce(0, Leave, "c1");
    room.audit.finish(&room.users);
    assert_eq!(room.audit.counts, counted(5, &[]));
}

#[test]
fn a_member_that_another_node_had_removed_comes_back_without_its_knowledge() {
    use EventType::{Join, Leave};
    let mut room = Room::new();
    for kind in [Leave, Join, Leave, Join] {
        room.announce(0, kind, "c1");
    }
    assert_eq!(room.audit.counts, counted(4, &[]));
    room.announce(0, Join, "c1");
    assert_eq!(room.count(count::DUPLICATED), 1);
    room.leave(NOW - 1);
    room.audit.finish(&room.users);
    // Both other users have missed its own leave.
    assert_eq!(room.count(count::LOST_LEAVES), 2);
}

#[test]
fn a_member_that_its_node_adds_again_joins_in_its_present_state() {
    let mut room = Room::new().with_clock();
    room.send(1, 1);
    let join = PresenceEvent {
        kind: EventType::Join,
        seq: None,
        ..room.event(1, 1, 0)
    };
    for receiver in [0, 2] {
        room.announce(receiver, EventType::Leave, "c1");
        room.receive(receiver, &join);
    }
    assert_eq!(room.audit.counts, counted(4, &[]));
}

#[test]
fn a_join_that_a_node_has_missed_is_told_later_in_the_present_state() {
    let mut room = Room::new().with_clock();
    room.leave(NOW);
    room.come_back("c7");
    room.users[1].sender.join_stamp = ORIGIN;
    room.send(1, 1);
    let join = PresenceEvent {
        kind: EventType::Join,
        conn_id: "c7".into(),
        seq: None,
        ..room.event(1, 1, 0)
    };
    for wrong_type in [0, 1] {
        room.receive(0, &join);
        assert_eq!(room.count(count::WRONG_TYPE), wrong_type);
    }
}

#[test]
fn a_receiver_that_is_behind_gets_events_of_connections_that_are_long_gone() {
    use EventType::{Join, Leave};
    let mut room = Room::new();
    let connections = ["c1", "c7", "c8", "c9"];
    for next in &connections[1..] {
        room.leave(NOW);
        room.come_back(next);
    }
    for receiver in [0, 2] {
        for pair in connections.windows(2) {
            room.announce(receiver, Leave, pair[0]);
            room.announce(receiver, Join, pair[1]);
        }
    }
    room.audit.finish(&room.users);
    assert_eq!(room.audit.counts, counted(12, &[]));
    assert_eq!(behind(|room| room.announce(0, Join, "c7")), [0, 0, 0]);
    // Events of the last two connections must arrive.
    assert_eq!(behind(|room| room.announce(0, Leave, "c7")), [0, 0, 0]);
    assert_eq!(behind(|room| room.announce(0, Join, "c8")), [1, 2, 0]);
    assert_eq!(behind(|room| room.announce(0, Join, "cx")), [0, 0, 0]);
    assert_eq!(
        behind(|room| {
            room.announce(0, Join, "c9");
            room.announce(0, Join, "cx");
        }),
        [2, 3, 1]
    );
}

/// User 1 has left with `c1`, `c7` and `c8`, and come back with `c9`, when user 0 gets these events. Returns the lost
/// joins, the lost leaves, and the wrong states after them.
fn behind(receive: impl Fn(&mut Room)) -> [u64; 3] {
    let mut room = Room::new();
    for next in ["c7", "c8", "c9"] {
        room.leave(NOW);
        room.come_back(next);
    }
    receive(&mut room);
    room.audit.leave(0, &room.users);
    room.counts([count::LOST_JOINS, count::LOST_LEAVES, count::WRONG_STATE])
}

#[test]
fn a_late_update_of_a_connection_that_broke_is_not_wrong() {
    for (connection, broken, wrong) in [
        ("c1", &[true][..], 0),
        ("c1", &[false], 1),
        ("c2", &[true], 1),
        // A connection that was left comes after the one that broke.
        ("c1", &[true, false], 0),
    ] {
        let mut room = Room::new();
        room.users[1].sender.n = 1;
        for next in ["c7", "c8"] {
            room.connect(1, next);
            room.announce(0, EventType::Join, next);
        }
        for has_broken in broken {
            room.users[1].sender.end(*has_broken);
        }
        let mut update = room.event(1, 1, 0);
        (update.seq, update.conn_id) = (None, connection.into());
        room.receive(0, &update);
        assert_eq!(room.count(count::WRONG_STATE), wrong, "{connection}");
    }
}

#[test]
fn a_new_connection_may_overtake_what_was_under_way_on_one_that_broke() {
    for (broken, duplicated) in [(&[true][..], 0), (&[false], 1), (&[true, false], 0)] {
        let mut room = Room::new();
        room.users[1].sender.n = 1;
        for has_broken in broken {
            room.users[1].sender.end(*has_broken);
        }
        room.connect(1, "c7");
        let mut update = room.event(1, 1, 0);
        update.seq = None;
        let join = PresenceEvent {
            kind: EventType::Join,
            conn_id: "c7".into(),
            ..update.clone()
        };
        room.receive(0, &join);
        room.receive(0, &update);
        assert_eq!(room.count(count::DUPLICATED), duplicated);
    }
}

#[test]
fn a_member_that_had_left_before_the_join_is_lingering_in_its_snapshot() {
    let sent = NOW - 100;
    for (left_at, comes_back, lingering) in [
        (sent - 1, false, 1),
        (sent, false, 0),
        (sent - 1, true, 1),
        (sent, true, 0),
    ] {
        let mut room = Room::new();
        room.leave(left_at);
        if comes_back {
            room.come_back("c7");
        }
        room.audit.begin_join(0, &room.users);
        let mut snapshot = vec![(0, "c0", 0), (1, "c1", 0), (2, "c2", 0)];
        snapshot.extend(comes_back.then_some((1, "c7", 0)));
        room.joined(0, &snapshot);
        let found = room.counts([count::LINGERING, count::SNAPSHOT_ERRORS]);
        assert_eq!(found, [lingering, 0], "{left_at} {comes_back}");
    }
}

/// User 0 joins while user 1 leaves and comes back; its snapshot shows user 1 under these connections. Returns the
/// joins and leaves that must still arrive.
fn awaited(shown: &[&str]) -> [u64; 2] {
    let mut room = Room::new();
    room.audit.end(0);
    room.connect(0, "c9");
    room.users[0].phase = Phase::Joining;
    room.audit.begin_join(0, &room.users);
    room.leave(NOW - 50);
    room.come_back("c7");
    room.users[1].sender.joined_at = NOW - 20;
    let mut snapshot = vec![(0, "c9", 0), (2, "c2", 0)];
    snapshot.extend(shown.iter().map(|connection| (1, *connection, 0)));
    room.joined(0, &snapshot);
    room.users[2].phase = Phase::Backoff;
    room.users[1].behaviour = Behaviour::SlowConsumer;
    room.audit.finish(&room.users);
    assert_eq!(
        room.counts([count::SNAPSHOT_ERRORS, count::LINGERING]),
        [0, 0]
    );
    room.counts([count::LOST_JOINS, count::LOST_LEAVES])
}

#[test]
fn events_that_the_snapshot_does_not_include_must_arrive() {
    assert_eq!(awaited(&["c1"]), [1, 1]);
    assert_eq!(awaited(&[]), [1, 0]);
    assert_eq!(awaited(&["c7"]), [0, 0]);
}

/// The library tells the connection of a join only with its answer.
#[test]
fn a_user_that_comes_back_owes_nothing_of_the_connection_that_it_left() {
    let mut room = Room::new();
    room.leave(NOW - 200);
    room.users[1].phase = Phase::Joining;
    room.audit.end(0);
    room.connect(0, "c9");
    room.audit.begin_join(0, &room.users);
    room.joined(0, &[(0, "c9", 0), (2, "c2", 0)]);
    room.users[2].phase = Phase::Backoff;
    room.audit.finish(&room.users);
    assert_eq!(room.counts([count::LOST_JOINS, count::LOST_LEAVES]), [0, 0]);
}

#[test]
fn a_member_that_may_have_expired_has_missed_nothing_after_its_last_request() {
    use EventType::{Join, Leave};
    for (sent, events, lost) in [
        (NOW - 5_000, &[][..], [0, 0]),
        (NOW - 4_999, &[], [2, 2]),
        (NOW - 5_000, &[(Leave, "c1")], [0, 0]),
        (NOW - 5_000, &[(Join, "c7")], [0, 2]),
    ] {
        let mut room = Room::new();
        room.leave(NOW);
        room.come_back("c7");
        for receiver in [0, 2] {
            room.users[receiver as usize].sent = sent;
            for (kind, connection) in events {
                room.announce(receiver, *kind, connection);
            }
        }
        room.audit.finish(&room.users);
        let found = room.counts([count::LOST_JOINS, count::LOST_LEAVES]);
        assert_eq!(found, lost, "{sent} {events:?}");
    }
}

#[test]
fn a_member_that_leaves_has_missed_what_came_before_the_last_event() {
    use EventType::Join;
    let mut room = Room::new();
    room.leave(NOW);
    room.come_back("c7");
    room.announce(0, Join, "c7");
    room.audit.leave(0, &room.users);
    // Nothing shows that user 2 did not leave before.
    room.audit.leave(2, &room.users);
    assert_eq!(room.counts([count::LOST_JOINS, count::LOST_LEAVES]), [0, 1]);
}
