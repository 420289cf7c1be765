//! The engine `lapin`: the client library that applications in Rust use, used as well as it can be.
//!
//! One future for each connection polls its producers and consumers; the worker's own loop takes starts from the
//! schedule, hands arrivals in, and ends. What lapin costs, whoever uses it: a thread for each connection, to which every
//! frame goes through a queue, with a wake-up; a promise for each publish and each confirm, several allocations each.
//! What is avoided: waiting for each publish (only the last of a batch is waited for, and a batch is what is due, at most
//! 512), a clone of the channel for each message, `Delivery::ack` (a detour over another task, where `Channel::basic_ack`
//! queues a frame), and buffers of 8 MiB for each connection (they are 64 times `frame_max`).
//!
//! On 4 cores beside much other work, 1 KB, medians of 5 runs against the null broker, in brackets with the system's
//! allocator in place of mimalloc, runs in turn: 1.7 µs of CPU for a publish (2.4), 3.3 with confirms (4.8), 7.5 for a
//! delivery (8.2), 7.5 with an acknowledgement each (7.7). What lapin allocates on one thread it frees on another.

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
use harness::clock::{self, Clock};
use harness::driver::{Phases, Worker};
use harness::pacer::{Pacer, Tick};
use harness::recorder::{MISSED, Recorder};

pub(crate) use dial::{Dialer, Opened};

use crate::counts::Counts;
use crate::driver::Perftest;
use crate::layout::Client;
use crate::ledger::{Arrival, KEPT};
use crate::outcome::count;
use crate::settings::{self, PRODUCERS};
use crate::{stamp, starts};
use consumer::Consumer;
use producer::Producer;

/// Most channels of a connection: they share its thread.
pub(crate) const MOST_CHANNELS: u16 = 4;
/// Starts that are taken from the schedule before connections are served again.
const STARTS_AT_ONCE: usize = 4096;
/// How often the end is looked for once all is published.
const LOOK_NS: u64 = 2_000_000;
/// How often it is looked whether the run was interrupted, and how long an arrival may wait for the account.
const TURN_NS: u64 = 20_000_000;

/// Serves a worker's share of producers and consumers until they have no more to do.
pub(crate) async fn work(driver: &Perftest, worker: Worker) -> anyhow::Result<()> {
    let mut clock = Clock::real()?;
    if driver.layout.producers == 0 {
        // Consumers alone take what comes: nothing must come before it counts.
        clock.sleep_until(worker.phases.origin).await;
    }
    let desk = Desk::new(driver, worker);
    let (index, of) = (desk.worker.share.index, desk.worker.share.of);
    let numbers = driver.layout.of_worker(index, of);
    let mut links: FuturesUnordered<_> = numbers
        .map(|number| {
            let opened = driver.dialer().and_then(|dialer| dialer.take(number));
            link::serve(&desk, number, opened)
        })
        .collect();
    loop {
        let now = clock::now();
        let deadline = desk.deadline(now);
        let next = desk.turn(now);
        if desk.over() || now >= deadline {
            break;
        }
        let until = desk.record.wait_until(next.min(deadline), now);
        let mut wait = pin!(clock.sleep_until(until));
        std::future::poll_fn(|context| {
            while let Poll::Ready(Some(())) = links.poll_next_unpin(context) {}
            match desk.sooner.take() {
                true => Poll::Ready(()),
                false => wait.as_mut().poll(context),
            }
        })
        .await;
    }
    desk.end_publishing(u64::MAX);
    desk.closing.set(true);
    desk.wake_all();
    while links.next().await.is_some() {}
    drop(links);
    desk.close()
}

/// What the connections of a worker share.
#[derive(Debug)]
struct Desk<'a> {
    driver: &'a Perftest,
    worker: Worker,
    record: Recorder,
    phases: Cell<Phases>,
    pacer: RefCell<Pacer>,
    /// By the place that follows from their number: see `place_of`.
    producers: Vec<RefCell<Producer>>,
    /// By number, those of this worker alone.
    consumers: HashMap<u32, RefCell<Consumer>>,
    arrivals: RefCell<Vec<Arrival>>,
    counts: RefCell<Counts>,
    /// Connections that were lost, by number, and when.
    gone: RefCell<HashMap<u64, u64>>,
    /// Why the last of them was, or why it could not be made again.
    why: RefCell<String>,
    publishers: u64,
    paced: bool,
    published: Cell<bool>,
    closing: Cell<bool>,
    /// Whether something is due before the worker's loop meant to look.
    sooner: Cell<bool>,
    next_second: Cell<u64>,
    /// When a consumer last had something to do, when it was last looked whether the run ends early, and whether it does.
    last_delivery: Cell<u64>,
    next_look: Cell<u64>,
    ends_early: Cell<bool>,
}

impl<'a> Desk<'a> {
    fn new(driver: &'a Perftest, worker: Worker) -> Self {
        let (index, of) = (worker.share.index, worker.share.of);
        let publishers = driver.layout.publishers(of);
        let group = settings::group(&driver.plan, PRODUCERS);
        let (mut producers, mut consumers) = (Vec::new(), HashMap::new());
        let numbers = driver.layout.of_worker(index, of);
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
        // Number n of a worker's is at place n / publishers.
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

    /// One turn of the worker's loop; returns when the next is due.
    fn turn(&self, now: u64) -> u64 {
        let next = self.start_due(now).min(self.acknowledge_done(now));
        self.look_for_end(now);
        self.end_publishing(now);
        for producer in &self.producers {
            producer.borrow().take_returned(self);
        }
        // What began is written down before what ended.
        self.counts.borrow_mut().write(&self.record);
        self.hand_in();
        if now >= self.next_second.get() {
            // Connections look once a second whether confirms are late.
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

    /// When what is open is given up: the end of the drain phase, or earlier where that was asked.
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

    /// Gives producers what is due; returns when the next is.
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

    /// Acknowledges what consumers have dealt with, and has asked what is due; returns when the next will be.
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

    /// Whether the last message was published is found out once.
    fn end_publishing(&self, now: u64) {
        let end = self.phases.get().end;
        let pacer = self.pacer.borrow();
        let due = |producer: &RefCell<Producer>| producer.borrow().starts.due() > 0;
        let caught_up = || pacer.over(now) && !self.producers.iter().any(due);
        let ended = now >= end && (now >= pacer.starts_until() || caught_up());
        // Consumers alone go on for as long as the run measures.
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

    /// Hands what arrived in to the account of all workers.
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

    /// The end, connections closed: what is open is given up.
    fn close(self) -> anyhow::Result<()> {
        self.hand_in();
        for producer in &self.producers {
            producer.borrow_mut().forsake(&self, None);
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
            "{} connections were lost and not made again by the end: {}",
            gone.len(),
            self.why.borrow()
        );
        Ok(())
    }
}
