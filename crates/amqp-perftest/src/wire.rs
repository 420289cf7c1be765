//! The engine `wire`: many connections in one readiness loop, frames written and read by hand.
//!
//! Cost of the loop, estimated for messages of 1 KB on a 2-core machine: copying and stamping a message 40 ns; its
//! share of a `write` of 64 KB 170 ns (the kernel copies it); its share of a `read` 150 ns; parsing it 15 ns; recording
//! two values 30 ns; its entry in the ledger 10 ns.
//!
//! The clock is read once per batch of messages and once per read, so the messages of one batch (at most 64 KB, some 20
//! µs) share their start and those of one read share their arrival. At low rates a batch is one message.

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

use load::clock;
use load::driver::Worker;
use load::pacer::{Start, Tick};
use load::reactor::Reactor;
use load::recorder::MISSED;
use load::slots::Slots;

pub use publish::{Message, Template};
pub use read::{Event, Malformed, Reader};

use crate::counts::Counts;
use crate::driver::{Connection, Perftest};
use crate::layout::Client;
use crate::ledger::{Arrival, KEPT};
use crate::settings::{self, PRODUCERS};
use crate::starts;
use amqp_client::stamp;
use consumer::Consumer;
use link::Link;
use producer::Producer;
use redial::Redial;

/// The shared read buffer.
const BUFFER: usize = 256 << 10;
/// Octets that a producer writes in one loop iteration, at least one message.
const BATCH: usize = 64 << 10;
/// Starts taken from the schedule before the sockets are served again.
const STARTS_AT_ONCE: usize = 4096;
/// Maximum time until an arrival is handed to the ledger of all workers.
const HAND_IN_NS: u64 = 2_000_000;
/// Interval between checks for the end once everything is published, and between checks for reopened connections.
const LOOK_NS: u64 = 2_000_000;

/// Serves a worker's share of producers and consumers until all of them are done.
pub(crate) fn work(driver: &Perftest, worker: Worker) -> anyhow::Result<()> {
    if driver.layout.producers == 0 {
        // Without producers, every delivery counts: none may come before the measured time.
        let head_start = worker.phases.origin.saturating_sub(clock::now());
        std::thread::sleep(Duration::from_nanos(head_start));
    }
    Loop::new(driver, worker)?.run()
}

