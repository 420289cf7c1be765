//! Memory alarm: if messages take too much memory, publishers wait, and no connection is closed.

use std::mem;
use std::rc::Rc;

use amq_protocol::protocol::connection;

use super::Broker;
use crate::connection::Phase;
use crate::frame::{Frame, METHOD};
use crate::message::Meter;
use crate::queue::ConnectionId;

/// The memory of messages and outputs, and the connections that wait for it.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(super) meter: Rc<Meter>,
    limit: usize,
    /// True while publishers wait.
    is_short: bool,
    /// Connections that wait to publish.
    waiting: Vec<ConnectionId>,
}

impl Memory {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    pub(crate) fn is_short(&self) -> bool {
        self.is_short
    }

    fn is_over(&self) -> bool {
        self.meter.get() > self.limit
    }

    /// Starts or ends the time in which publishers wait. It ends a tenth below the limit, so that it does not start
    /// again with each message. Returns true if it started or ended.
    fn update(&mut self) -> bool {
        let was_short = self.is_short;
        self.is_short = if was_short {
            self.meter.get() >= self.limit - self.limit / 10
        } else {
            self.is_over()
        };
        self.is_short != was_short
    }
}

impl Broker {
    /// Returns true if a frame must wait because it begins a message while memory is short. Everything after it on its
    /// connection then waits too.
    pub(super) fn must_wait(&mut self, id: ConnectionId, frame: Frame<'_>) -> bool {
        // Checked for each message and not each turn: a few small messages may go to thousands of queues.
        let has_too_much = self.memory.is_over();
        if !(has_too_much || self.memory.is_short || self.store.is_congested())
            || frame.kind != METHOD
            || !frame.payload.starts_with(&[0, 60, 0, 40])
        {
            return false;
        }
        if has_too_much {
            self.watch_memory();
        }
        let connection = &mut self.connections[id];
        if connection.phase() != Phase::Running {
            return false;
        }
        if connection.block() {
            self.memory.waiting.push(id);
        }
        if self.memory.is_short {
            self.tell_blocked(id);
        }
        true
    }

    /// Sends connection.blocked to a publisher that supports it.
    fn tell_blocked(&mut self, id: ConnectionId) {
        if !self.connections[id].needs_warning() {
            return;
        }
        let blocked = connection::Blocked {
            reason: "low on memory".into(),
        };
        self.send_connection(id, connection::AMQPMethod::Blocked(blocked));
    }

    /// Tells clients if publishers must wait from now on, or no longer, and wakes those that waited.
    pub(super) fn watch_memory(&mut self) {
        if self.memory.update() {
            for id in self.connections.ids() {
                if self.memory.is_short {
                    self.tell_blocked(id);
                } else if self.connections[id].end_warning() {
                    let unblocked = connection::AMQPMethod::Unblocked(connection::Unblocked {});
                    self.send_connection(id, unblocked);
                }
            }
        }
        if !self.memory.is_short && !self.store.is_congested() {
            for id in mem::take(&mut self.memory.waiting) {
                if let Some(connection) = self.connections.get_mut(id) {
                    connection.unblock(self.now);
                }
            }
        }
    }
}
