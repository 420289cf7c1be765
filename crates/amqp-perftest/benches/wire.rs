//! Cost of a message in the driver besides system calls: writing its frames, and reading them.

use std::hint::black_box;

use amq_protocol::protocol::basic::{AMQPProperties, Publish};
use amqp_client::stamp::{Stamp, stream};
use amqp_perftest::wire::{Event, Reader, Template};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

/// Messages of a batch, as in one write or read.
const BATCH: u64 = 64;

fn stamp(sequence: u64) -> Stamp {
    Stamp {
        run: 1,
        stream: stream(0, true),
        sequence,
        start: 1,
    }
}

fn template(body: &[u8]) -> Template {
    let publish = Publish {
        exchange: "".into(),
        routing_key: "perftest".into(),
        mandatory: false,
        immediate: false,
    };
    Template::new(publish, &AMQPProperties::default(), body, 1, 131_072)
}

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

/// Returns `basic.deliver` with content header and body: the frames of a publish after another method.
fn delivery(sequence: u64, body: &[u8]) -> Vec<u8> {
    let consumer = b"perftest-0";
    let mut method = vec![0, 60, 0, 60, consumer.len() as u8];
    method.extend_from_slice(consumer);
    method.extend_from_slice(&(sequence + 1).to_be_bytes());
    method.extend_from_slice(b"\0\0\x08perftest");
    let mut frames = vec![1, 0, 1];
    frames.extend_from_slice(&(method.len() as u32).to_be_bytes());
    frames.extend_from_slice(&method);
    frames.push(0xCE);
    let mut published = Vec::new();
    template(body).append(&stamp(sequence), &mut published);
    let method = u32::from_be_bytes([published[3], published[4], published[5], published[6]]);
    frames.extend_from_slice(&published[method as usize + 8..]);
    frames
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
