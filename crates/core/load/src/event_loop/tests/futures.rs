//! Tests the loop of futures. The handler shows how a client library is driven: the schedule makes operations due, the
//! futures of the connections do them, and both share the state of the loop.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use super::*;

/// A closed loop: each client is a future with one operation after the other.
struct Clients<'a> {
    shared: &'a RefCell<LoopState<Start>>,
    /// First operations of clients that have no future yet.
    due: RefCell<VecDeque<Start>>,
    open: Cell<u64>,
    /// Pause of a client after its first operation.
    pause_ns: u64,
    /// True if operations never end.
    hangs: bool,
    given_up: Cell<u64>,
    timers: Cell<u64>,
}

impl AsyncHandler for Clients<'_> {
    type Timer = Start;

    fn start(&self, start: Start, _state: &mut LoopState<Start>) {
        self.open.set(self.open.get() + 1);
        self.due.borrow_mut().push_back(start);
    }

    fn timer(&self, previous: Start, state: &mut LoopState<Start>) {
        self.timers.set(self.timers.get() + 1);
        if let Some(next) = state.next_of_client(previous, state.now) {
            self.start(next, state);
        }
    }

    fn is_idle(&self, state: &LoopState<Start>) -> bool {
        self.open.get() == 0 && state.timers.is_empty()
    }

    fn give_up(&self, state: &mut LoopState<Start>) -> anyhow::Result<()> {
        self.given_up.set(self.given_up.get() + 1);
        state.record.unfinished_many(self.open.get());
        Ok(())
    }
}

impl Clients<'_> {
    /// Returns the future of the next client to begin.
    fn connect(&self) -> Option<impl Future<Output = ()>> {
        let start = self.due.borrow_mut().pop_front()?;
        Some(self.operate(start))
    }

    /// Does the operations of a client until it pauses or leaves.
    async fn operate(&self, mut start: Start) {
        loop {
            if self.hangs {
                std::future::pending::<()>().await;
            }
            tokio::task::yield_now().await;
            // The borrow ends before the next await.
            let mut state = self.shared.borrow_mut();
            state.record.ok();
            self.open.set(self.open.get() - 1);
            let now = clock::now();
            if self.pause_ns > 0 {
                state.timers.set(now + self.pause_ns, start);
                return state.wake();
            }
            match state.next_of_client(start, now) {
                Some(next) => start = next,
                // The loop may have to end.
                None => return state.wake(),
            }
            self.open.set(self.open.get() + 1);
        }
    }
}

/// Runs clients with three operations each. Returns the record, the fired timers and the futures that are left.
async fn drive(
    measure_ms: u64,
    drain_ms: u64,
    change: impl FnOnce(&mut Clients<'_>, &Cancellation),
) -> (Recorded, u64, usize) {
    let schedule = Schedule::closed(4, Duration::ZERO, Share::ALL).limited(3);
    let (worker, run) = Run::new(schedule, clock::now(), measure_ms, drain_ms);
    let shared = RefCell::new(LoopState::new(worker, Options::default()));
    let mut clients = Clients {
        shared: &shared,
        due: RefCell::default(),
        open: Cell::new(0),
        pause_ns: 0,
        hangs: false,
        given_up: Cell::new(0),
        timers: Cell::new(0),
    };
    change(&mut clients, &run.cancellation);
    let left = run_async(&clients, &shared, || clients.connect()).await;
    let left = left.unwrap().len();
    assert_eq!(clients.given_up.get(), 1);
    run.record.finish(Ok(()));
    (
        Recorded::read(run.worker_seconds),
        clients.timers.get(),
        left,
    )
}

#[tokio::test]
async fn clients_do_their_operations_and_the_loop_ends_with_the_last() {
    let (recorded, timers, left) = drive(60_000, 60_000, |_, _| {}).await;
    assert_eq!(recorded.counts(), [12, 12, 0, 0]);
    assert_eq!((timers, left), (0, 0));
}

#[tokio::test]
async fn a_client_that_pauses_goes_on_when_its_timer_is_due() {
    let (recorded, timers, left) = drive(60_000, 60_000, |clients, _| {
        clients.pause_ns = MS;
    })
    .await;
    assert_eq!(recorded.counts(), [12, 12, 0, 0]);
    assert_eq!((timers, left), (12, 0));
}

#[tokio::test]
async fn endless_operations_are_unfinished_and_their_futures_are_left() {
    let (recorded, _, left) = drive(5, 10, |clients, _| clients.hangs = true).await;
    assert_eq!(recorded.counts(), [4, 0, 0, 4]);
    assert_eq!(left, 4);
}

#[tokio::test]
async fn a_cancellation_ends_the_loop_although_nothing_wakes_it() {
    let (recorded, _, _) = drive(3_600_000, 60_000, |clients, cancellation| {
        clients.hangs = true;
        cancellation.request(5 * MS);
    })
    .await;
    assert_eq!(recorded.counts(), [0, 0, 4, 0]);
}
