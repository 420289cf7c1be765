//! The engine `lapin`: the Rust client library that applications use, driven as efficiently as it allows.
//!
//! One future per connection polls its producers and consumers. The worker's loop takes starts from the schedule, hands
//! arrivals to the ledger, and ends the run. Costs inherent in lapin: a thread per connection, reached through a queue
//! with a wake-up for every frame, and a promise for each publish and each confirm with several allocations. Costs
//! avoided here: waiting for each publish (only the last of a batch is awaited, and a batch is what is due, at most
//! 512), a clone of the channel for each message, `Delivery::ack` (a detour over another task, while
//! `Channel::basic_ack` queues a frame), and buffers of 8 MiB for each connection (they are 64 times `frame_max`).
//!
//! CPU per message on 4 cores beside much other work, 1 KB, medians of 5 alternating runs against the null broker; in
//! brackets with the system's allocator instead of mimalloc: 1.7 µs for a publish (2.4), 3.3 with confirms (4.8), 7.5
//! for a delivery (8.2), 7.5 with an acknowledgement each (7.7). Memory that lapin allocates on one thread is freed on
//! another.

mod consumer;
mod dial;
mod ending;
mod link;
mod polling;
mod producer;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::pin::pin;
use std::task::Poll;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use load::clock::{self, Timer};
use load::driver::{Phases, Worker};
use load::pacer::{Pacer, Tick};
use load::recorder::{MISSED, Recorder};

pub(crate) use dial::{Dialer, Opened};

use crate::counts::Counts;
use crate::driver::Perftest;
use crate::layout::Client;
use crate::ledger::{Arrival, KEPT};
use crate::outcome::count;
use crate::settings::{self, PRODUCERS};
use crate::starts;
use amqp_client::stamp;
use consumer::Consumer;
use producer::Producer;

/// Maximum channels per connection: they share its thread.
pub(crate) const MOST_CHANNELS: u16 = 4;
/// Starts taken from the schedule before connections are served again.
const STARTS_AT_ONCE: usize = 4096;
/// Interval between checks for the end once everything is published.
const LOOK_NS: u64 = 2_000_000;
/// Interval between checks for an interruption, and the longest time until an arrival is handed in.
const TURN_NS: u64 = 20_000_000;

/// Serves a worker's share of producers and consumers until all of them are done.
pub(crate) async fn work(driver: &Perftest, worker: Worker) -> anyhow::Result<()> {
    let timer = Timer::new()?;
    if driver.layout.producers == 0 {
        // Without producers, every delivery counts: none may come before the measured time.
        timer.sleep_until(worker.phases.origin).await;
    }
    let state = WorkerState::new(driver, worker);
    let (index, of) = (state.worker.share.index, state.worker.share.of);
    let numbers = driver.layout.worker_connections(index, of);
    let mut links: FuturesUnordered<_> = numbers
        .map(|number| {
            let opened = driver.dialer().and_then(|dialer| dialer.take(number));
            link::serve(&state, number, opened)
        })
        .collect();
    loop {
        let now = clock::now();
        let deadline = state.deadline(now);
        let next = state.turn(now);
        if state.over() || now >= deadline {
            break;
        }
        let until = state.record.wait_until(next.min(deadline), now);
        let mut wait = pin!(timer.sleep_until(until));
        std::future::poll_fn(|context| {
            while let Poll::Ready(Some(())) = links.poll_next_unpin(context) {}
            match state.sooner.take() {
                true => Poll::Ready(()),
                false => wait.as_mut().poll(context),
            }
        })
        .await;
    }
    state.end_publishing(u64::MAX);
    state.closing.set(true);
    state.wake_all();
    while links.next().await.is_some() {}
    drop(links);
    state.close()
}

