//! Runs one worker's publishers and consumers in tests, without a broker.

use std::sync::Arc;
use std::time::Duration;

use load::driver::{Cancellation, Phases, Worker};
use load::event_loop::{LoopState, Options};
use load::opening_phase::WorkerOpening;
use load::pacer::Pacer;
use load::plan::{Group, Plan, Timeline};
use load::recorder::{Recorder, WorkerSecond};
use load::schedule::Share;
use load::workers::WorkerRange;
use measure::tally::Tally;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::nodes::Nodes;
use crate::settings::{CONSUMERS, PRODUCERS, Settings};
use crate::shared::Shared;
use crate::spec::SPEC;

/// Nanoseconds at which the load of a test begins.
pub(super) const ORIGIN: u64 = 1_000_000_000_000;
/// Nanoseconds of a test's load.
pub(super) const MEASURE_NS: u64 = 1_000_000_000;
/// The phases of a test's run.
pub(crate) const TIMELINE: Timeline =
    Timeline::new(Duration::from_nanos(MEASURE_NS), Duration::ZERO);

/// Returns a run of one producer with this rate, or unpaced, and of `consumers` consumers.
pub(super) fn run(settings: Settings, rate: Option<f64>, consumers: u64) -> Shared {
    let producers = Group {
        rate,
        ..Group::new(PRODUCERS, u64::from(rate.is_none()))
    };
    let consumers = (consumers > 0).then(|| Group::new(CONSUMERS, consumers));
    let groups = [producers].into_iter().chain(consumers).collect();
    let plan = Plan::new("test", TIMELINE, groups, settings);
    let nodes = Nodes::of_run(["amqp://127.0.0.1:1/"].into_iter(), &plan.driver).unwrap();
    Shared::new(&plan, nodes.unwrap(), &WorkerRange::all(1)).unwrap()
}

/// The counts and times that a worker has recorded.
pub(crate) struct Recorded {
    record: Recorder,
    intervals: UnboundedReceiver<WorkerSecond>,
}

/// Returns a worker without a schedule.
pub(crate) fn worker() -> (Worker, Recorded) {
    let phases = Phases::new(TIMELINE, ORIGIN);
    let (send, intervals) = tokio::sync::mpsc::unbounded_channel();
    let (_, clean) = std::sync::mpsc::channel();
    let record = Recorder::new(
        0,
        ORIGIN,
        Tally::new(&SPEC.series),
        &SPEC.counters,
        send,
        clean,
    );
    let worker = Worker {
        share: Share::ALL,
        pacer: Pacer::new(phases.begin, phases.end, Vec::new()),
        record: record.clone(),
        phases,
        deadline_ns: u64::MAX,
        origin_unix_ns: ORIGIN,
        opening: WorkerOpening::new(None),
        cancellation: Arc::new(Cancellation::new().unwrap()),
        descriptors: 10,
    };
    (worker, Recorded { record, intervals })
}

/// Returns the state of a loop that is at `now`.
pub(super) fn at(worker: Worker, now: u64) -> LoopState<()> {
    let mut state = LoopState::new(worker, Options::default());
    state.now = now;
    state
}

impl Recorded {
    /// Returns all that was recorded.
    pub(crate) fn end(mut self) -> Tally {
        self.record.finish(Ok(()));
        let mut sum = Tally::new(&SPEC.series);
        while let Ok(interval) = self.intervals.try_recv() {
            sum.merge(&interval.tally);
        }
        sum
    }
}
