//! Periodic checks of connections: heartbeats, and clients too slow to negotiate, to close, or to read.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tokio::io::Interest;
use tokio::net::TcpStream;

use super::Broker;
use crate::answers::Answers;
use crate::connection::Phase;
use crate::output::Output;
use crate::queue::ConnectionId;

/// Milliseconds that a client may take to negotiate, or to answer connection.close.
const NEGOTIATION_TIMEOUT: u64 = 10_000;
/// Milliseconds that a client which has hung up may still be held.
const LAST_WORDS: u64 = 2_000;
/// Milliseconds for which a client may read none of its pending output: as long as RabbitMQ gives a consumer to
/// acknowledge (`consumer_timeout`). Its messages are then requeued.
const STALLED: u64 = 30 * 60 * 1000;

impl Broker {
    /// Sends heartbeats and closes overdue connections.
    pub(crate) fn sweep(&mut self) {
        for id in self.connections.ids() {
            if self.is_late(id) {
                self.abandon(id);
            } else {
                self.beat(id);
            }
        }
        self.finish_turn();
    }

    fn is_late(&mut self, id: ConnectionId) -> bool {
        let now = self.now;
        let connection = &mut self.connections[id];
        if connection.phase != Phase::Running {
            return now.saturating_sub(connection.since) > NEGOTIATION_TIMEOUT;
        }
        if connection.is_stuck && now.saturating_sub(connection.sent) > STALLED {
            return true;
        }
        if connection.is_held() {
            // It is not read, so nothing it sends can prove that it is alive. What it sent before it hung up is still
            // processed, if its turn comes soon.
            let has_hung_up = connection.socket.as_deref().is_some_and(has_hung_up);
            if !has_hung_up {
                connection.hung_up = None;
                return false;
            }
            return now.saturating_sub(*connection.hung_up.get_or_insert(now)) > LAST_WORDS;
        }
        let interval = u64::from(connection.heartbeat) * 1000;
        interval > 0 && now.saturating_sub(connection.received) > 2 * interval + 1000
    }

    /// Sends a heartbeat if nothing else was sent for a while.
    fn beat(&mut self, id: ConnectionId) {
        let now = self.now;
        let connection = &mut self.connections[id];
        let interval = u64::from(connection.heartbeat) * 1000;
        if connection.phase == Phase::Running
            && interval > 0
            && connection.output.pending() == 0
            && now.saturating_sub(connection.sent) >= interval / 2
        {
            connection.sent = now;
            connection.output.heartbeat();
            self.add_output(id);
        }
    }

    /// Closes a connection at once and drops its output.
    fn abandon(&mut self, id: ConnectionId) {
        self.release(id);
        let connection = &mut self.connections[id];
        connection.phase = Phase::Closed;
        connection.output = Output::default();
        connection.answers = Answers::default();
        connection.wake.notify_one();
    }
}

/// Returns true if the client has closed its side, as far as the runtime knows; unread input may precede that.
fn has_hung_up(socket: &TcpStream) -> bool {
    let ready = pin!(socket.ready(Interest::READABLE));
    let polled = ready.poll(&mut Context::from_waker(Waker::noop()));
    matches!(polled, Poll::Ready(Ok(ready)) if ready.is_read_closed())
}