/// The loop of one worker with its connections.
#[derive(Debug)]
struct Loop<'a> {
    driver: &'a Perftest,
    worker: Worker,
    reactor: Reactor,
    links: Slots<Link>,
    /// Lost connections by number, with the time of the loss.
    gone: HashMap<u64, u64>,
    /// Reason of the last loss or failed reconnect.
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
    /// Workers that publish, and the number of all producers.
    publishers: u64,
    all_producers: u64,
    /// Set if starts follow a schedule.
    paced: bool,
    /// Set if consumers have timers.
    timed: bool,
    /// Set if the run may end early. The next fields hold when that is checked next, and when a consumer was last
    /// active.
    watches: bool,
    next_look: u64,
    last_delivery: u64,
    ends_early: bool,
    /// Set once nothing more is published.
    published: bool,
    /// Set during shutdown; a close is then expected and not counted as lost.
    closing: bool,
    /// Set once the connections were asked to close: nothing can be acknowledged any more.
    closing_connections: bool,
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
            closing_connections: false,
            next_second: 0,
            next_hand_in: 0,
            driver,
            worker,
        };
        this.worker.pacer = starts::schedule(driver, &this.worker);
        let share = this.worker.share;
        let mine: Vec<u64> = driver
            .layout
            .worker_connections(share.index, share.of)
            .collect();
        for number in mine {
            if let Some(connection) = driver.take(number) {
                this.register_clients(&connection.clients);
                this.attach(connection)?;
            }
        }
        this.producers.shrink_to_fit();
        Ok(this)
    }

    /// Registers the producers and consumers of a connection, once.
    fn register_clients(&mut self, clients: &[Client]) {
        for client in clients {
            match *client {
                Client::Producer(number) => {
                    // Their indices follow from their numbers: see `index_of`.
                    let index = self.index_of(u64::from(number));
                    if index >= self.producers.len() {
                        self.producers.resize_with(index + 1, Producer::default);
                    }
                    self.producers[index] = Producer::new(number);
                }
                Client::Consumer(number) => {
                    let settings = &self.driver.plan.driver;
                    self.consumers.push(Consumer::new(number, settings));
                }
            }
        }
    }

    /// Returns the index of a producer in this worker's list.
    fn index_of(&self, producer: u64) -> usize {
        (producer / self.publishers) as usize
    }

    /// Adds a connection to the loop, the first of its number or a reopened one.
    fn attach(&mut self, connection: Connection) -> anyhow::Result<()> {
        let Connection {
            number,
            session,
            clients,
        } = connection;
        let (frame_max, heartbeat, read) = (session.frame_max, session.heartbeat, session.input);
        session.stream.tcp().set_nonblocking(true)?;
        let places = clients.iter().map(|client| match *client {
            Client::Producer(number) => link::Role::Producer(self.index_of(u64::from(number))),
            Client::Consumer(number) => {
                let found = self
                    .consumers
                    .iter()
                    .position(|consumer| consumer.number == number);
                link::Role::Consumer(found.expect("it was registered"))
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
                link::Role::Producer(index) => self.attach_producer(index, id, channel, frame_max),
                link::Role::Consumer(index) => self.attach_consumer(index, id, channel),
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
            self.check_for_end(now);
            self.end_publishing(now);
            if now >= self.next_hand_in || self.arrivals.len() >= KEPT {
                self.hand_in();
                self.next_hand_in = self.next_second.min(now + HAND_IN_NS);
            }
            if now >= self.next_second {
                self.check_timeouts(now);
            }
            self.count();
            self.next_second = self.worker.record.tick(now);
            self.next_hand_in = self.next_hand_in.min(self.next_second);
            if self.over() || now >= deadline {
                break;
            }
            self.adopt_reconnected(now)?;
            let until = self.until(now, next_start).min(deadline);
            let until = self.worker.record.wait_until(until, now);
            for index in 0..self.reactor.wait(until, now)? {
                if let Some(event) = self.reactor.event(index) {
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

    /// Returns when open operations are given up: the end of the drain phase, or earlier after an interruption.
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

    /// Takes due starts from the schedule: a message of a producer, or the first start of an unpaced one. Returns when
    /// the next is due.
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
        let index = self.index_of(start.index % self.all_producers);
        let producer = &mut self.producers[index];
        producer.starts.add(start, self.paced);
        self.make_ready(index);
    }

    fn make_ready(&mut self, index: usize) {
        let producer = &mut self.producers[index];
        if !producer.is_ready {
            producer.is_ready = true;
            self.ready.push(index);
        }
    }

    fn publish_ready(&mut self) {
        // Producers that stay ready come again in the next iteration, after the sockets were served.
        for index in std::mem::take(&mut self.ready) {
            self.producers[index].is_ready = false;
            self.publish(index);
        }
    }

    /// Detects, once, that the last message was published.
    fn end_publishing(&mut self, now: u64) {
        let pacer = &self.worker.pacer;
        let due = |producer: &Producer| producer.starts.due() > 0;
        let caught_up = || pacer.over(now) && !self.producers.iter().any(due);
        let ended = now >= self.worker.phases.end && (now >= pacer.starts_until() || caught_up());
        // A run of consumers alone goes on for as long as it measures.
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
            // Exiting now would discard unsent output.
            && !self.links.iter().any(|(_, link)| link.has_pending_writes())
            && (self.consumers.is_empty()
                || self.driver.layout.producers == 0
                || self.ends_early
                || self.driver.ledger.complete(self.publishers))
    }

    /// Hands arrivals to the ledger of all workers.
    fn hand_in(&mut self) {
        self.driver
            .ledger
            .take(&mut self.arrivals, &self.worker.record);
    }

    fn count(&mut self) {
        self.counts.write(&self.worker.record);
    }
}
