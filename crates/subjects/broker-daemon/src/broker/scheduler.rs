//! Work that is left for later: in this turn, after it, or at a time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::mem;
use std::rc::Rc;

use tokio::sync::Notify;

use super::dead_letters::DeadLetter;
use super::topology::Topology;
use crate::channel::ChannelId;
use crate::exchange::QueueId;
use crate::outbox::Outbox;
use crate::queue::{ConnectionId, Queue};

/// Timers kept in addition to one per queue: timers of deleted queues stay until they are due, which may be in weeks.
const SPARE_TIMERS: usize = 1024;

/// The queues, channels and connections that wait for their turn.
#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    /// Queues that may have something to deliver.
    active: VecDeque<QueueId>,
    /// Channels with room in their prefetch that may have consumers held back by it.
    pub(super) limited: Vec<ChannelId>,
    pub(super) dead_letters: VecDeque<DeadLetter>,
    /// Connections with pending output.
    outputs: Vec<ConnectionId>,
    timers: BinaryHeap<Reverse<(u64, QueueId)>>,
    /// Wakes the server when there is work or output for it.
    pub(crate) wake: Rc<Notify>,
    /// Wakes the server when a deadline is earlier than the one it knows.
    pub(crate) timer_changed: Rc<Notify>,
    /// The queue that received a message in this turn and whose consumers lag behind.
    pub(super) lagging: Option<QueueId>,
}

/// A piece of work for a turn.
#[derive(Debug)]
pub(super) enum Work {
    DeadLetter(DeadLetter),
    Dispatch(QueueId),
    Wake(ChannelId),
}

impl Scheduler {
    pub(super) fn next_work(&mut self) -> Option<Work> {
        let dead = self.dead_letters.pop_front().map(Work::DeadLetter);
        dead.or_else(|| self.active.pop_front().map(Work::Dispatch))
            .or_else(|| self.limited.pop().map(Work::Wake))
    }

    /// Returns true if work was left for another turn.
    pub(crate) fn has_more(&self) -> bool {
        !self.dead_letters.is_empty() || !self.active.is_empty() || !self.limited.is_empty()
    }

    /// Lists a queue as one that may have something to deliver.
    #[inline]
    pub(super) fn activate(&mut self, id: QueueId, queue: &mut Queue) {
        if queue.begin_wait() {
            self.active.push_back(id);
        }
    }

    /// Lists a connection as one with pending output.
    #[inline]
    pub(super) fn add_output(&mut self, id: ConnectionId, outbox: &mut Outbox) {
        if outbox.list() {
            self.outputs.push(id);
        }
    }

    pub(super) fn has_outputs(&self) -> bool {
        !self.outputs.is_empty()
    }

    pub(super) fn take_outputs(&mut self) -> Vec<ConnectionId> {
        mem::take(&mut self.outputs)
    }

    /// Lists a queue as one to check at a time. `topology` tells which other timers are still meant.
    pub(super) fn add_timer(&mut self, due: u64, id: QueueId, topology: &Topology) {
        let is_first = self.next_deadline().is_none_or(|first| due < first);
        self.timers.push(Reverse((due, id)));
        if self.timers.len() > 2 * topology.queue_count() + SPARE_TIMERS {
            let is_meant = |due, id| topology.queue(id).is_some_and(|queue| queue.has_timer(due));
            self.timers.retain(|Reverse((due, id))| is_meant(*due, *id));
        }
        if is_first {
            self.timer_changed.notify_one();
        }
    }

    /// Returns the next deadline.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.timers.peek().map(|Reverse((due, _))| *due)
    }

    /// Takes the first timer if it is due.
    pub(super) fn take_timer(&mut self, now: u64) -> Option<(u64, QueueId)> {
        self.next_deadline().filter(|due| *due <= now)?;
        self.timers.pop().map(|Reverse(timer)| timer)
    }

    #[cfg(test)]
    pub(super) fn timer_count(&self) -> usize {
        self.timers.len()
    }
}
