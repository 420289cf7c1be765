//! State that the connections of one worker share with its loop.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::rc::Rc;

use load::event_loop::{AsyncHandler, LoopState};
use load::net::pool::CONNECTS_PER_ITERATION;
use load::net::sources::Sources;
use load::pacer::Start;
use load::recorder::Recorder;
use load::slots::Slots;
use measure::counters::Counter;
use measure::tally::Series;

use super::Prepared;
use super::message::Message;
use super::slot::{RequestSlot, SlotTable};
use crate::roles::clients::{Clients, ConnectionState, EndedConnection, PendingConnect, Retry};
use crate::roles::operation::{Operation, connection_of};
use crate::shared::Shared;

/// The connections and operations of one worker.
///
/// The loop calls it as its handler, and lends it the loop's state. The futures of connections borrow both, between two
/// of their waits.
#[derive(Debug)]
pub(super) struct HyperWorker<'a> {
    pub(super) shared: &'a Shared,
    prepared: &'a [Prepared],
    loop_state: &'a RefCell<LoopState<Retry>>,
    clients: RefCell<Clients<'a>>,
    pub(super) sources: RefCell<Sources>,
    /// All request slots, including slots of pending connections.
    pub(super) slots: SlotTable,
    /// Idle slots, the longest idle first. Some may have ended since.
    idle: RefCell<VecDeque<Rc<RequestSlot>>>,
    pending_connects: RefCell<Vec<PendingConnect>>,
    /// Operations that have ended, but whose client's next step is not known yet.
    unsettled: Cell<u64>,
    next_sweep: Cell<u64>,
    sweep_ns: u64,
}

impl<'a> HyperWorker<'a> {
    pub(super) fn new(
        shared: &'a Shared,
        prepared: &'a [Prepared],
        loop_state: &'a RefCell<LoopState<Retry>>,
        sweep_ns: u64,
    ) -> Self {
        let state = loop_state.borrow();
        Self {
            clients: RefCell::new(Clients::new(shared, state.share, state.phases.origin)),
            sources: RefCell::new(Sources::new(shared.sources.clone(), state.share)),
            slots: RefCell::new(Slots::with_capacity(0)),
            idle: RefCell::default(),
            pending_connects: RefCell::default(),
            unsettled: Cell::new(0),
            next_sweep: Cell::new(0),
            sweep_ns,
            shared,
            prepared,
            loop_state,
        }
    }

    /// Borrows the clients and the loop's state, for a future.
    pub(super) fn borrow(&self) -> (RefMut<'_, Clients<'a>>, RefMut<'_, LoopState<Retry>>) {
        (self.clients.borrow_mut(), self.loop_state.borrow_mut())
    }

    /// Returns the next connection to open, if any.
    pub(super) fn next_connect(&self) -> Option<PendingConnect> {
        self.pending_connects.borrow_mut().pop()
    }

    fn connect(&self, pending: PendingConnect) {
        self.pending_connects.borrow_mut().push(pending);
    }