/// State that the connections of a worker share.
#[derive(Debug)]
struct WorkerState<'a> {
    driver: &'a Perftest,
    worker: Worker,
    record: Recorder,
    phases: Cell<Phases>,
    pacer: RefCell<Pacer>,
    /// Producers by local index, see `index_of`.
    producers: Vec<RefCell<Producer>>,
    /// Consumers of this worker, by number.
    consumers: HashMap<u32, RefCell<Consumer>>,
    arrivals: RefCell<Vec<Arrival>>,
    counts: RefCell<Counts>,
    /// Lost connections by number, with the time of the loss.
    gone: RefCell<HashMap<u64, u64>>,
    /// Reason of the last loss or failed reconnect.
    why: RefCell<String>,
    publishers: u64,
    paced: bool,
    published: Cell<bool>,
    closing: Cell<bool>,
    /// Set if something is due before the next planned iteration of the worker's loop.
    sooner: Cell<bool>,
    next_second: Cell<u64>,
    /// Times at which a consumer was last active and the early end was last checked, and whether the run can end early.
    last_delivery: Cell<u64>,
    next_look: Cell<u64>,
    ends_early: Cell<bool>,
}

impl<'a> WorkerState<'a> {
    fn new(driver: &'a Perftest, worker: Worker) -> Self {
        let (index, of) = (worker.share.index, worker.share.of);
        let publishers = driver.layout.publishers(of);
        let group = settings::group(&driver.plan, PRODUCERS);
        let (mut producers, mut consumers) = (Vec::new(), HashMap::new());
        let numbers = driver.layout.worker_connections(index, of);
        for client in numbers.flat_map(|number| driver.layout.clients(number)) {
            match client {
                Client::Producer(number) => producers.push(number),
                Client::Consumer(number) => {
                    consumers.insert(
                        number,
                        RefCell::new(Consumer::new(number, &driver.plan.driver)),
                    );
                }
            }
        }
        // Producer number n of a worker is at index n / publishers.
        producers.sort_unstable();
        let producers = producers
            .into_iter()
            .map(|number| RefCell::new(Producer::new(number)));
        Self {
            driver,
            record: worker.record.clone(),
            phases: Cell::new(worker.phases),
            pacer: RefCell::new(starts::schedule(driver, &worker)),
            producers: producers.collect(),
            consumers,
            arrivals: RefCell::new(Vec::with_capacity(KEPT)),
            counts: RefCell::default(),
            gone: RefCell::default(),
            why: RefCell::default(),
            publishers,
            paced: group.is_some_and(|group| group.workers == 0),
            published: Cell::new(false),
            closing: Cell::new(false),
            sooner: Cell::new(false),
            next_second: Cell::new(0),
            last_delivery: Cell::new(worker.phases.origin),
            next_look: Cell::new(0),
            ends_early: Cell::new(false),
            worker,
        }
    }

    fn producer(&self, number: u64) -> &RefCell<Producer> {
        &self.producers[(number / self.publishers) as usize]
    }

    /// Runs one iteration of the worker's loop. Returns when the next is due.
    fn turn(&self, now: u64) -> u64 {
        let next = self.start_due(now).min(self.acknowledge_done(now));
        self.check_for_end(now);
        self.end_publishing(now);
        for producer in &self.producers {
            producer.borrow().take_returned(self);
        }
        // Starts are recorded before ends.
        self.counts.borrow_mut().write(&self.record);
        self.hand_in();
        if now >= self.next_second.get() {
            // Connections check for late confirms once a second.
            self.wake_all();
        }
        self.next_second.set(self.record.tick(now));
        let look = match self.published.get() || self.driver.ending.is_open() {
            true => LOOK_NS,
            false => match self.phases.get().end.saturating_sub(now) {
                0 => LOOK_NS,
                left => left.min(TURN_NS),
            },
        };
        next.min(now + look).min(self.next_second.get())
    }

    /// Returns when open operations are given up: the end of the drain phase, or earlier after an interruption.
    fn deadline(&self, now: u64) -> u64 {
        let mut phases = self.phases.get();
        let pacer = self.pacer.borrow();
        let drained = self
            .driver
            .drained(self.publishers, &self.worker.phases, &pacer);
        drop(pacer);
        match self.worker.stop.deadline() {
            Some(asked) => {
                self.pacer.borrow_mut().stop_at(now);
                phases.end = phases.end.min(now);
                self.phases.set(phases);
                asked.min(drained)
            }
            None => drained,
        }
    }

