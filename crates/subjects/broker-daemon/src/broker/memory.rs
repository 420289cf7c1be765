//! Memory alarm: if messages take too much memory, publishers wait, and no connection is closed.

use std::mem;

use amq_protocol::protocol::connection;

use super::Broker;
use crate::connection::Phase;
use crate::frame::{Frame, METHOD};
use crate::queue::ConnectionId;

impl Broker {
    /// Returns true if a frame must wait because it begins a message while memory is short. Everything after it on its
    /// connection then waits too.
    pub(super) fn must_wait(&mut self, id: ConnectionId, frame: Frame<'_>) -> bool {
        // Checked for each message and not each turn: a few small messages may go to thousands of queues.
        let has_too_much = self.memory.get() > self.config.memory_limit;
        if !(has_too_much || self.is_blocked || self.store.is_congested())
            || frame.kind != METHOD
            || !frame.payload.starts_with(&[0, 60, 0, 40])
        {
            return false;
        }
        if has_too_much {
            self.watch_memory();
        }
        let connection = &mut self.connections[id];
        if connection.phase != Phase::Running {
            return false;
        }
        if !connection.is_blocked {
            self.waiting.push(id);
        }
        connection.is_blocked = true;
        connection.holds_frames = true;
        connection.is_publisher = true;
        if self.is_blocked {
            self.tell_blocked(id);
        }
        true
    }

    /// Sends connection.blocked to a client that supports it.
    fn tell_blocked(&mut self, id: ConnectionId) {
        let connection = &mut self.connections[id];
        if connection.was_sent_blocked || !connection.capabilities.connection_blocked {
            return;
        }
        connection.was_sent_blocked = true;
        let blocked = connection::Blocked {
            reason: "low on memory".into(),
        };
        self.send_connection(id, connection::AMQPMethod::Blocked(blocked));
    }

    /// Starts and ends the time in which publishers wait. It ends a tenth below the limit, so that it does not start
    /// again with each message.
    pub(super) fn watch_memory(&mut self) {
        let used = self.memory.get();
        let limit = self.config.memory_limit;
        if !self.is_blocked && used > limit {
            self.is_blocked = true;
            for id in self.connections.ids() {
                if self.connections[id].is_publisher {
                    self.tell_blocked(id);
                }
            }
        } else if self.is_blocked && used < limit - limit / 10 {
            self.is_blocked = false;
            for id in self.connections.ids() {
                if mem::take(&mut self.connections[id].was_sent_blocked) {
                    let unblocked = connection::AMQPMethod::Unblocked(connection::Unblocked {});
                    self.send_connection(id, unblocked);
                }
            }
        }
        if !self.is_blocked && !self.store.is_congested() {
            for id in mem::take(&mut self.waiting) {
                if let Some(connection) = self.connections.get_mut(id) {
                    connection.is_blocked = false;
                    connection.received = self.now;
                    connection.wake.notify_one();
                }
            }
        }
    }
}
