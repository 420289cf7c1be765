//! A room whose users are joined, and the changes of one of them.

use std::borrow::Cow;

use presence_load::AuditedRoom;
use presence_load::protocol::presence::{Member, PresenceEvent, Stamp};

const USERS: u32 = 10;
pub(crate) const UPDATE: &str = r#"{"type":"update","roomId":"room-001","userId":"user-1-1","connId":"c0","state":{"n":0,"t":1},"ts":1,"epoch":1,"seq":1}"#;

/// Returns the snapshot of a room whose users have sent nothing.
pub(crate) fn snapshot() -> Vec<Member<'static>> {
    let member = |user| Member {
        conn_id: format!("c{user}").into(),
        user_id: format!("user-1-{}", user + 1).into(),
        stamp: Some(Stamp { n: 0, t: 1 }),
        padding: Some(0),
        last_seen_ms: None,
        epoch: None,
    };
    (0..USERS).map(member).collect()
}

/// Returns a member as it is read from a message: without a copy.
pub(crate) fn read<'a>(member: &'a Member<'_>) -> Member<'a> {
    Member {
        conn_id: Cow::Borrowed(&member.conn_id),
        user_id: Cow::Borrowed(&member.user_id),
        ..*member
    }
}

/// Returns a room whose users are all joined.
pub(crate) fn joined() -> AuditedRoom {
    let (mut room, snapshot) = (AuditedRoom::new(USERS), snapshot());
    for user in 0..USERS {
        let members = snapshot.iter().map(read);
        assert_eq!(room.join(user, 1, members), u64::from(USERS));
    }
    assert!(room.is_right());
    room
}

/// Audits an update as the change with this number, from 1 without gaps. Returns the intended start of the change. A
/// heartbeat is taken with it, as another bench measures it.
pub(crate) fn receive(
    room: &mut AuditedRoom,
    update: &mut PresenceEvent<'_>,
    number: u64,
) -> Option<u64> {
    room.heartbeat(0);
    if let (Some(stamp), Some(seq)) = (&mut update.stamp, &mut update.seq) {
        (stamp.n, *seq) = (number, number + 1);
    }
    room.receive(1, update)
}
