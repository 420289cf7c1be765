//! Tests the loop with a handler whose operations are pairs of sockets.

mod futures;
mod operations;
mod state;

use std::cell::RefCell;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use measure::spec::{SeriesRole, SeriesSpec};
use measure::tally::Tally;
use tokio::sync::mpsc::UnboundedReceiver;

use super::*;
use crate::driver::{Cancellation, Phases};
use crate::opening_phase::WorkerOpening;
use crate::pacer::Pacer;
use crate::plan::Timeline;
use crate::recorder::{Recorder, WorkerSecond};
use crate::schedule::{Arrival, Schedule, Share, Stage};

const MS: u64 = 1_000_000;
const SERIES: &[SeriesSpec] = &[SeriesSpec::new("response", SeriesRole::Main)];

/// A run of one worker, and what it records.
struct Run {
    phases: Phases,
    cancellation: Arc<Cancellation>,
    record: Recorder,
    worker_seconds: UnboundedReceiver<WorkerSecond>,
}

impl Run {
    /// Creates a run that measures and drains for these milliseconds, and its worker.
    fn new(schedule: Schedule, origin: u64, measure_ms: u64, drain_ms: u64) -> (Worker, Self) {
        let timeline = Timeline::new(
            Duration::from_millis(measure_ms),
            Duration::from_millis(drain_ms),
        );
        Self::with_phases(schedule, Phases::new(timeline, origin))
    }

    fn with_phases(schedule: Schedule, phases: Phases) -> (Worker, Self) {
        let (send, worker_seconds) = tokio::sync::mpsc::unbounded_channel();
        let (_, take) = std::sync::mpsc::channel();
        let cancellation = Arc::new(Cancellation::new().unwrap());
        let record = Recorder::new(0, phases.origin, Tally::new(SERIES), &[], send, take);
        let worker = Worker {
            share: Share::ALL,
            pacer: Pacer::new(phases.begin, phases.end, vec![schedule]),
            record: record.clone(),
            phases,
            deadline_ns: u64::MAX,
            origin_unix_ns: 0,
            opening: WorkerOpening::new(None),
            cancellation: Arc::clone(&cancellation),
            descriptors: 1_000,
        };
        let run = Self {
            phases,
            cancellation,
            record,
            worker_seconds,
        };
        (worker, run)
    }

    /// Runs a handler to its end, and returns what it has seen.
    fn run(
        self,
        worker: Worker,
        options: Options,
        change: impl FnOnce(&mut Toy),
    ) -> (Seen, Recorded) {
        let seen = Rc::new(RefCell::new(Seen::default()));
        let mut toy = Toy {
            answers: true,
            holds: false,
            lasts_ns: u64::MAX,
            seen: Rc::clone(&seen),
        };
        change(&mut toy);
        let cx = Context::new(worker, options).unwrap();
        run(toy, cx).unwrap();
        self.record.finish(Ok(()));
        (seen.take(), Recorded::read(self.worker_seconds))
    }
}

/// The sum of the recorded seconds.
struct Recorded(Tally);

impl Recorded {
    fn read(mut worker_seconds: UnboundedReceiver<WorkerSecond>) -> Self {
        let mut sum = Tally::new(SERIES);
        while let Ok(worker_second) = worker_seconds.try_recv() {
            sum.merge(&worker_second.tally);
        }
        Self(sum)
    }

    fn count(&self, name: &str) -> u64 {
        self.0.counts.get(name).copied().unwrap_or(0)
    }

    /// Returns how many operations started, succeeded, were missed, and were unfinished.
    fn counts(&self) -> [u64; 4] {
        ["started", "ok", "missed", "unfinished"].map(|name| self.count(name))
    }

    fn errors(&self) -> u64 {
        self.0.errors.values().sum()
    }
}

/// The calls that a handler has seen.
#[derive(Debug, Default)]
struct Seen {
    starts: Vec<Start>,
    timers: Vec<&'static str>,
    turns: Vec<u64>,
    given_up: u64,
}

/// A handler whose operations end when a byte comes back on their socket.
#[derive(Debug)]
struct Toy {
    /// True if its peer answers at once; otherwise it never does.
    answers: bool,
    /// True if due operations must wait.
    holds: bool,
    lasts_ns: u64,
    seen: Rc<RefCell<Seen>>,
}

#[derive(Debug)]
struct Operation {
    client: UnixStream,
    _peer: UnixStream,
    start: Start,
}

