//! Cost of a message in the broker's thread besides system calls: published by one of 20 producers, delivered to one of
//! 20 consumers, acknowledged individually.

#[path = "support/stand.rs"]
mod stand;

use std::cell::RefCell;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use stand::{CLIENTS, Stand};

/// Messages per read of a producer, and messages that a consumer may have unacknowledged.
const BATCH: u16 = 100;

fn through(c: &mut Criterion) {
    let mut group = c.benchmark_group("through");
    group.throughput(Throughput::Elements(CLIENTS as u64 * u64::from(BATCH)));
    for (name, is_persistent) in [("transient", false), ("persistent", true)] {
        group.bench_function(name, |bencher| {
            let stand = RefCell::new(Stand::new(is_persistent, BATCH));
            bencher.iter_batched(
                // The time of the disk is not measured.
                || stand.borrow_mut().direct.wait_for_disk(),
                |()| stand.borrow_mut().round(),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, through);
criterion_main!(benches);
