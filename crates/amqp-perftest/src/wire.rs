//! The engine `wire`: many connections in one readiness loop, frames written and read by hand.
//!
//! What the loop costs, sketched for messages of 1 KB on a 2-core machine: copying and stamping one 40 ns, its share of
//! a `write` of 64 KB 170 ns (the kernel copies it); its share of a `read` 150 ns, taking it apart 15 ns, two values
//! recorded 30 ns, its place in the account 10 ns.
//!
//! The clock is read once for each batch of messages and once for each read, so the messages of one batch (at most
//! 64 KB, some 20 µs) share their start and those of one read their arrival. At low rates a batch is one message.

mod closing;
mod consumer;
mod ending;
mod incoming;
mod link;
mod polling;
mod producer;
mod publish;
mod read;
mod redial;

use std::collections::HashMap;
use std::time::Duration;

use harness::clock;
use harness::driver::Worker;
use harness::pacer::{Start, Tick};
use harness::reactor::Reactor;
use harness::recorder::MISSED;
use harness::slots::Slots;

pub use publish::{Message, Template};
pub use read::{Event, Malformed, Reader};

use crate::counts::Counts;
use crate::driver::{Connection, Perftest};
use crate::layout::Client;
use crate::ledger::{Arrival, KEPT};
use crate::settings::{self, PRODUCERS};
use crate::{stamp, starts};
use consumer::Consumer;
use link::Link;
use producer::Producer;
use redial::Redial;

/// The shared read buffer.
const BUFFER: usize = 256 << 10;
/// Octets that a producer writes in one turn, at least one message.
const BATCH: usize = 64 << 10;
/// Starts that are taken from the schedule before the sockets are looked at again.
const STARTS_AT_ONCE: usize = 4096;
/// How long an arrival may wait for its place in the account of all workers.
const HAND_IN_NS: u64 = 2_000_000;
/// How often the end is looked for once all is published, and a lost connection for its successor.
const LOOK_NS: u64 = 2_000_000;

/// Serves a worker's share of producers and consumers until they have no more to do.
pub(crate) fn work(driver: &Perftest, worker: Worker) -> anyhow::Result<()> {
    if driver.layout.producers == 0 {
        // Consumers alone take what comes: nothing must come before it counts.
        let head_start = worker.phases.origin.saturating_sub(clock::now());
        std::thread::sleep(Duration::from_nanos(head_start));
    }
    Loop::new(driver, worker)?.run()
}

/// One worker's connections.
#[derive(Debug)]
struct Loop<'a> {
    driver: &'a Perftest,
    worker: Worker,
    reactor: Reactor,
    links: Slots<Link>,
    /// Connections that were lost, by number, and when.
    gone: HashMap<u64, u64>,
    /// Why the last of them was, or why it could not be made again.
    why: String,
    redial: Option<Redial>,
    producers: Vec<Producer>,
    consumers: Vec<Consumer>,
    /// Producers that have something to write and, as far as is known, room for it.
    ready: Vec<usize>,
    buffer: Vec<u8>,
    output: Vec<u8>,
    arrivals: Vec<Arrival>,
    counts: Counts,
    /// Workers that publish, and the number of producers of all.
    publishers: u64,
    all_producers: u64,
    /// Whether starts are due by a schedule.
    paced: bool,
    /// Whether consumers have something to do at a time of their own.
    timed: bool,
    /// Whether the run may end early, and when it was last looked for that; when a consumer last had something to do.
    watches: bool,
    next_look: u64,
    last_delivery: u64,
    ends_early: bool,
    /// Whether nothing is published any more.
    published: bool,
    /// Whether connections are being closed: one that ends is none that is lost.
    closing: bool,
    /// Whether they were asked to close: nothing can be acknowledged any more.
    parting: bool,
    next_second: u64,
    next_hand_in: u64,
}

