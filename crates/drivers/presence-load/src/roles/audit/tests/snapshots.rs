//! Acknowledgements and snapshots are read in another order than the server has sent them: each has its own connection.

use super::*;

#[test]
fn changes_before_a_snapshot_without_their_sender_need_not_arrive() {
    let mut room = Room::new();
    // User 1 changes its state and leaves, then user 0 joins; the acknowledgement of that join is read first.
    room.audit.leave(0, &room.users);
    let n = room.users[1].sender.change(ORIGIN + 1);
    room.users[1].phase = Phase::Leaving;
    room.connect(0, "c3");
    room.audit.begin_join(0, &room.users);
    room.joined(0, &[(0, "c3", 0), (2, "c2", 0)]);
    room.users[1].sender.acked = n;
    room.leave(NOW);
    room.connect(1, "c4");
    room.users[1].sender.begin_join();
    let join = PresenceEvent {
        kind: EventType::Join,
        conn_id: "c4".into(),
        ..room.event(1, 1, 4)
    };
    room.receive(0, &join);
    assert_eq!(room.count(count::LOST), 0);
    // User 2 was there all the time.
    room.receive(2, &join);
    assert_eq!(room.count(count::LOST), 1);
}

#[test]
fn changes_after_a_snapshot_without_their_sender_are_new() {
    let mut room = Room::new();
    room.leave(NOW - 200);
    room.audit.leave(0, &room.users);
    room.connect(0, "c3");
    room.audit.begin_join(0, &room.users);
    // User 1 joins after the snapshot for user 0, whose acknowledgement is read after a change of user 1.
    room.connect(1, "c4");
    room.users[1].sender.begin_join();
    room.audit.begin_join(1, &room.users);
    room.joined(1, &[(0, "c3", 0), (1, "c4", 0), (2, "c2", 0)]);
    room.users[1].sender.joined_at = NOW - 50;
    room.send(1, 1);
    room.joined(0, &[(0, "c3", 0), (2, "c2", 0)]);
    for (kind, n) in [(EventType::Join, 0), (EventType::Update, 1)] {
        let event = PresenceEvent {
            kind,
            conn_id: "c4".into(),
            seq: None,
            ..room.event(1, n, 0)
        };
        assert!(!room.audit.is_settled(0, &room.users));
        room.receive(0, &event);
    }
    assert_eq!(room.audit.counts, counted(2, &[]));
}