impl Handler for Toy {
    type Connection = Operation;
    type Timer = &'static str;

    fn start(&mut self, start: Start, cx: &mut Context<Self>) {
        let (client, mut peer) = UnixStream::pair().unwrap();
        if self.answers {
            peer.write_all(b"!").unwrap();
        }
        let operation = Operation {
            client,
            _peer: peer,
            start,
        };
        let id = cx.connections.insert(operation);
        let operation = cx.connections.get_mut(id).unwrap();
        cx.reactor.watch(&operation.client, id.token(3)).unwrap();
        self.seen.borrow_mut().starts.push(start);
    }

    fn can_start(&self, _cx: &Context<Self>) -> bool {
        !self.holds
    }

    fn ready(&mut self, id: Id, event: Event, cx: &mut Context<Self>) {
        assert_eq!(event.side(), 3);
        let mut operation = cx.connections.remove(id).unwrap();
        assert_eq!(operation.client.read(&mut cx.buffer).unwrap(), 1);
        if cx.state.phases.counts(operation.start.at) {
            cx.state.record.ok();
        }
    }

    fn timer(&mut self, timer: &'static str, _cx: &mut Context<Self>) {
        self.seen.borrow_mut().timers.push(timer);
    }

    fn expires_at(&self, operation: &Operation) -> u64 {
        operation.start.at.saturating_add(self.lasts_ns)
    }

    fn expired(&mut self, id: Id, cx: &mut Context<Self>) {
        let operation = cx.connections.remove(id).unwrap();
        assert!(cx.state.now > self.expires_at(&operation));
        cx.state.record.error("timeout");
    }

    fn turn(&mut self, cx: &mut Context<Self>) -> anyhow::Result<u64> {
        let mut seen = self.seen.borrow_mut();
        if seen.turns.is_empty() {
            for (ms, name) in [(3, "third"), (1, "first"), (2, "second")] {
                cx.state.timers.set(cx.state.now + ms * MS, name);
            }
        }
        seen.turns.push(cx.state.now);
        Ok(u64::MAX)
    }

    fn is_idle(&self, cx: &Context<Self>) -> bool {
        cx.connections.is_empty() && cx.state.timers.is_empty()
    }

    fn give_up(&mut self, cx: &mut Context<Self>) -> anyhow::Result<()> {
        self.seen.borrow_mut().given_up += 1;
        cx.state.record.unfinished_many(cx.connections.len() as u64);
        Ok(())
    }
}

#[test]
fn due_operations_start_in_time_and_the_loop_ends_with_the_last_one() {
    let schedule = Schedule::spread(40, Duration::from_millis(20), Share::ALL);
    let (worker, run) = Run::new(schedule, clock::now(), 20, 60_000);
    let drained = run.phases.drained;
    let (seen, recorded) = run.run(worker, Options::default(), |_| {});
    assert_eq!(recorded.counts(), [40, 40, 0, 0]);
    assert_eq!(recorded.0.lag.len(), 40);
    assert_eq!(seen.given_up, 1);
    let in_order = seen.starts.is_sorted_by_key(|start| start.due);
    assert!(in_order, "{:?}", seen.starts);
    assert!(seen.turns.iter().all(|now| *now < drained), "{seen:?}");
}

#[test]
fn timers_fire_in_the_order_of_their_times_and_keep_the_loop_alive() {
    let (worker, run) = Run::new(
        Schedule::spread(0, Duration::ZERO, Share::ALL),
        clock::now(),
        0,
        60_000,
    );
    let (seen, recorded) = run.run(worker, Options::default(), |_| {});
    assert_eq!(seen.timers, ["first", "second", "third"]);
    assert!(seen.turns.last() >= Some(&(seen.turns[0] + 3 * MS)));
    assert_eq!(recorded.counts(), [0; 4]);
    assert_eq!(seen.given_up, 1);
}

#[test]
fn operations_that_never_end_are_unfinished_at_the_end_of_the_drain_phase() {
    let schedule = Schedule::spread(3, Duration::ZERO, Share::ALL);
    let (worker, run) = Run::new(schedule, clock::now(), 5, 30);
    let drained = run.phases.drained;
    let (seen, recorded) = run.run(worker, Options::default(), |toy| toy.answers = false);
    assert_eq!(recorded.counts(), [3, 0, 0, 3]);
    assert_eq!(seen.given_up, 1);
    // Late starts, here after a late first turn, extend the drain phase.
    let (last, earlier) = seen.turns.split_last().unwrap();
    assert!(*last >= drained);
    let late = seen.turns[0].saturating_sub(drained - 30 * MS);
    assert!(earlier.iter().all(|now| *now < drained + late), "{seen:?}");
}

