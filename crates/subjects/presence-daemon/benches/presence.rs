//! The cost of the presence service alone: the requests of clients that are not there.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use presence_daemon::presence::{Clock, Presence, Request, Session, Settings, Sink};
use socketio_server::Frame;

/// A client that counts the bytes it is sent.
#[derive(Debug, Clone, Default)]
struct Counter(Arc<AtomicU64>);

impl Sink for Counter {
    fn send(&self, frame: &Frame) {
        self.0
            .fetch_add(black_box(frame.clone()).as_bytes().len() as u64, Relaxed);
    }

    fn answer(&self, ack: u64, write: impl FnOnce(&mut Vec<u8>)) {
        let mut answer = Vec::with_capacity(64);
        write(&mut answer);
        self.0
            .fetch_add(ack + black_box(answer).len() as u64, Relaxed);
    }
}

struct Member {
    session: Session<Counter>,
    conn: String,
    sink: Counter,
}

fn request(
    presence: &Presence<Counter>,
    member: &Member,
    name: &str,
    arguments: &str,
    clock: &Clock,
) {
    let request = Request {
        name,
        arguments,
        ack: Some(1),
        is_binary: false,
    };
    presence.request(
        &member.session,
        &member.conn,
        &member.sink,
        request,
        clock.now_ms(),
    );
}

/// Creates a room with members.
fn room(presence: &Presence<Counter>, count: usize, clock: &Clock) -> Vec<Member> {
    let join = |index| {
        let member = Member {
            session: Session::default(),
            conn: format!("{index:020}"),
            sink: Counter::default(),
        };
        let arguments = format!(
            r#"{{"roomId":"room-001","userId":"user-1-{index}","state":{{"status":"online"}}}}"#
        );
        request(presence, &member, "presence:join", &arguments, clock);
        member
    };
    (0..count).map(join).collect()
}

fn heartbeats(criterion: &mut Criterion) {
    let clock = Clock::new();
    let mut group = criterion.benchmark_group("heartbeat");
    for count in [2, 10] {
        for (kind, is_changed) in [("changed", true), ("unchanged", false)] {
            let presence = Presence::new(Settings::default());
            let members = room(&presence, count, &clock);
            let mut number = 0_u64;
            group.bench_function(BenchmarkId::new(kind, count), |bencher| {
                bencher.iter(|| {
                    number += u64::from(is_changed);
                    let arguments =
                        format!(r#"{{"patchState":{{"status":"online","seq":{number}}}}}"#);
                    request(
                        &presence,
                        &members[0],
                        "presence:heartbeat",
                        &arguments,
                        &clock,
                    );
                });
            });
        }
    }
    group.finish();
}

fn joins(criterion: &mut Criterion) {
    let clock = Clock::new();
    let presence = Presence::new(Settings::default());
    let members = room(&presence, 10, &clock);
    let arguments = r#"{"roomId":"room-001","userId":"user-1-0","state":{"status":"online"}}"#;
    criterion.bench_function("join/snapshot of 10", |bencher| {
        bencher.iter(|| {
            request(&presence, &members[9], "presence:leave", "null", &clock);
            request(&presence, &members[9], "presence:join", arguments, &clock);
        });
    });
}

criterion_group!(benches, heartbeats, joins);
criterion_main!(benches);