    /// Assigns due starts to producers. Returns when the next one is due.
    fn start_due(&self, now: u64) -> u64 {
        for _ in 0..STARTS_AT_ONCE {
            let start = match self.pacer.borrow_mut().poll(now) {
                Tick::Ready(start) => start,
                Tick::Wait(due) => return due,
                Tick::Over => return u64::MAX,
            };
            if let Some(late) = start.lag.filter(|_| self.phases.get().counts(start.at)) {
                self.record.lag(late);
            }
            let mut producer = self
                .producer(start.index % self.driver.layout.producers)
                .borrow_mut();
            producer.starts.add(start, self.paced);
            producer.wake();
        }
        now
    }

    /// Acknowledges processed deliveries and lets due consumers poll. Returns when the next is due.
    fn acknowledge_done(&self, now: u64) -> u64 {
        if !self.driver.plan.driver.times_consumers() {
            return u64::MAX;
        }
        let mut consumers = self.consumers.values();
        let next = consumers.try_fold(u64::MAX, |next, consumer| {
            let done = consumer.borrow_mut().acknowledge_done(self, now);
            Some(next.min(done))
        });
        next.unwrap_or(u64::MAX)
    }

    /// Detects, once, that the last message was published.
    fn end_publishing(&self, now: u64) {
        let end = self.phases.get().end;
        let pacer = self.pacer.borrow();
        let due = |producer: &RefCell<Producer>| producer.borrow().starts.due() > 0;
        let caught_up = || pacer.over(now) && !self.producers.iter().any(due);
        let ended = now >= end && (now >= pacer.starts_until() || caught_up());
        // A run of consumers alone goes on for as long as it measures.
        let published_all = || {
            let mut producers = self.producers.iter();
            self.driver.layout.producers > 0
                && pacer.over(now)
                && producers.all(|producer| producer.borrow().starts.waiting() == 0)
        };
        if self.published.get() || !(ended || published_all()) {
            return;
        }
        drop(pacer);
        self.published.set(true);
        let ends = |producer: &RefCell<Producer>| producer.borrow_mut().starts.end();
        let waiting: u64 = self.producers.iter().map(ends).sum();
        let missed = waiting + self.pacer.borrow_mut().missed(now);
        if missed > 0 {
            self.record.count(MISSED, missed);
        }
        if self.worker.share.index < self.publishers {
            let numbers = self.producers.iter().flat_map(|producer| {
                let producer = producer.borrow();
                let (number, written) = (producer.number, producer.written);
                [false, true]
                    .map(|counts| (stamp::stream(number, counts), written[usize::from(counts)]))
            });
            self.driver.ledger.producers_done(numbers);
        }
    }

    fn over(&self) -> bool {
        let mut producers = self.producers.iter();
        self.published.get()
            && producers.all(|producer| producer.borrow().is_settled())
            && (self.consumers.is_empty()
                || self.driver.layout.producers == 0
                || self.ends_early.get()
                || self.driver.ledger.complete(self.publishers))
    }

    /// Hands arrivals to the ledger of all workers.
    fn hand_in(&self) {
        let mut arrivals = self.arrivals.borrow_mut();
        self.driver.ledger.take(&mut arrivals, &self.record);
    }

    fn arrived(&self, arrival: Arrival) {
        self.arrivals.borrow_mut().push(arrival);
        if self.arrivals.borrow().len() >= KEPT {
            self.hand_in();
        }
    }

    fn wake_all(&self) {
        for producer in &self.producers {
            producer.borrow_mut().wake();
        }
        for consumer in self.consumers.values() {
            consumer.borrow_mut().wake();
        }
    }

    /// Closes the connections and gives up open operations.
    fn close(self) -> anyhow::Result<()> {
        self.hand_in();
        for producer in &self.producers {
            producer.borrow_mut().fail_unconfirmed(&self, None);
        }
        let now = clock::now();
        let gone = self.gone.borrow();
        for since in gone.values() {
            let ms = now.saturating_sub(*since) / 1_000_000;
            self.record.count(count::GAP_MS, ms);
        }
        self.counts.borrow_mut().write(&self.record);
        anyhow::ensure!(
            gone.is_empty(),
            "{} connections were lost and not reestablished by the end: {}",
            gone.len(),
            self.why.borrow()
        );
        Ok(())
    }
}
