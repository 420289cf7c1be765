//! Cost of the audit alone: an acknowledgement, an update, and a snapshot, each of them read already. CPU time is measured,
//! so that other work on the machine counts little.

#[path = "support/cpu_time.rs"]
mod cpu_time;

use std::borrow::Cow;
use std::hint::black_box;

use cpu_time::{CpuTime, criterion};
use criterion::{Criterion, criterion_group, criterion_main};
use presence_load::AuditedRoom;
use presence_load::protocol::ProtocolError;
use presence_load::protocol::presence::{Member, PresenceEvent, Stamp};

const USERS: u32 = 10;
const UPDATE: &str = r#"{"type":"update","roomId":"room-001","userId":"user-1-1","connId":"c0","state":{"n":0,"t":1},"ts":1,"epoch":1,"seq":1}"#;

/// Returns the snapshot of a room whose users have sent nothing.
fn snapshot() -> Vec<Member<'static>> {
    let member = |user| Member {
        conn_id: format!("c{user}").into(),
        user_id: format!("user-1-{}", user + 1).into(),
        stamp: Some(Stamp { n: 0, t: 1 }),
        last_seen_ms: None,
        epoch: None,
    };
    (0..USERS).map(member).collect()
}

/// Returns a member as it is read from a message: without a copy.
fn read<'a>(member: &'a Member<'_>) -> Result<Member<'a>, ProtocolError> {
    Ok(Member {
        conn_id: Cow::Borrowed(&member.conn_id),
        user_id: Cow::Borrowed(&member.user_id),
        ..*member
    })
}

/// Returns a room whose users are all joined.
fn joined() -> AuditedRoom {
    let (mut room, snapshot) = (AuditedRoom::new(USERS), snapshot());
    for user in 0..USERS {
        let members = snapshot.iter().map(read);
        assert_eq!(room.join(user, 1, members), Ok(USERS.into()));
    }
    assert!(room.is_right());
    room
}

fn audit(criterion: &mut Criterion<CpuTime>) {
    let mut room = joined();
    criterion.bench_function("remember a heartbeat and take its ack", |bencher| {
        bencher.iter(|| room.heartbeat(black_box(0)));
    });
    assert!(room.is_right());

    let mut room = joined();
    let mut update = PresenceEvent::parse(UPDATE).expect("it is an event");
    criterion.bench_function("audit an update", |bencher| {
        bencher.iter(|| {
            // The numbers are those of the next change; a heartbeat is taken with it, as another bench measures it.
            room.heartbeat(0);
            if let (Some(stamp), Some(seq)) = (&mut update.stamp, &mut update.seq) {
                (stamp.n, *seq) = (stamp.n + 1, *seq + 1);
            }
            black_box(room.receive(black_box(1), black_box(&update)))
        });
    });
    assert!(room.is_right());

    let (mut room, snapshot) = (joined(), snapshot());
    criterion.bench_function("check a snapshot of 10", |bencher| {
        bencher.iter(|| {
            let members = black_box(&snapshot).iter().map(read);
            room.join(black_box(0), 1, members)
        });
    });
    assert!(room.is_right());
}

criterion_group! {
    name = benches;
    config = criterion();
    targets = audit
}
criterion_main!(benches);
