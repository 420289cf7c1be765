//! Periodic checks of connections: heartbeats, and clients too slow to negotiate, to close, or to read.

use super::Broker;
use crate::connection::Phase;

impl Broker {
    /// Sends heartbeats and closes overdue connections.
    pub(crate) fn sweep(&mut self) {
        for id in self.connections.ids() {
            if self.connections[id].is_late(self.now) {
                self.release(id);
                let connection = &mut self.connections[id];
                connection.outbox.clear();
                connection.enter(Phase::Closed, self.now);
            } else if self.connections[id].beat(self.now) {
                self.add_output(id);
            }
        }
        self.finish_turn();
    }
}
