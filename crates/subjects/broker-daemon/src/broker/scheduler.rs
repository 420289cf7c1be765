//! Work that is left for later: in this turn, after it, or at a time.

use std::collections::{BTreeSet, VecDeque};
use std::mem;
use std::rc::Rc;

use tokio::sync::Notify;

use super::dead_letters::DeadLetter;
use crate::channel::ChannelId;
use crate::exchange::QueueId;
use crate::outbox::Outbox;
use crate::queue::{ConnectionId, Queue};

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
    /// The time of the next check of each queue where something may expire.
    timers: BTreeSet<(u64, QueueId)>,
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

    /// Lists a queue as one to check at a time, instead of the time before.
    pub(super) fn set_timer(&mut self, id: QueueId, before: u64, due: u64) {
        if self.next_deadline().is_none_or(|first| due < first) {
            self.timer_changed.notify_one();
        }
        self.end_timer(id, before);
        self.timers.insert((due, id));
    }

    pub(super) fn end_timer(&mut self, id: QueueId, due: u64) {
        self.timers.remove(&(due, id));
    }

    /// Returns the next deadline.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.timers.first().map(|(due, _)| *due)
    }

    /// Takes the first queue whose time has come.
    pub(super) fn take_due(&mut self, now: u64) -> Option<QueueId> {
        self.next_deadline().filter(|due| *due <= now)?;
        self.timers.pop_first().map(|(_, id)| id)
    }

    #[cfg(test)]
    pub(super) fn timer_count(&self) -> usize {
        self.timers.len()
    }
}
