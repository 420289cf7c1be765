//! The loop of a worker whose clients do one operation after the other.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;

use measure::counters::Counter;
use measure::tally::Series;

use super::futures::{AsyncHandler, run_async};
use super::state::{LoopState, Options};
use crate::clock;
use crate::driver::Worker;
use crate::pacer::Start;
use crate::recorder::Recorder;
use crate::schedule::Share;

/// Time after which a client that could not be opened takes another operation, nanoseconds.
const RETRY_NS: u64 = 10_000_000;

/// The protocol of a driver whose clients do one operation after the other.
pub trait Operations {
    /// A client, usually a connection.
    type Client;

    /// Opens a client. Its `number` is its own among the clients of all workers.
    ///
    /// # Errors
    /// The kind of the failure. The operation that the client was opened for fails with it.
    fn open(
        &self,
        number: u64,
        group: usize,
    ) -> impl Future<Output = Result<Self::Client, &'static str>>;

    /// Runs one operation.
    ///
    /// # Errors
    /// The kind of its failure.
    fn run(
        &self,
        client: &mut Self::Client,
        operation: &Operation,
    ) -> impl Future<Output = Result<(), &'static str>>;

    /// Returns true if a client whose operation failed can run another one. Otherwise it is dropped, and its next
    /// operation opens a new one.
    fn survives(&self, _failure: &'static str) -> bool {
        false
    }
}

/// An operation that runs.
#[derive(Debug)]
pub struct Operation {
    start: Start,
    record: Option<Recorder>,
}

impl Operation {
    /// An operation before the load, which is not recorded.
    pub const CHECK: Self = Self {
        start: Start {
            at: 0,
            due: 0,
            lag: None,
            index: 0,
            group: 0,
        },
        record: None,
    };

    /// Returns its index in the schedule of the whole run.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.start.index
    }

    /// Returns true unless it belongs to the warm-up or the check.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.record.is_some()
    }

    /// Records a value in nanoseconds, such as the time of a part of it, if it is measured.
    pub fn value(&self, series: Series, value: u64) {
        if let Some(record) = &self.record {
            record.value(series, value);
        }
    }
}

/// Does a worker's share of the load with clients that do one operation after the other.
///
/// Of each group, the given number of clients, in all workers, is opened before the load; a group of 0 opens a client
/// whenever none is free. Operations that are due while no client is free wait; their response time
/// counts from the instant they were due.
///
/// # Errors
/// The kernel's error.
pub async fn operations<O: Operations>(
    protocol: &O,
    worker: Worker,
    response: Series,
    clients: &[u64],
) -> anyhow::Result<()> {
    let options = Options {
        // An operation begins once a client takes it.
        begins_at_start: false,
        ..Options::default()
    };
    let clients = RefCell::new(Clients::new(worker.share, clients));
    let state = RefCell::new(LoopState::new(worker, options));
    if clients.borrow().unopened == 0 {
        state.borrow_mut().report_open();
    }
    let engine = Engine {
        protocol,
        response,
        state: &state,
        clients: &clients,
    };
    let next = || {
        let (slot, operation) = clients.borrow_mut().jobs.pop_front()?;
        Some(engine.perform(slot, operation))
    };
    // What is still open was counted.
    run_async(&engine, &state, next).await.map(drop)
}

/// A client, open or not.
#[derive(Debug)]
struct Slot<C> {
    number: u64,
    group: usize,
    client: Option<C>,
}

/// The clients of a group, and what is due.
#[derive(Debug)]
struct GroupClients<C> {
    free: Vec<Slot<C>>,
    /// Operations that are due while no client is free.
    waiting: VecDeque<Start>,
    /// True if a client is opened whenever none is free.
    grows: bool,
}

/// The clients of a worker, and their work. It is never borrowed across a wait.
#[derive(Debug)]
struct Clients<C> {
    groups: Vec<GroupClients<C>>,
    /// The work of futures: opening a client, running an operation, or both.
    jobs: VecDeque<(Slot<C>, Option<Operation>)>,
    /// Clients that the load waits for.
    unopened: usize,
    /// Clients with an operation, or resting after a failure.
    busy: u64,
    /// Measured operations that have not ended.
    open: u64,
    /// The number of the next client that is opened when it is needed.
    next: u64,
}

impl<C> Clients<C> {
    fn new(share: Share, clients: &[u64]) -> Self {
        let (mut jobs, mut first) = (VecDeque::new(), 0);
        for (group, clients) in clients.iter().enumerate() {
            let own = (share.index..*clients).step_by(share.of as usize);
            let slots = own.map(|number| Slot {
                number: first + number,
                group,
                client: None,
            });
            jobs.extend(slots.map(|slot| (slot, None)));
            first += clients;
        }
        let groups = clients.iter().map(|clients| GroupClients {
            free: Vec::new(),
            waiting: VecDeque::new(),
            grows: *clients == 0,
        });
        Self {
            groups: groups.collect(),
            unopened: jobs.len(),
            busy: 0,
            open: 0,
            next: first + share.index,
            jobs,
        }
    }

