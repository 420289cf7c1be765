//! Tests the loop of clients that do one operation after the other.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use super::*;
use crate::event_loop::{Operation, Operations, operations};
use measure::tally::Series;

/// Clients that fail, hang or answer.
#[derive(Default)]
struct Toy {
    /// Numbers of the clients that were opened.
    opened: RefCell<BTreeSet<u64>>,
    opens: Cell<usize>,
    /// Operations that are left to fail, and clients that can't be opened.
    failing: Cell<u64>,
    unopenable: Cell<u64>,
    survives: bool,
    /// Duration of an operation.
    lasts: Duration,
    /// Operations hang; once this many do, the run is canceled.
    hang: Option<u64>,
    cancellation: RefCell<Option<Arc<Cancellation>>>,
    /// Milliseconds after which an operation is too late to start.
    deadline_ms: Option<u64>,
    /// Operations that ran, of the warm-up and of the measured time.
    ran: [Cell<u64>; 2],
}

fn takes_one(count: &Cell<u64>) -> bool {
    let left = count.get();
    count.set(left.saturating_sub(1));
    left > 0
}

impl Operations for Toy {
    type Client = u64;

    async fn open(&self, number: u64, _group: usize) -> Result<u64, &'static str> {
        tokio::task::yield_now().await;
        if takes_one(&self.unopenable) {
            return Err("closed");
        }
        self.opens.set(self.opens.get() + 1);
        self.opened.borrow_mut().insert(number);
        Ok(number)
    }

    async fn run(&self, _client: &mut u64, operation: &Operation) -> Result<(), &'static str> {
        let ran = &self.ran[usize::from(operation.is_measured())];
        ran.set(ran.get() + 1);
        tokio::task::yield_now().await;
        if let Some(most) = self.hang {
            if ran.get() == most {
                let cancellation = self.cancellation.borrow();
                cancellation.as_ref().unwrap().request(0);
            }
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(self.lasts).await;
        if takes_one(&self.failing) {
            return Err("failed");
        }
        Ok(())
    }

    fn survives(&self, _failure: &'static str) -> bool {
        self.survives
    }
}

/// Runs a schedule on one group. `clients` of its clients are opened before the load.
async fn drive(toy: &Toy, schedule: Schedule, times_ms: [u64; 3], clients: u64) -> Recorded {
    let timeline = Timeline {
        warmup: Duration::from_millis(times_ms[0]),
        ..Timeline::new(
            Duration::from_millis(times_ms[1]),
            Duration::from_millis(times_ms[2]),
        )
    };
    let (mut worker, run) = Run::with_phases(schedule, Phases::new(timeline, clock::now()));
    worker.deadline_ns = toy.deadline_ms.map_or(u64::MAX, |deadline| deadline * MS);
    *toy.cancellation.borrow_mut() = Some(Arc::clone(&run.cancellation));
    let ended = operations(toy, worker, Series(0), &[clients]).await;
    ended.unwrap();
    run.record.finish(Ok(()));
    Recorded::read(run.worker_seconds)
}

fn closed(clients: u64, ops: u64) -> Schedule {
    Schedule::closed(clients, Duration::ZERO, Share::ALL).limited(ops)
}

const LONG: [u64; 3] = [0, 60_000, 60_000];

#[tokio::test]
async fn clients_are_opened_before_the_load_and_do_one_operation_after_the_other() {
    let toy = Toy::default();
    let recorded = drive(&toy, closed(3, 5), LONG, 3).await;
    assert_eq!(recorded.counts(), [15, 15, 0, 0]);
    assert_eq!(recorded.0.series().next().unwrap().1.len(), 15);
    assert_eq!(*toy.opened.borrow(), BTreeSet::from([0, 1, 2]));
}

#[tokio::test]
async fn the_time_of_an_operation_counts_from_its_due_time_while_it_waits_for_a_client() {
    let toy = Toy {
        lasts: Duration::from_millis(10),
        ..Toy::default()
    };
    let at_once = Schedule::spread(3, Duration::ZERO, Share::ALL);
    let recorded = drive(&toy, at_once, LONG, 1).await;
    let (_, times) = recorded.0.series().next().unwrap();
    let times = times.histogram();
    assert!(times.min() >= 10 * MS && times.max() >= 30 * MS);
}

