//! The engine `wire`: many connections in one readiness loop, frames written and read by hand.
//!
//! Cost of the loop, estimated for messages of 1 KB on a 2-core machine: copying and stamping a message 40 ns; its
//! share of a `write` of 64 KB 170 ns (the kernel copies it); its share of a `read` 150 ns; parsing it 15 ns; recording
//! two values 30 ns; its entry in the ledger 10 ns.
//!
//! The clock is read once per batch of messages and once per read, so the messages of one batch (at most 64 KB, some 20
//! µs) share their start and messages of one read share their arrival. At low rates a batch is one message.

mod closing;
mod connection;
mod consumer;
mod incoming;
mod producer;
mod publish;
mod read;
mod redial;

use std::sync::Arc;
use std::time::Duration;

use load::clock;
use load::driver::Worker;
use load::event_loop::{self, Context, Handler, Options};
use load::pacer::Start;
use load::reactor::Event as Readiness;
use load::slots::Id;

pub(crate) use publish::FRAME_OVERHEAD;
pub use publish::Template;
pub use read::{Event, Malformed, Reader};

use crate::connect::{OpenedSession, Reserved};
use crate::layout::{ClientIndex, WorkerClients};
use crate::roles::publisher;
use crate::roles::starts;
use crate::roles::worker::{CHECK_INTERVAL_NS, WorkerState};
use crate::shared::Shared;
use connection::WireConnection;
use consumer::WireConsumer;
use producer::WireProducer;
use redial::Redial;

/// The shared read buffer.
const BUFFER: usize = 256 << 10;
/// Octets that a producer writes in one loop iteration, at least one message.
const BATCH: usize = 64 << 10;
/// Maximum time until an arrival is handed to the ledger of all workers.
const HAND_IN_NS: u64 = 2_000_000;

/// Serves a worker's share of producers and consumers until all of them are done.
pub(crate) fn work(
    run: &Arc<Shared>,
    connections: &Reserved<OpenedSession>,
    mut worker: Worker,
) -> anyhow::Result<()> {
    if run.layout.producers == 0 {
        // Without producers, every delivery counts: none may come before the measured time.
        let ahead = worker.phases.origin.saturating_sub(clock::now());
        std::thread::sleep(Duration::from_nanos(ahead));
    }
    worker.pacer = starts::schedule(run, &worker);
    let mut engine = WireWorker::new(run, &worker);
    let options = Options {
        read_buffer: BUFFER,
        ..starts::loop_options()
    };
    let index = run.layout.worker(worker.share);
    let mut numbers = run.layout.worker_connections(index);
    let mut cx = Context::new(worker, options)?;
    numbers.try_for_each(|number| match connections.take(number) {
        Some(opened) => engine.attach(opened, &mut cx),
        None => Ok(()),
    })?;
    event_loop::run(engine, cx)
}

/// The context of the loop of one worker.
type Cx<'a> = Context<WireWorker<'a>>;

#[derive(Debug)]
struct WireWorker<'a> {
    run: &'a Arc<Shared>,
    state: WorkerState<'a>,
    clients: WorkerClients,
    redial: Option<Redial>,
    producers: Vec<WireProducer>,
    consumers: Vec<WireConsumer>,
    /// Producers that have something to write and, as far as is known, room for it.
    ready: Vec<usize>,
    /// The same, while they write.
    writing: Vec<usize>,
    output: Vec<u8>,
    next_hand_in: u64,
}

impl<'a> WireWorker<'a> {
    fn new(run: &'a Arc<Shared>, worker: &Worker) -> Self {
        let clients = WorkerClients::new(run.layout, run.layout.worker(worker.share));
        let settings = &run.plan.driver;
        let producers = clients.producers.iter();
        let consumers = clients.consumers.iter();
        Self {
            run,
            producers: producers
                .map(|number| WireProducer::new(*number, settings))
                .collect(),
            consumers: consumers
                .map(|number| WireConsumer::new(*number, settings))
                .collect(),
            state: WorkerState::new(run, worker),
            clients,
            redial: None,
            ready: Vec::new(),
            writing: Vec::new(),
            output: Vec::with_capacity(2 * BATCH),
            next_hand_in: 0,
        }
    }

