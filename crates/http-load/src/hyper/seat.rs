//! Where one request is asked after the other: an HTTP/1.1 connection, or a stream of an HTTP/2 one. It has a time limit
//! that costs no timer, and a place where an operation of an open loop is put.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use harness::slots::{Id, Slots};

use crate::operation::Operation;

/// The time is over.
#[derive(Debug)]
pub(super) struct Late;

/// One of them.
#[derive(Debug, Default)]
pub(super) struct Seat {
    /// When what is awaited is given up; 0: nothing is.
    until: Cell<u64>,
    late: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    handed: Cell<Option<Operation>>,
    idle: Cell<bool>,
    /// Whether its connection has ended.
    over: Cell<bool>,
}

impl Seat {
    /// What is awaited now may take until then.
    pub(super) fn limit(&self, until: u64) {
        self.until.set(until);
    }

    /// Gives up what has taken too long.
    pub(super) fn look(&self, now: u64) {
        if self.until.get() != 0 && now > self.until.get() {
            self.late.set(true);
            self.wake();
        }
    }

    /// Waits, for as long as the limit allows. What was late is dropped with the future.
    pub(super) async fn within<F: Future>(&self, future: F) -> Result<F::Output, Late> {
        let mut future = pin!(future);
        let done = poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            if self.late.take() {
                return Poll::Ready(Err(Late));
            }
            self.wake_me(context);
            Poll::Pending
        })
        .await;
        self.until.set(0);
        self.late.set(false);
        done
    }

    /// Has it ask this next, if it has nothing to do.
    pub(super) fn hand(&self, operation: Operation) -> bool {
        let takes = self.idle.replace(false);
        if takes {
            self.handed.set(Some(operation));
            self.wake();
        }
        takes
    }

    /// Waits for an operation; `None` once the connection has ended.
    pub(super) async fn handed(&self) -> Option<Operation> {
        self.idle.set(true);
        poll_fn(|context| {
            if let Some(operation) = self.handed.take() {
                return Poll::Ready(Some(operation));
            }
            if self.over.get() {
                self.idle.set(false);
                return Poll::Ready(None);
            }
            self.wake_me(context);
            Poll::Pending
        })
        .await
    }

    /// Its connection has ended.
    pub(super) fn end(&self) {
        self.over.set(true);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }

    fn wake_me(&self, context: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        match waker.as_mut() {
            Some(waker) => waker.clone_from(context.waker()),
            None => *waker = Some(context.waker().clone()),
        }
    }
}

/// All that are held.
pub(super) type Seats = RefCell<Slots<Rc<Seat>>>;

/// One that is given back when it is dropped.
#[derive(Debug)]
pub(super) struct Seated<'a> {
    seats: &'a Seats,
    id: Id,
    pub(super) seat: Rc<Seat>,
}

impl<'a> Seated<'a> {
    /// A new one, among all.
    pub(super) fn new(seats: &'a Seats) -> Self {
        let seat = Rc::new(Seat::default());
        let id = seats.borrow_mut().insert(Rc::clone(&seat));
        Self { seats, id, seat }
    }
}

impl Drop for Seated<'_> {
    fn drop(&mut self) {
        self.seats.borrow_mut().remove(self.id);
    }
}
