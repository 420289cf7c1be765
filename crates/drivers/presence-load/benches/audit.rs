//! Cost of the audit alone: of an update and its heartbeat, and of a snapshot, each of them read already. CPU time is
//! measured, so that other work on the machine counts little.

#[path = "support/cpu_time.rs"]
mod cpu_time;
#[path = "support/room.rs"]
mod room;

use std::hint::black_box;

use cpu_time::{CpuTime, criterion};
use criterion::{Criterion, criterion_group, criterion_main};
use presence_load::protocol::presence::PresenceEvent;
use room::{UPDATE, joined, read, receive, snapshot};

fn audit(criterion: &mut Criterion<CpuTime>) {
    let mut room = joined();
    let mut update = PresenceEvent::parse(UPDATE).expect("it is an event");
    let mut number = 0;
    criterion.bench_function("audit an update", |bencher| {
        bencher.iter(|| {
            number += 1;
            black_box(receive(&mut room, black_box(&mut update), number))
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
