//! Cost of a tally on the hot path, and cost of merging, storing and reading it.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use measure::spec::{SeriesRole, SeriesSpec};
use measure::tally::{Distribution, Series, Tally};

const SERIES: &[SeriesSpec] = &[
    SeriesSpec::new("handoff", SeriesRole::Main),
    SeriesSpec::new("first_byte", SeriesRole::Main),
    SeriesSpec::new("gap", SeriesRole::Main),
];
const VALUES: usize = 4_096;

/// Returns latencies from 1 µs to some 100 ms, many small and few large, the same in every run (xorshift).
fn latencies() -> impl Iterator<Item = u64> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        1_000 + (state >> 37 >> (state & 15))
    })
}

fn values() -> Vec<u64> {
    latencies().take(VALUES).collect()
}

fn filled() -> Distribution {
    let mut distribution = Distribution::default();
    values()
        .into_iter()
        .for_each(|value| distribution.record(value));
    distribution
}

/// Measures the cost per recorded value: first the histogram alone, then as in a driver's loop.
fn recording(criterion: &mut Criterion) {
    let values = values();
    let mut group = criterion.benchmark_group("record");
    group.throughput(Throughput::Elements(VALUES as u64));
    let mut distribution = Distribution::default();
    group.bench_function("distribution", |bencher| {
        bencher.iter(|| {
            values
                .iter()
                .for_each(|value| distribution.record(black_box(*value)))
        })
    });
    let mut tally = Tally::new(SERIES);
    group.bench_function("tally series and count", |bencher| {
        bencher.iter(|| {
            for value in &values {
                tally.record(Series(1), black_box(*value));
                tally.count("events", 1);
            }
        });
    });
    group.finish();
}

/// Measures the cost per second and core: one merge of each series, and one encoding of each for the result.
fn storing(criterion: &mut Criterion) {
    let one = filled();
    let mut into = filled();
    criterion.bench_function("merge", |bencher| {
        bencher.iter(|| into.merge(black_box(&one)))
    });
    criterion.bench_function("encode", |bencher| {
        bencher.iter(|| black_box(&one).encode())
    });
    let text = one.encode();
    criterion.bench_function("decode", |bencher| {
        bencher.iter(|| Distribution::decode(black_box(&text), 0))
    });
    criterion.bench_function("clear", |bencher| {
        bencher.iter_batched_ref(filled, Distribution::clear, BatchSize::LargeInput)
    });
}

criterion_group!(benches, recording, storing);
criterion_main!(benches);
