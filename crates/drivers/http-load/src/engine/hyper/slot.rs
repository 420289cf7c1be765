//! Request slots: an HTTP/1.1 connection has one, an HTTP/2 connection one for each stream. A slot sends one request
//! after the other. It has a deadline that costs no timer, and accepts an operation of an open loop.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use load::slots::{Id, Slots};

use crate::roles::operation::Operation;

/// The deadline has passed.
#[derive(Debug)]
pub(super) struct Elapsed;

#[derive(Debug, Default)]
pub(super) struct RequestSlot {
    /// Deadline of the awaited future; 0: there is none.
    deadline: Cell<u64>,
    elapsed: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    assigned: Cell<Option<Operation>>,
    idle: Cell<bool>,
    /// True if its connection has ended.
    over: Cell<bool>,
}

impl RequestSlot {
    /// Sets the deadline of the future that is awaited next.
    pub(super) fn set_deadline(&self, deadline: u64) {
        self.deadline.set(deadline);
    }

    /// Wakes the slot if its deadline has passed.
    pub(super) fn check_deadline(&self, now: u64) {
        if self.deadline.get() != 0 && now > self.deadline.get() {
            self.elapsed.set(true);
            self.wake();
        }
    }

    /// Waits for a future until the deadline. A future that is late is dropped.
    pub(super) async fn with_deadline<F: Future>(&self, future: F) -> Result<F::Output, Elapsed> {
        let mut future = pin!(future);
        let done = poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            if self.elapsed.take() {
                return Poll::Ready(Err(Elapsed));
            }
            self.register_waker(context);
            Poll::Pending
        })
        .await;
        self.deadline.set(0);
        self.elapsed.set(false);
        done
    }

    /// Assigns the operation if the slot is idle and its connection open; returns false otherwise.
    pub(super) fn assign(&self, operation: Operation) -> bool {
        let takes = !self.over.get() && self.idle.replace(false);
        if takes {
            self.assigned.set(Some(operation));
            self.wake();
        }
        takes
    }

    /// Waits for an assigned operation; `None` once the connection has ended.
    pub(super) async fn assigned(&self) -> Option<Operation> {
        self.idle.set(true);
        poll_fn(|context| {
            if let Some(operation) = self.assigned.take() {
                return Poll::Ready(Some(operation));
            }
            if self.over.get() {
                self.idle.set(false);
                return Poll::Ready(None);
            }
            self.register_waker(context);
            Poll::Pending
        })
        .await
    }

    pub(super) fn end(&self) {
        self.over.set(true);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }

    fn register_waker(&self, context: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        match waker.as_mut() {
            Some(waker) => waker.clone_from(context.waker()),
            None => *waker = Some(context.waker().clone()),
        }
    }
}

/// All slots in use.
pub(super) type SlotTable = RefCell<Slots<Rc<RequestSlot>>>;

/// A slot that is removed when the guard is dropped.
#[derive(Debug)]
pub(super) struct SlotGuard<'a> {
    slots: &'a SlotTable,
    id: Id,
    pub(super) slot: Rc<RequestSlot>,
}

impl<'a> SlotGuard<'a> {
    /// Creates a slot among `slots`.
    pub(super) fn new(slots: &'a SlotTable) -> Self {
        let slot = Rc::new(RequestSlot::default());
        let id = slots.borrow_mut().insert(Rc::clone(&slot));
        Self { slots, id, slot }
    }
}

impl Drop for SlotGuard<'_> {
    fn drop(&mut self) {
        self.slots.borrow_mut().remove(self.id);
    }
}
