//! Cost of a message in the driver besides system calls: writing its frames, and reading them.

#[path = "support/messages.rs"]
mod messages;

use std::hint::black_box;

use amqp_perftest::engine::wire::{Event, Reader};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use messages::{delivery, stamp, template};

/// Messages of a batch, as in one write or read.
const BATCH: u64 = 64;

fn publish(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("publish");
    group.throughput(Throughput::Elements(BATCH));
    for size in [64, 1024, 16_384] {
        let template = template(&vec![b'x'; size]);
        let mut output = Vec::with_capacity(template.octets() * BATCH as usize);
        group.bench_function(BenchmarkId::from_parameter(size), |bencher| {
            bencher.iter(|| {
                output.clear();
                (0..BATCH).for_each(|sequence| template.append(&stamp(sequence), &mut output));
                black_box(output.len())
            });
        });
    }
    group.finish();
}

fn deliver(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("deliver");
    group.throughput(Throughput::Elements(BATCH));
    for size in [64, 1024, 16_384] {
        let body = vec![b'x'; size];
        let input: Vec<u8> = (0..BATCH)
            .flat_map(|sequence| delivery(sequence, &body))
            .collect();
        let mut reader = Reader::default();
        group.bench_function(BenchmarkId::from_parameter(size), |bencher| {
            bencher.iter(|| {
                let (mut at, mut sum) = (0, 0);
                while let (octets, Some((_, Event::Delivery(message)))) =
                    reader.next(&input[at..]).expect("the frames are right")
                {
                    at += octets;
                    sum += message.tag + message.stamp.map_or(0, |stamp| stamp.sequence);
                }
                assert_eq!(sum, BATCH * BATCH);
                sum
            });
        });
    }
    group.finish();
}

criterion_group!(benches, publish, deliver);
criterion_main!(benches);