    /// Returns what was prepared for the server of a connection.
    pub(super) fn prepared(&self, index: u32) -> &'a Prepared {
        &self.prepared[self.shared.server_of(index)]
    }

    pub(super) fn connect_failed(&self, pending: PendingConnect, kind: &'static str) {
        let (mut clients, mut state) = self.borrow();
        clients.connect_failed(pending, kind, &mut state);
        self.connect_waiting(&mut clients);
    }

    pub(super) fn ended(&self, connection: EndedConnection) {
        let (mut clients, mut state) = self.borrow();
        clients.ended(connection, &mut state);
        self.connect_waiting(&mut clients);
    }

    /// Connects for operations that wait without keep-alive, as far as there is room now.
    fn connect_waiting(&self, clients: &mut Clients<'_>) {
        while let Some(pending) = clients.connect_waiting() {
            self.connect(pending);
        }
    }

    /// Follows a redirect over another connection to the same server, since this one ended.
    pub(super) fn on_redirect(&self, operation: Operation, index: u32, ended: ConnectionState) {
        let (mut clients, mut state) = self.borrow();
        self.connect(clients.connect_redirected(operation, index, ended, &mut state));
    }

    /// Waits for the next operation of an open loop, taking a waiting one first. `None` once the connection has ended.
    pub(super) async fn next(&self, slot: &Rc<RequestSlot>) -> Option<Operation> {
        let waiting = self.clients.borrow_mut().next_waiting();
        if waiting.is_some() {
            return waiting;
        }
        self.idle.borrow_mut().push_back(Rc::clone(slot));
        self.wake_for_due();
        slot.assigned().await
    }

    /// Lets the loop start an operation that waits in the schedule for a free connection.
    fn wake_for_due(&self) {
        let mut state = self.loop_state.borrow_mut();
        if state.has_deadline() {
            state.wake();
        }
    }

    /// Changes the number of operations that have ended, but whose client's next step is not known yet.
    pub(super) fn settle(&self, more: i64) {
        let unsettled = self.unsettled.get();
        self.unsettled.set(unsettled.wrapping_add_signed(more));
    }

    /// Returns the next request of an operation.
    pub(super) fn message(&self, operation: &Operation, index: u32) -> Message {
        let clients = &mut *self.clients.borrow_mut();
        let hop = clients.counters.hop(operation);
        self.prepared(index).messages.request(operation.index, hop)
    }

    /// Records a phase of an operation, if phases are measured and it counts.
    pub(super) fn record_phase(&self, operation: &Operation, phase: Series, ns: u64) {
        if operation.counted && self.shared.settings.phases {
            self.loop_state.borrow().record.value(phase, ns);
        }
    }

    pub(super) fn fail(&self, operation: &Operation, kind: &'static str) {
        let (mut clients, state) = self.borrow();
        clients.fail(operation, kind, &state.record);
    }

    /// Counts one event.
    pub(super) fn count(&self, counter: Counter) {
        self.loop_state.borrow().record.count(counter, 1);
    }

    /// Returns the recorder of this worker.
    pub(super) fn record(&self) -> Recorder {
        self.loop_state.borrow().record.clone()
    }

    /// Wakes the slots whose time has passed. Checking a slot costs a few nanoseconds, so none needs a timer.
    fn sweep(&self, now: u64) -> u64 {
        if now >= self.next_sweep.get() {
            self.next_sweep.set(now + self.sweep_ns);
            let slots = self.slots.borrow();
            slots.iter().for_each(|(_, slot)| slot.check_deadline(now));
        }
        self.next_sweep.get()
    }

    /// Opens connections of the pool at their rate; returns the time of the next attempt.
    fn fill_pool(&self, clients: &mut Clients<'_>, state: &LoopState<Retry>) -> u64 {
        for _ in 0..CONNECTS_PER_ITERATION {
            match clients.connect_pool(state) {
                Ok(pending) => self.connect(pending),
                Err(until) => return until,
            }
        }
        state.now
    }
}

impl AsyncHandler for HyperWorker<'_> {
    type Timer = Retry;

    /// A closed-loop client opens its connection, an open-loop operation takes the slot that was idle longest, so that
    /// all are used.
    fn start(&self, start: Start, state: &mut LoopState<Retry>) {
        let mut clients = self.clients.borrow_mut();
        let operation = clients.begin(start, state);
        if self.shared.is_closed_loop(start.group) {
            let index = connection_of(start, state.share);
            return self.connect(clients.connect_client(operation, index));
        }
        while let Some(slot) = self.idle.borrow_mut().pop_front() {
            if slot.assign(operation) {
                return;
            }
        }
        if let Some(pending) = clients.connect_or_wait(operation) {
            self.connect(pending);
        }
    }

    fn can_start(&self, state: &LoopState<Retry>) -> bool {
        let idle = self.idle.borrow().len();
        self.clients.borrow().can_start(state, idle)
    }

    fn timer(&self, retry: Retry, state: &mut LoopState<Retry>) {
        let clients = &mut *self.clients.borrow_mut();
        if let Some(pending) = clients.retry(retry, state) {
            self.connect(pending);
        }
    }

    fn turn(&self, state: &mut LoopState<Retry>) -> anyhow::Result<u64> {
        let clients = &mut *self.clients.borrow_mut();
        let next_connect = self.fill_pool(clients, state);
        let next_sweep = self.sweep(state.now);
        clients.turn(state)?;
        Ok(next_connect.min(next_sweep))
    }

    fn is_idle(&self, state: &LoopState<Retry>) -> bool {
        self.unsettled.get() == 0 && self.clients.borrow().is_idle(state)
    }

    fn give_up(&self, state: &mut LoopState<Retry>) -> anyhow::Result<()> {
        self.clients.borrow_mut().give_up(&state.record);
        Ok(())
    }
}