#[tokio::test]
async fn without_known_clients_one_is_opened_whenever_none_is_free() {
    let toy = Toy::default();
    let at_once = Schedule::spread(4, Duration::ZERO, Share::ALL);
    let recorded = drive(&toy, at_once, LONG, 0).await;
    assert_eq!(recorded.counts(), [4, 4, 0, 0]);
    assert_eq!(*toy.opened.borrow(), BTreeSet::from([0, 1, 2, 3]));
    let toy = Toy::default();
    drive(&toy, closed(1, 9), LONG, 0).await;
    assert_eq!(
        *toy.opened.borrow(),
        BTreeSet::from([0]),
        "the client is used again"
    );
}

#[tokio::test]
async fn a_client_is_opened_again_after_a_failure_unless_it_survives() {
    for (survives, opened) in [(false, 3), (true, 1)] {
        let toy = Toy {
            failing: Cell::new(2),
            survives,
            ..Toy::default()
        };
        let recorded = drive(&toy, closed(1, 5), LONG, 1).await;
        assert_eq!(recorded.counts(), [5, 3, 0, 0]);
        assert_eq!(recorded.errors(), 2);
        assert_eq!(toy.opens.get(), opened);
    }
}

#[tokio::test]
async fn operations_fail_while_their_client_cannot_be_opened() {
    let toy = Toy {
        // The first attempt is before the load, and no operation.
        unopenable: Cell::new(3),
        ..Toy::default()
    };
    let recorded = drive(&toy, closed(1, 5), LONG, 1).await;
    assert_eq!(recorded.counts(), [5, 3, 0, 0]);
    assert_eq!(recorded.0.errors["closed"], 2);
    assert_eq!(*toy.opened.borrow(), BTreeSet::from([0]));
}

#[tokio::test]
async fn a_client_that_cannot_be_opened_rests_before_its_next_operation() {
    let toy = Toy {
        unopenable: Cell::new(u64::MAX),
        ..Toy::default()
    };
    let recorded = drive(&toy, closed(1, u64::MAX), [0, 100, 60_000], 1).await;
    // At most one in each 10 ms of 100 ms, and the one that was due at the end.
    assert!(
        (1..=11).contains(&recorded.errors()),
        "{}",
        recorded.errors()
    );
}

#[tokio::test]
async fn operations_of_the_warm_up_are_counted_apart() {
    let toy = Toy::default();
    // Some begin in the warm-up, which has no end that an operation could miss.
    let rate = [Stage {
        from: 1_000.0,
        to: 1_000.0,
        over: Duration::from_millis(40),
    }];
    let schedule = Schedule::rate(&rate, Arrival::Constant, 0, Share::ALL);
    let recorded = drive(&toy, schedule, [20, 20, 60_000], 0).await;
    let [warmup, measured] = toy.ran.map(|ran| ran.get());
    assert_eq!([warmup, measured], [20, 20]);
    assert_eq!(recorded.counts(), [20, 20, 0, 0]);
    assert_eq!(recorded.count(crate::recorder::WARMUP), 20);
}

#[tokio::test]
async fn hanging_operations_are_unfinished_and_those_that_wait_for_them_are_missed() {
    let toy = Toy {
        hang: Some(2),
        ..Toy::default()
    };
    let at_once = Schedule::spread(5, Duration::ZERO, Share::ALL);
    let recorded = drive(&toy, at_once, LONG, 2).await;
    assert_eq!(recorded.counts(), [2, 0, 3, 2]);
}

#[tokio::test]
async fn operations_that_wait_too_long_for_a_client_are_missed() {
    let toy = Toy {
        lasts: Duration::from_millis(100),
        deadline_ms: Some(50),
        ..Toy::default()
    };
    let schedule = Schedule::rate(
        &[Stage {
            from: 100.0,
            to: 100.0,
            over: Duration::from_millis(500),
        }],
        Arrival::Constant,
        1,
        Share::ALL,
    );
    let recorded = drive(&toy, schedule, [0, 500, 1_000], 1).await;
    let [started, ok, missed, unfinished] = recorded.counts();
    assert_eq!((started + missed, ok, unfinished), (50, started, 0));
    // The only client is free once in 100 ms, and five of ten that came due meanwhile are too late.
    assert!((1..=10).contains(&started), "{started}");
    assert_eq!(recorded.count(crate::recorder::MISSED_WAITING), missed);
}