    /// Hands operations that wait to clients.
    fn hand_out<T>(&mut self, state: &LoopState<T>) {
        for (index, group) in self.groups.iter_mut().enumerate() {
            while let Some(start) = group.waiting.front().copied() {
                if state.sheds(start.at, clock::now()) {
                    group.waiting.pop_front();
                    continue;
                }
                let slot = group.free.pop().or_else(|| {
                    let opens = group.grows && self.busy < state.descriptors;
                    opens.then(|| {
                        let number = self.next;
                        self.next += state.share.of;
                        Slot {
                            number,
                            group: index,
                            client: None,
                        }
                    })
                });
                let Some(slot) = slot else { break };
                group.waiting.pop_front();
                self.busy += 1;
                let record = state.phases.counts(start.at).then(|| state.record.clone());
                if record.is_some() {
                    self.open += 1;
                    state.record.begin();
                } else {
                    state.record.count(Counter::WARMUP, 1);
                }
                self.jobs
                    .push_back((slot, Some(Operation { start, record })));
            }
        }
    }
}

struct Engine<'a, O: Operations> {
    protocol: &'a O,
    response: Series,
    state: &'a RefCell<LoopState<Slot<O::Client>>>,
    clients: &'a RefCell<Clients<O::Client>>,
}

impl<O: Operations> Engine<'_, O> {
    /// Opens a client if it is not, and runs an operation if there is one.
    async fn perform(&self, mut slot: Slot<O::Client>, operation: Option<Operation>) {
        let outcome = self.attempt(&mut slot, operation.as_ref()).await;
        let now = clock::now();
        let state = &mut *self.state.borrow_mut();
        let clients = &mut *self.clients.borrow_mut();
        state.wake();
        let Some(operation) = operation else {
            clients.unopened -= 1;
            if clients.unopened == 0 {
                state.report_open();
            }
            return clients.groups[slot.group].free.push(slot);
        };
        let is_measured = operation.is_measured();
        clients.open -= u64::from(is_measured);
        match outcome {
            Ok(()) => {
                let response_ns = now.saturating_sub(operation.start.at);
                let times = [(self.response, response_ns)];
                state.record.ok_with(is_measured, times);
            }
            Err(kind) if is_measured => state.record.error(kind),
            Err(kind) => state.record.error_of_warmup(kind),
        }
        let group = &mut clients.groups[slot.group];
        group
            .waiting
            .extend(state.next_of_client(operation.start, now));
        if slot.client.is_some() {
            clients.busy -= 1;
            group.free.push(slot);
        } else {
            state.timers.set(now + RETRY_NS, slot);
        }
    }

    async fn attempt(
        &self,
        slot: &mut Slot<O::Client>,
        operation: Option<&Operation>,
    ) -> Result<(), &'static str> {
        let client = match &mut slot.client {
            Some(client) => client,
            none => none.insert(self.protocol.open(slot.number, slot.group).await?),
        };
        let Some(operation) = operation else {
            return Ok(());
        };
        let outcome = self.protocol.run(client, operation).await;
        if outcome.is_err_and(|kind| !self.protocol.survives(kind)) {
            slot.client = None;
        }
        outcome
    }
}

impl<O: Operations> AsyncHandler for Engine<'_, O> {
    type Timer = Slot<O::Client>;

    fn start(&self, start: Start, _state: &mut LoopState<Self::Timer>) {
        let group = &mut self.clients.borrow_mut().groups[usize::from(start.group)];
        group.waiting.push_back(start);
    }

    fn timer(&self, slot: Self::Timer, _state: &mut LoopState<Self::Timer>) {
        let clients = &mut *self.clients.borrow_mut();
        clients.busy -= 1;
        clients.groups[slot.group].free.push(slot);
    }

    fn turn(&self, state: &mut LoopState<Self::Timer>) -> anyhow::Result<u64> {
        if clock::now() < state.pacer.starts_until() {
            self.clients.borrow_mut().hand_out(state);
        }
        Ok(u64::MAX)
    }

    fn is_idle(&self, state: &LoopState<Self::Timer>) -> bool {
        let clients = self.clients.borrow();
        let is_over = state.now >= state.pacer.starts_until();
        let waits = clients.groups.iter().any(|group| !group.waiting.is_empty());
        clients.busy == 0 && (is_over || !waits)
    }

    fn give_up(&self, state: &mut LoopState<Self::Timer>) -> anyhow::Result<()> {
        let clients = self.clients.borrow();
        let waiting = clients
            .groups
            .iter()
            .map(|group| group.waiting.len() as u64);
        state.count_missed(waiting.sum());
        state.record.unfinished_many(clients.open);
        Ok(())
    }
}
