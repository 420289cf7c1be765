//! The queue of writes to the store that the nodes share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::{Op, Write};

/// The queue of writes to the shared store. Rooms put writes into it while they are locked; the node takes them out.
/// It is closed while the store cannot be reached.
#[derive(Debug)]
pub(crate) struct WriteQueue<S> {
    queue: Mutex<Queue<S>>,
    /// Notified when the queue is no longer empty.
    pub(crate) filled: Notify,
    /// Notified when an event of another node has not come in time.
    pub(crate) gap: Notify,
}

#[derive(Debug)]
struct Queue<S> {
    is_open: bool,
    ops: Vec<Op<S>>,
    /// Members that left while the store could not be reached: room and connection id.
    left: Vec<(Box<str>, Box<str>)>,
}

impl<S> WriteQueue<S> {
    /// Creates a closed queue.
    pub(crate) fn new() -> Self {
        Self {
            queue: Mutex::new(Queue {
                is_open: false,
                ops: Vec::new(),
                left: Vec::new(),
            }),
            filled: Notify::new(),
            gap: Notify::new(),
        }
    }

    /// Appends writes. Fails if the queue is closed.
    pub(crate) fn push(&self, ops: impl IntoIterator<Item = Op<S>>) -> Result<(), ()> {
        let mut queue = self.lock();
        if !queue.is_open {
            return Err(());
        }
        let was_empty = queue.ops.is_empty();
        queue.ops.extend(ops);
        drop(queue);
        if was_empty {
            self.filled.notify_one();
        }
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().ops.is_empty()
    }

    /// Moves the writes of the queue, up to a number; the members of a room are restored together.
    pub(crate) fn take(&self, most: usize, target: &mut Vec<Op<S>>) {
        let mut queue = self.lock();
        let mut count = queue.ops.len().min(most);
        while queue
            .ops
            .get(count)
            .is_some_and(|op| op.write == Write::Restore)
        {
            count += 1;
        }
        target.extend(queue.ops.drain(..count));
    }

    /// Opens the queue.
    pub(crate) fn open(&self) {
        self.lock().is_open = true;
    }

    /// Closes the queue. Returns the writes in it.
    pub(crate) fn close(&self) -> Vec<Op<S>> {
        let mut queue = self.lock();
        queue.is_open = false;
        std::mem::take(&mut queue.ops)
    }

    /// Remembers that a member left which the other nodes may know of.
    pub(crate) fn remember_left(&self, room: &str, conn: &str) {
        self.lock().left.push((room.into(), conn.into()));
    }

    /// Returns the members that left meanwhile.
    pub(crate) fn take_left(&self) -> Vec<(Box<str>, Box<str>)> {
        std::mem::take(&mut self.lock().left)
    }

    fn lock(&self) -> MutexGuard<'_, Queue<S>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
