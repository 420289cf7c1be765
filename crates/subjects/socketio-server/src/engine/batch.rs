//! The connections that a worker has sent to since it last wrote: what a turn of the worker sends to one connection is
//! written at once.

use std::cell::RefCell;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::engine::connection::Connection;
use crate::engine::frame::Frame;

/// Connections that may wait before they are written in the middle of a turn.
const FULL: usize = 256;

thread_local! {
    static BATCH: RefCell<Option<Batch>> = const { RefCell::new(None) };
}

/// The connections that a thread has sent to.
#[derive(Debug, Default)]
struct Batch {
    waiting: Vec<Arc<Connection>>,
    /// The task that writes.
    writer: Option<Waker>,
}

impl Connection {
    /// Sends a frame, if the connection is open.
    pub(crate) fn send(self: &Arc<Self>, frame: Frame) {
        self.send_all([frame]);
    }

    /// Sends frames with nothing between them, if the connection is open.
    pub(crate) fn send_all(self: &Arc<Self>, frames: impl IntoIterator<Item = Frame>) {
        if self.queue(frames, false) {
            schedule(self);
        }
    }

    /// Sends the frames of an answer. A client that asks gets it whatever its length: the limits of the application
    /// bound it. What follows counts by itself.
    pub(crate) fn answer(self: &Arc<Self>, frames: impl IntoIterator<Item = Frame>) {
        if self.queue(frames, true) {
            schedule(self);
        }
    }
}

/// Writes a connection's queue at the end of this turn, or at once on a thread that is no worker.
fn schedule(connection: &Arc<Connection>) {
    let full = BATCH.with_borrow_mut(|batch| {
        let Some(batch) = batch else {
            return Some(vec![Arc::clone(connection)]);
        };
        batch.waiting.push(Arc::clone(connection));
        if batch.waiting.len() >= FULL {
            return Some(std::mem::take(&mut batch.waiting));
        }
        if let Some(writer) = batch.writer.take() {
            writer.wake();
        }
        None
    });
    for connection in full.into_iter().flatten() {
        connection.flush();
    }
}

/// Collects what the other tasks of this thread send to sockets, and writes it to each in one call. It never ends. Workers
/// do so already; another thread with a current-thread runtime that sends much spawns this as a task.
pub async fn write_batches() {
    // This task runs after those that were ready in the same turn, as the runtime's queue is in order.
    BATCH.set(Some(Batch::default()));
    let _end = End;
    let mut connections = Vec::new();
    loop {
        std::future::poll_fn(|context| take(&mut connections, context)).await;
        for connection in connections.drain(..) {
            connection.flush();
        }
    }
}

fn take(connections: &mut Vec<Arc<Connection>>, context: &Context<'_>) -> Poll<()> {
    BATCH.with_borrow_mut(|batch| {
        let Some(batch) = batch else {
            return Poll::Pending;
        };
        if batch.waiting.is_empty() {
            batch.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        // The vectors change places, so neither is allocated again.
        std::mem::swap(connections, &mut batch.waiting);
        Poll::Ready(())
    })
}

/// Ends the batch of this thread: later sends are written at once.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        let batch = BATCH.take();
        for connection in batch.into_iter().flat_map(|batch| batch.waiting) {
            connection.flush();
        }
    }
}
