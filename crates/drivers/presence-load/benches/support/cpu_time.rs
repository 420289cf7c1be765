//! A clock for benches: CPU time, so that other work on the machine counts little.

use std::time::Duration;

use criterion::Criterion;
use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use load::clock;

/// The CPU time of the thread.
pub(crate) struct CpuTime;

/// Formats durations.
static WALL_TIME: WallTime = WallTime;

impl Measurement for CpuTime {
    type Intermediate = u64;
    type Value = Duration;

    fn start(&self) -> u64 {
        clock::thread_cpu_ns()
    }

    fn end(&self, start: u64) -> Duration {
        Duration::from_nanos(clock::thread_cpu_ns() - start)
    }

    fn add(&self, one: &Duration, other: &Duration) -> Duration {
        *one + *other
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        value.as_nanos() as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WALL_TIME.formatter()
    }
}

/// Returns a bench that measures CPU time.
pub(crate) fn criterion() -> Criterion<CpuTime> {
    Criterion::default().with_measurement(CpuTime)
}
