//! The engine `lapin`: the Rust client library that applications use, driven as efficiently as it allows.
//!
//! A future per connection polls its producers and consumers. The worker's loop takes starts from the schedule, hands
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

mod connection;
mod consumer;
mod dial;
mod producer;

use std::cell::RefCell;

use futures_util::StreamExt as _;
use load::clock::{self, Timer};
use load::driver::Worker;
use load::event_loop::{self, AsyncHandler, LoopState};
use load::pacer::Start;

pub(crate) use dial::{Dialer, OpenedChannels};

use crate::layout::{ClientIndex, WorkerClients};
use crate::roles::connection::Lost;
use crate::roles::publisher;
use crate::roles::starts;
use crate::roles::worker::{CHECK_INTERVAL_NS, Stage, WorkerState};
use crate::shared::Shared;
use consumer::LapinConsumer;
use producer::LapinProducer;

/// Maximum channels per connection: they share its thread.
pub(crate) const MOST_CHANNELS: u16 = 4;
/// Longest time until an arrival is handed in.
const TURN_NS: u64 = 20_000_000;

/// Serves a worker's share of producers and consumers until all of them are done.
pub(crate) async fn work(run: &Shared, dialer: &Dialer, mut worker: Worker) -> anyhow::Result<()> {
    if run.layout.producers == 0 {
        // Without producers, every delivery counts: none may come before the measured time.
        Timer::new()?.sleep_until(worker.phases.origin).await;
    }
    worker.pacer = starts::schedule(run, &worker);
    let index = run.layout.worker(worker.share);
    let mut numbers = run.layout.worker_connections(index);
    let engine = LapinWorker {
        dialer,
        clients: RefCell::new(Clients::new(run, &worker)),
        shared: RefCell::new(LoopState::new(worker, starts::loop_options())),
    };
    let connect = || {
        let number = numbers.next()?;
        Some(connection::serve(&engine, number))
    };
    let mut closing = event_loop::run_async(&engine, &engine.shared, connect).await?;
    while closing.next().await.is_some() {}
    drop(closing);
    engine.clients.into_inner().close()
}

/// The connections of a worker, and what they share.
struct LapinWorker<'a> {
    dialer: &'a Dialer,
    clients: RefCell<Clients<'a>>,
    shared: RefCell<LoopState<()>>,
}

struct Clients<'a> {
    state: WorkerState<'a>,
    indices: WorkerClients,
    producers: Vec<LapinProducer>,
    consumers: Vec<LapinConsumer>,
}

impl<'a> Clients<'a> {
    fn new(run: &'a Shared, worker: &Worker) -> Self {
        let indices = WorkerClients::new(run.layout, run.layout.worker(worker.share));
        let settings = &run.plan.driver;
        let producers = indices.producers.iter();
        let consumers = indices.consumers.iter();
        Self {
            producers: producers
                .map(|number| LapinProducer::new(*number, settings))
                .collect(),
            consumers: consumers
                .map(|number| LapinConsumer::new(*number, settings))
                .collect(),
            state: WorkerState::new(run, worker),
            indices,
        }
    }

    fn poll(
        &mut self,
        client: ClientIndex,
        shared: &mut LoopState<()>,
        is_blocked: bool,
        context: &mut std::task::Context<'_>,
    ) -> Result<(), Lost> {
        match client {
            ClientIndex::Producer(index) => {
                self.producers[index].poll(&mut self.state, &mut shared.pacer, is_blocked, context)
            }
            ClientIndex::Consumer(index) => {
                let consumer = &mut self.consumers[index];
                let polled = consumer.poll(&mut self.state, context);
                if consumer.role.due() != u64::MAX {
                    // The loop must wake for it.
                    shared.wake();
                }
                polled
            }
        }
    }

    fn wake_all(&mut self) {
        for producer in &mut self.producers {
            producer.waker.wake_by_ref();
        }
        for consumer in &mut self.consumers {
            consumer.io.waker.wake_by_ref();
        }
    }

    /// Acknowledges processed deliveries and lets due consumers poll. Returns when the next is due.
    fn run_timers(&mut self, now: u64) -> u64 {
        if !self.state.run.plan.driver.times_consumers() {
            return u64::MAX;
        }
        let mut next = u64::MAX;
        for consumer in &mut self.consumers {
            next = next.min(consumer.on_timer(&mut self.state, now));
        }
        next
    }

    /// Checks for an early end (--cmessages, --exit-when).
    fn check_for_end(&mut self, shared: &mut LoopState<()>) {
        if !self.state.begin_end_check(shared.now) {
            return;
        }
        for LapinConsumer { role, io } in &mut self.consumers {
            role.check_for_end(&mut self.state, shared.now, io);
        }
        if self.state.ends_now(shared) {
            for LapinConsumer { role, io } in &mut self.consumers {
                role.acknowledge_all(&self.state, io);
            }
        }
    }

    /// Gives up open operations, once the connections are closed.
    fn close(mut self) -> anyhow::Result<()> {
        self.state.hand_in();
        for producer in &mut self.producers {
            producer.give_up(&mut self.state, None);
        }
        self.state.lost.end(clock::now())
    }
}

impl AsyncHandler for LapinWorker<'_> {
    type Timer = ();

    /// Assigns a start to its producer.
    fn start(&self, start: Start, _shared: &mut LoopState<()>) {
        let clients = &mut *self.clients.borrow_mut();
        let producer = &mut clients.producers[clients.indices.producer_of(start.index)];
        producer.role.start(start, &clients.state);
        producer.waker.wake_by_ref();
    }

    fn turn(&self, shared: &mut LoopState<()>) -> anyhow::Result<u64> {
        let now = shared.now;
        let clients = &mut *self.clients.borrow_mut();
        clients.state.phases = shared.phases;
        let next = clients.run_timers(now);
        clients.check_for_end(shared);
        let Clients {
            state, producers, ..
        } = clients;
        publisher::end_publishing(state, shared, producers, now);
        for producer in producers {
            producer.take_returned(state);
        }
        state.hand_in();
        let checks = state.checks_for_end() || now >= shared.phases.end;
        let check = if checks {
            now + CHECK_INTERVAL_NS
        } else {
            shared.phases.end.min(now + TURN_NS)
        };
        if shared.is_second_over() {
            // Connections check for late confirms once a second.
            clients.wake_all();
        }
        Ok(next.min(check))
    }

    fn is_idle(&self, _shared: &LoopState<()>) -> bool {
        let clients = self.clients.borrow();
        clients.state.has_published()
            && clients.producers.iter().all(LapinProducer::is_settled)
            && (clients.consumers.is_empty() || clients.state.is_consumed())
    }

    fn drained(&self, shared: &LoopState<()>) -> u64 {
        self.clients.borrow().state.drained(&shared.pacer)
    }

    /// Ends publishing and lets the connections close themselves.
    fn give_up(&self, shared: &mut LoopState<()>) -> anyhow::Result<()> {
        let clients = &mut *self.clients.borrow_mut();
        let (state, producers) = (&mut clients.state, &mut clients.producers);
        publisher::end_publishing(state, shared, producers, u64::MAX);
        state.stage = Stage::Cancelling;
        clients.wake_all();
        Ok(())
    }
}
