//! Tests of what is compared with the times, epochs, states and types that were sent.

use super::*;

impl Room {
    /// Lets the answers to all joins show the server's clock: NOW is 1970-01-01T00:00:20Z, and all have epoch 7.
    pub(super) fn with_clock(mut self) -> Self {
        for user in &mut self.users {
            (user.sender.join_stamp, user.epoch) = (ORIGIN, 7);
        }
        self.audit.clock.learn(Some(20_000), (NOW - 100, NOW));
        self
    }
}

#[test]
fn an_epoch_other_than_that_of_the_join_is_counted() {
    let mut room = Room::new().with_clock();
    room.send(1, 2);
    for (n, epoch, wrong) in [(1, 7, 0), (2, 8, 1)] {
        let event = PresenceEvent {
            epoch: Some(epoch),
            ..room.event(1, n, 3 + n)
        };
        assert!(room.receive(0, &event).is_some());
        assert_eq!(room.count(count::WRONG_EPOCH), wrong);
    }
    // While it joins again, its epoch is not known.
    room.users[1].phase = Phase::Joining;
    room.send(1, 1);
    let event = PresenceEvent {
        epoch: Some(9),
        ..room.event(1, 3, 6)
    };
    room.receive(0, &event);
    assert_eq!(room.count(count::WRONG_EPOCH), 1);
}

#[test]
fn a_time_beyond_the_clock_of_the_server_is_counted() {
    let mut room = Room::new().with_clock();
    room.send(1, 3);
    for (n, ts, wrong) in [(1, 20_500, 0), (2, 25_000, 1), (3, 15_000, 2)] {
        let event = PresenceEvent {
            ts: Some(ts),
            ..room.event(1, n, 3 + n)
        };
        assert!(room.receive(0, &event).is_some());
        assert_eq!(room.count(count::WRONG_TIME), wrong, "{ts}");
    }
}

#[test]
fn a_stamp_with_another_time_than_was_sent_is_a_wrong_state_and_no_propagation() {
    let mut room = Room::new().with_clock();
    room.send(1, 6);
    for (n, t, is_right) in [
        // Too old to be known.
        (1, ORIGIN + 2, true),
        (3, ORIGIN + 2, false),
        (3, ORIGIN + 3, true),
        (6, ORIGIN + 7, false),
        (6, ORIGIN + 6, true),
    ] {
        let event = PresenceEvent {
            stamp: Some(Stamp { n, t }),
            ..room.event(1, n, 3 + n)
        };
        assert_eq!(room.receive(0, &event), is_right.then_some(t), "{n} {t}");
    }
    assert_eq!(room.count(count::WRONG_STATE), 2);
}

#[test]
fn a_state_with_more_or_less_than_was_sent_is_wrong() {
    let mut room = Room::new().with_clock();
    room.send(1, 3);
    for (n, padding, wrong) in [(1, Some(0), 0), (2, Some(1), 1), (3, None, 2)] {
        let event = PresenceEvent {
            padding,
            ..room.event(1, n, 3 + n)
        };
        room.receive(0, &event);
        assert_eq!(room.count(count::WRONG_STATE), wrong);
    }
}

#[test]
fn an_update_that_is_called_a_join_has_the_wrong_type_and_is_not_lost() {
    let mut room = Room::new().with_clock();
    room.send(1, 1);
    let event = PresenceEvent {
        kind: EventType::Join,
        ..room.event(1, 1, 4)
    };
    for receiver in 0..3 {
        room.receive(receiver, &event);
    }
    room.audit.finish(&room.users);
    let expected = counted(3, &[(count::WRONG_TYPE, 3)]);
    assert_eq!(room.audit.counts, expected);
}

#[test]
fn a_join_that_is_called_an_update_has_the_wrong_type() {
    let mut room = Room::new().with_clock();
    let event = PresenceEvent {
        kind: EventType::Update,
        stamp: Some(Stamp { n: 0, t: ORIGIN }),
        ..room.event(1, 0, 4)
    };
    room.receive(0, &event);
    assert_eq!(room.counts([count::WRONG_TYPE, count::WRONG_STATE]), [1, 0]);
}

#[test]
fn a_leave_of_a_member_that_stays_is_false_and_its_true_leave_is_no_duplicate() {
    let mut room = Room::new().with_clock();
    for receiver in [0, 2] {
        room.announce(receiver, EventType::Leave, "c1");
    }
    // It may have been removed, until a later heartbeat is acknowledged.
    room.audit.still_joined(1, NOW, &room.users);
    assert_eq!(room.count(count::FALSE_LEAVES), 0);
    room.audit.still_joined(1, NOW + 1, &room.users);
    assert_eq!(room.count(count::FALSE_LEAVES), 2);
    room.leave(NOW + 2);
    for receiver in [0, 2] {
        room.announce(receiver, EventType::Leave, "c1");
    }
    assert_eq!(
        room.counts([count::FALSE_LEAVES, count::DUPLICATED]),
        [2, 0]
    );
}

#[test]
fn a_snapshot_with_another_epoch_time_or_state_is_wrong() {
    type Change = fn(&mut Member<'_>);
    let cases: [(Change, u64); 7] = [
        (|_| {}, 0),
        (|entry| entry.epoch = Some(8), 1),
        (|entry| entry.last_seen_ms = Some(30_000), 1),
        (|entry| entry.last_seen_ms = Some(1_000), 1),
        (|entry| entry.padding = None, 1),
        (
            |entry| {
                entry.stamp = Some(Stamp {
                    n: 2,
                    t: ORIGIN + 1,
                })
            },
            1,
        ),
        (
            |entry| {
                entry.stamp = Some(Stamp {
                    n: 1,
                    t: ORIGIN + 1,
                })
            },
            1,
        ),
    ];
    for (at, (change, wrong)) in cases.into_iter().enumerate() {
        let mut room = Room::new().with_clock();
        room.send(1, 2);
        room.audit.begin_join(0, &room.users);
        let names: Vec<String> = (0..3).map(|user| room.name(user)).collect();
        let members = (0_u64..3).zip(&names).map(|(user, name)| {
            let n = if user == 1 { 2 } else { 0 };
            let mut entry = Member {
                conn_id: format!("c{user}").into(),
                user_id: name.as_str().into(),
                stamp: Some(Stamp { n, t: ORIGIN + n }),
                padding: Some(0),
                last_seen_ms: Some(20_000),
                epoch: Some(7),
            };
            if user == 1 {
                change(&mut entry);
            }
            entry
        });
        let begun = (NOW - 100, NOW, Some(room.seq));
        let joined = room.audit.joined(0, begun, members, &room.users);
        assert_eq!(joined, 3);
        assert_eq!(room.count(count::SNAPSHOT_ERRORS), wrong, "case {at}");
    }
}