impl<'a> Loop<'a> {
    fn new(driver: &'a Perftest, worker: Worker) -> anyhow::Result<Self> {
        let publishers = driver.layout.publishers(worker.share.of);
        let group = settings::group(&driver.plan, PRODUCERS);
        let mut this = Self {
            reactor: Reactor::new(Some(worker.stop.waker()))?,
            links: Slots::with_capacity(0),
            gone: HashMap::new(),
            why: String::new(),
            redial: None,
            producers: Vec::new(),
            consumers: Vec::new(),
            ready: Vec::new(),
            buffer: vec![0; BUFFER],
            output: Vec::with_capacity(2 * BATCH),
            arrivals: Vec::with_capacity(KEPT),
            counts: Counts::default(),
            publishers,
            all_producers: driver.layout.producers,
            paced: group.is_some_and(|group| group.workers == 0),
            timed: driver.plan.driver.times_consumers(),
            watches: driver.ending.is_open(),
            next_look: 0,
            last_delivery: worker.phases.origin,
            ends_early: false,
            published: false,
            closing: false,
            parting: false,
            next_second: 0,
            next_hand_in: 0,
            driver,
            worker,
        };
        this.worker.pacer = starts::schedule(driver, &this.worker);
        let share = this.worker.share;
        let mine: Vec<u64> = driver.layout.of_worker(share.index, share.of).collect();
        for number in mine {
            if let Some(connection) = driver.take(number) {
                this.enlist(&connection.clients);
                this.join(connection)?;
            }
        }
        this.producers.shrink_to_fit();
        Ok(this)
    }

    /// Adds the producers and consumers of a connection, once.
    fn enlist(&mut self, clients: &[Client]) {
        for client in clients {
            match *client {
                Client::Producer(number) => {
                    // Their places follow from their numbers: see `place_of`.
                    let place = self.place_of(u64::from(number));
                    if place >= self.producers.len() {
                        self.producers.resize_with(place + 1, Producer::default);
                    }
                    self.producers[place] = Producer::new(number);
                }
                Client::Consumer(number) => {
                    let settings = &self.driver.plan.driver;
                    self.consumers.push(Consumer::new(number, settings));
                }
            }
        }
    }

    /// Where a producer of this worker is in its list.
    fn place_of(&self, producer: u64) -> usize {
        (producer / self.publishers) as usize
    }

    /// Takes a connection into the loop, whether it is the first of its number or a later one.
    fn join(&mut self, connection: Connection) -> anyhow::Result<()> {
        let Connection {
            number,
            session,
            clients,
        } = connection;
        let (frame_max, heartbeat, read) = (session.frame_max, session.heartbeat, session.input);
        session.stream.tcp().set_nonblocking(true)?;
        let places = clients.iter().map(|client| match *client {
            Client::Producer(number) => link::Role::Producer(self.place_of(u64::from(number))),
            Client::Consumer(number) => {
                let found = self
                    .consumers
                    .iter()
                    .position(|consumer| consumer.number == number);
                link::Role::Consumer(found.expect("it was enlisted"))
            }
        });
        let link = Link::new(
            number,
            session.stream,
            places.collect(),
            (heartbeat, frame_max),
            read,
        );
        let roles = link.roles.clone();
        let id = self.links.insert(link);
        let link = self.links.get_mut(id).expect("inserted just now");
        self.reactor.watch(&link.stream, id.token(0))?;
        for (role, channel) in roles.into_iter().zip(1..) {
            match role {
                link::Role::Producer(place) => self.join_producer(place, id, channel, frame_max),
                link::Role::Consumer(place) => self.join_consumer(place, id, channel),
            }
        }
        Ok(())
    }

    fn run(mut self) -> anyhow::Result<()> {
        loop {
            let now = clock::now();
            let deadline = self.deadline(now);
            let next_start = self.start_due(now).min(self.acknowledge_done(now));
            self.publish_ready();
            self.look_for_end(now);
            self.end_publishing(now);
            if now >= self.next_hand_in || self.arrivals.len() >= KEPT {
                self.hand_in();
                self.next_hand_in = self.next_second.min(now + HAND_IN_NS);
            }
            if now >= self.next_second {
                self.look_after(now);
            }
            self.count();
            self.next_second = self.worker.record.tick(now);
            self.next_hand_in = self.next_hand_in.min(self.next_second);
            if self.over() || now >= deadline {
                break;
            }
            self.take_back(now)?;
            let until = self.until(now, next_start).min(deadline);
            let until = self.worker.record.wait_until(until, now);
            for place in 0..self.reactor.wait(until, now)? {
                if let Some(event) = self.reactor.event(place) {
                    self.serve(event);
                }
            }
        }
        self.close()
    }

