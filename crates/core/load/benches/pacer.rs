//! Measures the cost of the pacer: an operation at 1,000,000 per second has 1,000 ns, and the pacer must take a small
//! part of it.

#[path = "support/pacers.rs"]
mod pacers;

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use load::clock;
use load::pacer::{Pacer, Tick};
use load::schedule::{Arrival, Schedule, Share, Stage};
use pacers::{LONG, NOW, RATE, steady};

fn ramp(arrival: Arrival) -> Schedule {
    Schedule::rate(
        &[Stage {
            from: 0.0,
            to: RATE,
            over: LONG,
        }],
        arrival,
        1,
        Share::ALL,
    )
}

fn schedules(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("schedule");
    let mut step = |name: &str, mut schedule: Schedule| {
        group.bench_function(name, |bencher| {
            bencher.iter(|| schedule.next().expect("the schedule is long"))
        });
    };
    step("spread", Schedule::spread(u64::MAX, LONG, Share::ALL));
    step("constant", steady(Arrival::Constant, Share::ALL));
    step("constant ramp", ramp(Arrival::Constant));
    step("poisson", steady(Arrival::Poisson, Share::ALL));
    step("poisson ramp", ramp(Arrival::Poisson));
    step(
        "poisson, one of 8 shares",
        steady(Arrival::Poisson, Share { index: 3, of: 8 }),
    );
    group.finish();
}

fn polls(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("poll");
    let mut ready = |name: &str, groups: usize| {
        let mut pacer = pacers::ready(groups);
        group.bench_function(name, |bencher| {
            bencher.iter(|| match pacer.poll(black_box(NOW)) {
                Tick::Ready(start) => start,
                other => unreachable!("the schedule is long: {other:?}"),
            });
        });
    };
    ready("ready, 1 group", 1);
    ready("ready, 4 groups", 4);
    let mut pacer = Pacer::new(
        1_000_000_000,
        u64::MAX,
        vec![steady(Arrival::Constant, Share::ALL)],
    );
    group.bench_function("waiting", |bencher| {
        bencher.iter(|| pacer.poll(black_box(1)))
    });
    group.finish();
}

fn clocks(criterion: &mut Criterion) {
    criterion.bench_function("clock/now", |bencher| bencher.iter(clock::now));
    criterion.bench_function("clock/thread_cpu_ns", |bencher| {
        bencher.iter(clock::thread_cpu_ns)
    });
}

criterion_group!(benches, schedules, polls, clocks);
criterion_main!(benches);