    /// Adds a connection to the loop, the first of its number or a reopened one.
    fn attach(&mut self, opened: OpenedSession, cx: &mut Cx<'a>) -> anyhow::Result<()> {
        let OpenedSession { number, session } = opened;
        let frame_max = session.frame_max;
        session.stream.tcp().set_nonblocking(true)?;
        let clients = self.clients.of_connection(number);
        let connection = WireConnection::new(number, session, clients.clone());
        let id = cx.connections.insert(connection);
        let connection = cx.connections.get_mut(id).expect("inserted just now");
        cx.reactor.watch(&connection.stream, id.token(0))?;
        for (client, channel) in clients.into_iter().zip(1..) {
            match client {
                ClientIndex::Producer(index) => {
                    let producer = &mut self.producers[index];
                    producer.attach(self.state.run, id, channel, frame_max);
                    self.make_ready(index);
                }
                ClientIndex::Consumer(index) => self.attach_consumer(index, id, channel, cx),
            }
        }
        Ok(())
    }

    fn make_ready(&mut self, index: usize) {
        let producer = &mut self.producers[index];
        if !producer.is_ready {
            producer.is_ready = true;
            self.ready.push(index);
        }
    }

    fn publish_ready(&mut self, cx: &mut Cx<'a>) {
        // Producers that stay ready come again in the next iteration, after the sockets were served.
        let mut writing = std::mem::replace(&mut self.ready, std::mem::take(&mut self.writing));
        for index in writing.drain(..) {
            self.producers[index].is_ready = false;
            self.publish(index, cx);
        }
        self.writing = writing;
    }

    /// Returns when the next turn is due, given when a consumer is.
    fn next_turn(&self, next_consumer: u64, cx: &Cx<'a>) -> u64 {
        let state = &cx.state;
        if !self.ready.is_empty() {
            return state.now;
        }
        let check = if self.state.checks_for_end() || !self.state.lost.is_empty() {
            state.now + CHECK_INTERVAL_NS
        } else {
            u64::MAX
        };
        let end = if self.state.has_published() {
            u64::MAX
        } else if state.now < state.phases.end {
            state.phases.end
        } else {
            state.pacer.starts_until()
        };
        let hand_in = if self.state.has_arrivals() {
            self.next_hand_in
        } else {
            u64::MAX
        };
        next_consumer.min(check).min(end).min(hand_in)
    }
}

impl<'a> Handler for WireWorker<'a> {
    type Connection = WireConnection;
    type Timer = ();

    /// Adds a message of a producer, or the first one of an unpaced producer.
    fn start(&mut self, start: Start, _cx: &mut Cx<'a>) {
        let index = self.clients.producer_of(start.index);
        self.producers[index].role.start(start, &self.state);
        self.make_ready(index);
    }

    fn ready(&mut self, id: Id, event: Readiness, cx: &mut Cx<'a>) {
        if event.writable {
            self.flush(id, cx);
        }
        if event.readable || event.closing || event.failed {
            self.read(id, cx);
        }
    }

    fn turn(&mut self, cx: &mut Cx<'a>) -> anyhow::Result<u64> {
        let now = cx.state.now;
        self.state.phases = cx.state.phases;
        let next_consumer = self.run_timers(cx);
        self.publish_ready(cx);
        self.check_for_end(cx);
        publisher::end_publishing(&mut self.state, &mut cx.state, &mut self.producers, now);
        if now >= self.next_hand_in {
            self.state.hand_in();
            self.next_hand_in = cx.state.second_ends().min(now + HAND_IN_NS);
        }
        if cx.state.is_second_over() {
            self.check_timeouts(cx);
        }
        self.adopt_reconnected(cx)?;
        Ok(self.next_turn(next_consumer, cx))
    }

    fn is_idle(&self, cx: &Cx<'a>) -> bool {
        let producers = &mut self.producers.iter();
        self.state.has_published()
            && producers.all(|producer| producer.role.is_settled())
            // Exiting now would discard unsent output.
            && !cx.connections.iter().any(|(_, connection)| connection.has_pending_writes())
            && (self.consumers.is_empty() || self.state.is_consumed())
    }

    fn drained(&self, cx: &Cx<'a>) -> u64 {
        self.state.drained(&cx.state.pacer)
    }

    fn give_up(&mut self, cx: &mut Cx<'a>) -> anyhow::Result<()> {
        self.close(cx)
    }
}
