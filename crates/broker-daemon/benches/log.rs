//! What the log costs: the broker's thread per message, the way to the disk and back, and opening a folder again.
//!
//! Targets: 100,000 messages of 1 KB a second, each on disk before it is confirmed; 10,000 recovered in 15 ms and
//! 1,000,000 in 1.5 s.

use std::hint::black_box;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use broker_daemon::log::{Log, Message, Options};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

const MESSAGE: Message<'_> = Message {
    published_ms: 1,
    exchange: b"",
    routing_key: b"perftest",
    properties: &[0; 20],
    body: &[7; 1024],
};
/// Messages of one turn of the broker's loop.
const TURN: usize = 64;

fn publish(log: &mut Log, count: usize) {
    for at in 0..count {
        black_box(log.publish(&[1], &MESSAGE));
        if at % TURN == TURN - 1 {
            log.flush();
        }
    }
}

/// Publishes with at most `window` messages that aren't on disk yet, as publishers with confirms do.
fn confirmed(c: &mut Criterion) {
    let mut group = c.benchmark_group("confirmed");
    for window in [64, 1000, 10_000] {
        let count = 20_000;
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(BenchmarkId::from_parameter(window), |bencher| {
            let dir = tempfile::tempdir().expect("a folder");
            let (wake, woken) = mpsc::channel();
            let (mut log, _) = Log::open(dir.path(), Options::default(), move || {
                // The last wake comes when nobody waits any longer.
                let _ = wake.send(());
            })
            .expect("an empty folder opens");
            bencher.iter(|| {
                let mut outstanding = std::collections::VecDeque::new();
                for turn in 0..count / TURN {
                    let mut last = 0;
                    for _ in 0..TURN {
                        last = log.publish(&[1], &MESSAGE);
                    }
                    outstanding.push_back((log.ticket(), last));
                    log.flush();
                    let limit = if turn + 1 == count / TURN {
                        0
                    } else {
                        window / TURN - 1
                    };
                    while outstanding.len() > limit {
                        while let Some((_, last)) =
                            outstanding.pop_front_if(|(ticket, _)| *ticket <= log.synced())
                        {
                            for id in last + 1 - TURN as u64..=last {
                                log.settle(1, id);
                            }
                        }
                        if outstanding.len() > limit {
                            woken.recv().expect("the writer goes on");
                        }
                    }
                }
            });
        });
    }
    group.finish();
}

/// The broker's own thread: what a message costs that is published and settled.
fn gather(c: &mut Criterion) {
    let mut group = c.benchmark_group("gather");
    group.throughput(Throughput::Elements(TURN as u64));
    group.bench_function("publish and settle 64", |bencher| {
        let dir = tempfile::tempdir().expect("a folder");
        let (mut log, _) =
            Log::open(dir.path(), Options::default(), || ()).expect("an empty folder opens");
        bencher.iter(|| {
            while log.congested() {
                std::thread::yield_now();
            }
            for _ in 0..TURN {
                let id = log.publish(&[1], &MESSAGE);
                log.settle(1, id);
            }
            log.flush();
        });
    });
    group.finish();
}

fn filled(dir: &Path, count: usize) {
    let (mut log, _) = Log::open(dir, Options::default(), || ()).expect("an empty folder opens");
    publish(&mut log, count);
    log.close().expect("all is written");
}

fn recovery(c: &mut Criterion) {
    let mut group = c.benchmark_group("recovery");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(10));
    for count in [10_000, 1_000_000] {
        let dir = tempfile::tempdir().expect("a folder");
        filled(dir.path(), count);
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
            bencher.iter_batched(
                || (),
                |()| {
                    let (log, recovered) = Log::open(dir.path(), Options::default(), || ())
                        .expect("the folder opens again");
                    assert_eq!(recovered.messages.len(), count);
                    (log, recovered)
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, gather, confirmed, recovery);
criterion_main!(benches);
