//! Operations whose instructions are counted: an operation is recorded, the pacer decides the next start, and the event
//! loop turns once.

#[path = "support/pacers.rs"]
mod pacers;

use std::hint::black_box;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use load::clock;
use load::driver::{Cancellation, Phases, Worker};
use load::event_loop::{self, Context, Handler, Options};
use load::opening_phase::WorkerOpening;
use load::pacer::{Pacer, Start, Tick};
use load::plan::Timeline;
use load::reactor::Event;
use load::recorder::{Recorder, SECOND_NS};
use load::schedule::{Schedule, Share};
use load::slots::Id;
use measure::spec::{SeriesRole, SeriesSpec};
use measure::tally::{Series, Tally};
use pacers::{LONG, NOW};
use test_kit::operations;

const SERIES: &[SeriesSpec] = &[SeriesSpec::new("response", SeriesRole::Main)];
const RESPONSE: Series = Series(0);

fn main() {
    operations::run(&[("record", record), ("pacer", pace), ("event-loop", turn)]);
}

/// Creates a worker whose operations are all overdue.
fn worker(operations: u64) -> Worker {
    let begin = clock::now() - 2 * SECOND_NS;
    let timeline = Timeline {
        warmup: Duration::ZERO,
        measure: LONG,
        drain: LONG,
    };
    let phases = Phases::new(timeline, begin);
    let cancellation = Arc::new(Cancellation::new().expect("a descriptor is free"));
    // Nobody reads seconds, because none ends: the first one begins tomorrow. Its end would count whenever it came.
    let (worker_seconds, _) = tokio::sync::mpsc::unbounded_channel();
    let (_, clean) = std::sync::mpsc::channel();
    let tomorrow = phases.end;
    let record = Recorder::new(0, tomorrow, Tally::new(SERIES), &[], worker_seconds, clean);
    let record = record.measuring(phases, &cancellation, RESPONSE);
    record.tick(begin);
    let schedule = Schedule::spread(operations, Duration::from_secs(1), Share::ALL);
    Worker {
        share: Share::ALL,
        pacer: Pacer::new(phases.begin, phases.end, vec![schedule]),
        record,
        phases,
        deadline_ns: u64::MAX,
        origin_unix_ns: 0,
        opening: WorkerOpening::new(None),
        cancellation,
        descriptors: 1_000,
    }
}

fn record(count: u64) {
    let record = worker(0).record;
    for ns in 0..count {
        record.begin();
        record.lag(black_box(ns));
        record.value(RESPONSE, black_box(ns));
        record.ok();
    }
}

fn pace(count: u64) {
    let mut pacer = pacers::ready(1);
    for _ in 0..count {
        assert!(matches!(pacer.poll(black_box(NOW)), Tick::Ready(_)));
    }
}

/// Turns the loop once per operation, which starts, and ends when its byte arrives.
fn turn(count: u64) {
    let options = Options {
        starts_per_turn: 1,
        ..Options::default()
    };
    let mut cx = Context::new(worker(count), options).expect("descriptors are free");
    let (near, far) = UnixStream::pair().expect("descriptors are free");
    let id = cx.connections.insert(near);
    let near = cx.connections.get_mut(id).expect("it was inserted above");
    let watched = cx.reactor.watch(&*near, id.token(0));
    watched.expect("a descriptor can be watched");
    event_loop::run(Bytes { far, open: None }, cx).expect("the loop ends with the last operation");
}

/// A handler whose operation is a byte from one end of a connection to the other.
struct Bytes {
    far: UnixStream,
    open: Option<Start>,
}

impl Handler for Bytes {
    type Connection = UnixStream;
    type Timer = ();

    fn start(&mut self, start: Start, _: &mut Context<Self>) {
        self.open = Some(start);
        self.far.write_all(b"!").expect("there is room for a byte");
    }

    fn ready(&mut self, id: Id, _: Event, cx: &mut Context<Self>) {
        let near = cx.connections.get_mut(id).expect("it stays open");
        let length = near.read(&mut cx.buffer).expect("a byte has arrived");
        let start = self.open.take().expect("its operation is open");
        assert_eq!(length, 1);
        let record = &cx.state.record;
        record.value(RESPONSE, cx.state.now - start.at);
        record.ok();
    }

    fn is_idle(&self, _: &Context<Self>) -> bool {
        self.open.is_none()
    }

    fn give_up(&mut self, _: &mut Context<Self>) -> anyhow::Result<()> {
        Ok(())
    }
}
