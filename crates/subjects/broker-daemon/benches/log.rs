//! Cost of the log: the broker's thread per message, the round trip to the disk, and reopening a folder.
//!
//! Targets: 100,000 messages of 1 KB a second, each on disk before it is confirmed; 10,000 recovered in 15 ms and
//! 1,000,000 in 1.5 s.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::{self, Receiver};

use broker_daemon::log::{Log, LogOptions, NewMessage};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

const MESSAGE: NewMessage<'_> = NewMessage {
    published_ms: 1,
    exchange: b"",
    routing_key: b"perftest",
    properties: &[0; 20],
    body: &[7; 1024],
};
/// Messages of one turn of the broker's loop.
const TURN: u64 = 64;
/// Messages of one iteration of `confirmed`.
const CONFIRMED: u64 = 320 * TURN;

/// An open log, and the receiver of its wake-ups.
struct Opened {
    log: Log,
    woken: Receiver<()>,
}

impl Opened {
    fn new(dir: &Path) -> Self {
        let (wake, woken) = mpsc::channel();
        let (log, _) = Log::open(dir, LogOptions::default(), move || {
            // The last wake-up comes after the receiver is dropped.
            let _ = wake.send(());
        })
        .expect("an empty folder opens");
        Self { log, woken }
    }

    fn wait(&self, done: impl Fn(&Log) -> bool) {
        while !done(&self.log) {
            self.woken.recv().expect("the writer goes on");
        }
    }

    /// Performs a turn: publishes messages and hands them over. Returns its ticket and the first id.
    fn turn(&mut self) -> (u64, u64) {
        let first = self.log.publish(&[1], &MESSAGE);
        for _ in 1..TURN {
            self.log.publish(&[1], &MESSAGE);
        }
        let ticket = self.log.ticket();
        self.log.flush();
        (ticket, first)
    }

    fn settle_turn(&mut self, first: u64) {
        for id in first..first + TURN {
            self.log.settle(1, id);
        }
    }
}

/// Measures the work of the broker's thread for a message: publishing, settling, and its share of a flush.
fn gather(c: &mut Criterion) {
    let mut group = c.benchmark_group("gather");
    group.throughput(Throughput::Elements(TURN));
    group.bench_function("publish and settle", |bencher| {
        let dir = tempfile::tempdir().expect("a folder");
        let opened = RefCell::new(Opened::new(dir.path()));
        bencher.iter_batched(
            || {
                opened
                    .borrow()
                    .wait(|log| log.usage().in_flight_bytes < 1 << 20)
            },
            |()| {
                let mut opened = opened.borrow_mut();
                let (_, first) = opened.turn();
                opened.settle_turn(first);
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

/// Measures the round trip to the disk with at most `window` messages under way, as for publishers with confirms; each
/// is settled once it is confirmed.
fn confirmed(c: &mut Criterion) {
    let mut group = c.benchmark_group("confirmed");
    group.throughput(Throughput::Elements(CONFIRMED));
    for window in [TURN, 1024, 10_240] {
        group.bench_function(BenchmarkId::from_parameter(window), |bencher| {
            let dir = tempfile::tempdir().expect("a folder");
            let mut opened = Opened::new(dir.path());
            bencher.iter(|| {
                let mut under_way = VecDeque::new();
                for _ in 0..CONFIRMED / TURN {
                    under_way.push_back(opened.turn());
                    confirm(&mut opened, &mut under_way, window / TURN - 1);
                }
                confirm(&mut opened, &mut under_way, 0);
            });
        });
    }
    group.finish();
}

/// Waits until at most `most` turns are under way, and settles those that are on disk.
fn confirm(opened: &mut Opened, under_way: &mut VecDeque<(u64, u64)>, most: u64) {
    while under_way.len() as u64 > most {
        let (ticket, _) = under_way[0];
        opened.wait(|log| log.synced() >= ticket);
        while let Some((_, first)) =
            under_way.pop_front_if(|(ticket, _)| *ticket <= opened.log.synced())
        {
            opened.settle_turn(first);
        }
    }
}

/// Measures reopening a folder: reading (from the page cache), checking, and indexing.
fn recovery(c: &mut Criterion) {
    let mut group = c.benchmark_group("recovery");
    group.sample_size(10);
    for count in [10_000, 1_000_000] {
        let dir = tempfile::tempdir().expect("a folder");
        let mut opened = Opened::new(dir.path());
        for _ in 0..count / TURN {
            opened.turn();
            opened.wait(|log| !log.congested());
        }
        for _ in 0..count % TURN {
            opened.log.publish(&[1], &MESSAGE);
        }
        opened.log.close().expect("all is written");
        group.throughput(Throughput::Elements(count));
        group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
            bencher.iter_with_large_drop(|| {
                let (log, recovered) = Log::open(dir.path(), LogOptions::default(), || ())
                    .expect("the folder opens again");
                assert_eq!(recovered.messages.len() as u64, count);
                drop(log);
                recovered
            });
        });
    }
    group.finish();
}

criterion_group!(benches, gather, confirmed, recovery);
criterion_main!(benches);