#[test]
fn a_connection_whose_time_has_passed_expires_once() {
    let schedule = Schedule::spread(5, Duration::ZERO, Share::ALL);
    let (worker, run) = Run::new(schedule, clock::now(), 5, 60_000);
    let options = Options {
        sweep_ns: MS,
        ..Options::default()
    };
    let (seen, recorded) = run.run(worker, options, |toy| {
        toy.answers = false;
        toy.lasts_ns = 4 * MS;
    });
    assert_eq!(recorded.counts(), [5, 0, 0, 0]);
    assert_eq!((recorded.errors(), seen.given_up), (5, 1));
}

#[test]
fn nothing_that_is_due_past_the_end_starts() {
    let rate = [Stage {
        from: 2_000.0,
        to: 2_000.0,
        over: Duration::from_secs(3_600),
    }];
    let schedule = Schedule::rate(&rate, Arrival::Constant, 1, Share::ALL);
    let (worker, run) = Run::new(schedule, clock::now(), 20, 60_000);
    let end = run.phases.end;
    let (seen, recorded) = run.run(worker, Options::default(), |_| {});
    assert!(seen.starts.iter().all(|start| start.due < end));
    let [started, ok, missed, unfinished] = recorded.counts();
    assert_eq!((started, started + missed, unfinished), (ok, 40, 0));
}

#[test]
fn a_loop_without_an_open_operation_wakes_for_what_is_due_only() {
    let rate = [Stage {
        from: 5.0,
        to: 5.0,
        over: Duration::from_secs(3_600),
    }];
    let schedule = Schedule::rate(&rate, Arrival::Constant, 1, Share::ALL);
    let (worker, run) = Run::new(schedule, clock::now(), 500, 60_000);
    let (seen, _) = run.run(worker, Options::default(), |_| {});
    // Of each operation its start and its end, the three timers, and ends of seconds.
    let due = 2 * seen.starts.len() + 3;
    assert!(seen.turns.len() <= due + 3, "{seen:?}");
}

#[test]
fn operations_that_had_to_wait_are_missed() {
    let schedule = Schedule::spread(5, Duration::ZERO, Share::ALL);
    let (worker, run) = Run::new(schedule, clock::now(), 5, 10);
    let (seen, recorded) = run.run(worker, Options::default(), |toy| toy.holds = true);
    assert_eq!(recorded.counts(), [0, 0, 5, 0]);
    assert_eq!((seen.starts.len(), seen.given_up), (0, 1));
}

#[test]
fn operations_of_the_warm_up_are_in_no_total() {
    let timeline = Timeline {
        warmup: Duration::from_secs(3_600),
        measure: Duration::ZERO,
        drain: Duration::ZERO,
    };
    let schedule = Schedule::spread(7, Duration::ZERO, Share::ALL);
    let (worker, run) = Run::with_phases(schedule, Phases::new(timeline, clock::now()));
    let (_, recorded) = run.run(worker, Options::default(), |_| {});
    assert_eq!(recorded.counts(), [0; 4]);
    assert_eq!(recorded.count("warmup"), 7);
    assert_eq!(recorded.0.lag.len(), 0);
}

#[test]
fn a_cancellation_wakes_the_loop_and_gives_open_operations_its_grace() {
    let schedule = Schedule::spread(2, Duration::ZERO, Share::ALL);
    let (worker, run) = Run::new(schedule, clock::now(), 3_600_000, 3_600_000);
    let cancellation = Arc::clone(&run.cancellation);
    let asks = std::thread::spawn(move || {
        // The loop waits by then, which nothing shows; all below holds before that too.
        std::thread::sleep(Duration::from_millis(5));
        cancellation.request(20 * MS);
        cancellation.deadline().unwrap()
    });
    let (seen, recorded) = run.run(worker, Options::default(), |toy| toy.answers = false);
    let deadline = asks.join().unwrap();
    let (last, earlier) = seen.turns.split_last().unwrap();
    assert!(*last >= deadline && earlier.iter().all(|now| *now < deadline));
    let [started, _, missed, unfinished] = recorded.counts();
    assert_eq!((started + missed, unfinished), (2, started));
    assert_eq!(seen.given_up, 1);
}