    fn until(&self, now: u64, next_start: u64) -> u64 {
        if !self.ready.is_empty() {
            return now;
        }
        let looks = self.published || self.watches || !self.gone.is_empty();
        let look = if looks { now + LOOK_NS } else { u64::MAX };
        let end = match self.published {
            true => u64::MAX,
            false if now < self.worker.phases.end => self.worker.phases.end,
            false => self.worker.pacer.starts_until(),
        };
        let hand_in = match self.arrivals.is_empty() {
            true => u64::MAX,
            false => self.next_hand_in,
        };
        let next = next_start.min(look).min(end).min(hand_in);
        next.min(self.next_second)
    }

    /// When what is open is given up: the end of the drain phase, or earlier where that was asked.
    fn deadline(&mut self, now: u64) -> u64 {
        let (phases, pacer) = (&self.worker.phases, &self.worker.pacer);
        let drained = self.driver.drained(self.publishers, phases, pacer);
        match self.worker.stop.deadline() {
            Some(asked) => {
                self.worker.pacer.stop_at(now);
                self.worker.phases.end = self.worker.phases.end.min(now);
                asked.min(drained)
            }
            None => drained,
        }
    }

    /// Takes what is due from the schedule: a message to a producer, or the beginning of one that goes on by itself.
    /// Returns when the next is.
    fn start_due(&mut self, now: u64) -> u64 {
        for _ in 0..STARTS_AT_ONCE {
            match self.worker.pacer.poll(now) {
                Tick::Ready(start) => self.begin(start),
                Tick::Wait(due) => return due,
                Tick::Over => return u64::MAX,
            }
        }
        now
    }

    fn begin(&mut self, start: Start) {
        if let Some(late) = start.lag.filter(|_| self.worker.phases.counts(start.at)) {
            self.worker.record.lag(late);
        }
        let place = self.place_of(start.index % self.all_producers);
        let producer = &mut self.producers[place];
        producer.starts.add(start, self.paced);
        self.make_ready(place);
    }

    fn make_ready(&mut self, place: usize) {
        let producer = &mut self.producers[place];
        if !producer.is_ready {
            producer.is_ready = true;
            self.ready.push(place);
        }
    }

    fn publish_ready(&mut self) {
        // Those that stay ready come again in the next turn, after the sockets were looked at.
        for place in std::mem::take(&mut self.ready) {
            self.producers[place].is_ready = false;
            self.publish(place);
        }
    }

    /// Whether the last message was published is found out once.
    fn end_publishing(&mut self, now: u64) {
        let pacer = &self.worker.pacer;
        let due = |producer: &Producer| producer.starts.due() > 0;
        let caught_up = || pacer.over(now) && !self.producers.iter().any(due);
        let ended = now >= self.worker.phases.end && (now >= pacer.starts_until() || caught_up());
        // Consumers alone go on for as long as the run measures.
        let written_all = || {
            let mut producers = self.producers.iter();
            self.all_producers > 0
                && pacer.over(now)
                && producers.all(|producer| producer.starts.waiting() == 0)
        };
        if self.published || !(ended || written_all()) {
            return;
        }
        self.published = true;
        let waiting: u64 = self
            .producers
            .iter_mut()
            .map(|producer| producer.starts.end())
            .sum();
        let missed = waiting + self.worker.pacer.missed(now);
        if missed > 0 {
            self.worker.record.count(MISSED, missed);
        }
        if self.worker.share.index < self.publishers {
            let numbers = self.producers.iter().flat_map(|producer| {
                [false, true].map(|counts| {
                    let stream = stamp::stream(producer.number, counts);
                    (stream, producer.written[usize::from(counts)])
                })
            });
            self.driver.ledger.producers_done(numbers);
        }
    }

    fn over(&self) -> bool {
        self.published
            && self.producers.iter().all(Producer::is_settled)
            // Whoever leaves now takes along what the kernel has not taken.
            && !self.links.iter().any(|(_, link)| link.is_full())
            && (self.consumers.is_empty()
                || self.driver.layout.producers == 0
                || self.ends_early
                || self.driver.ledger.complete(self.publishers))
    }

    /// Hands what arrived in to the account of all workers.
    fn hand_in(&mut self) {
        self.driver
            .ledger
            .take(&mut self.arrivals, &self.worker.record);
    }

    fn count(&mut self) {
        self.counts.write(&self.worker.record);
    }
}
