//! The lifecycle of connections and channels.

use std::rc::Rc;

use amq_protocol::protocol::{AMQPClass, basic, channel, connection};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::Broker;
use super::handshake::LEAST_FRAME;
use super::methods::parse;
use crate::channel::{ChannelId, Mode, Settlement};
use crate::connection::{Connection, Phase};
use crate::failure::{Failure, Result, connection_forced};
use crate::output::Output;
use crate::queue::{ConnectionId, ConsumerId};

impl Broker {
    /// Adds a connected client.
    pub(crate) fn connect(&mut self, socket: Option<Rc<TcpStream>>) -> (ConnectionId, Rc<Notify>) {
        // Valid until both sides have agreed on another.
        let frame_max = LEAST_FRAME as usize;
        let connection = Connection::new(socket, frame_max, self.now, &self.memory.meter);
        let wake = Rc::clone(connection.wake());
        self.counts.connections_opened += 1;
        (self.connections.insert(connection), wake)
    }

    /// Removes a disconnected client with everything that belongs to it; its unacknowledged messages are requeued.
    pub(crate) fn disconnect(&mut self, id: ConnectionId) {
        self.release(id);
        self.connections.remove(id);
        self.finish_turn();
    }

    /// Ends the channels of a connection and deletes its exclusive queues.
    pub(super) fn release(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let exclusive = std::mem::take(&mut connection.exclusive);
        for number in connection.channel_numbers() {
            self.end_channel(ChannelId::new(id, number));
        }
        for queue in exclusive {
            self.remove_queue(queue);
        }
    }

    /// Ends a channel: cancels its consumers and its transaction, and requeues its unacknowledged messages.
    pub(super) fn end_channel(&mut self, id: ChannelId) {
        let connection = &mut self.connections[id.connection];
        let Some(mut channel) = connection.take_channel(id.number) else {
            return;
        };
        // From the last to the first, so that each is requeued before the one after it.
        for delivered in channel.take_unsettled().into_iter().rev() {
            self.settle(delivered, Settlement::Requeued);
        }
        if let Some(replies) = &channel.replies {
            self.topology.replies.remove(&replies.address);
        }
        for consumer in channel.consumer_ids() {
            self.remove_consumer(consumer);
        }
    }

    /// Removes a consumer that its channel has removed, and an auto-delete queue with its last consumer.
    pub(super) fn remove_consumer(&mut self, id: ConsumerId) {
        let Some(consumer) = self.topology.remove_consumer(id) else {
            return;
        };
        let Some(queue) = self.topology.queue_mut(consumer.queue) else {
            return;
        };
        queue.touch(self.now);
        if queue.settings.auto_delete && queue.consumer_count() == 0 {
            return self.remove_queue(consumer.queue);
        }
        self.set_timer(consumer.queue);
        if let Some((queue, consumers)) = self.topology.queue_and_consumers(consumer.queue)
            && let Some(next) = queue.replace_active(id, consumers)
        {
            self.wake_consumer(next);
        }
    }

    /// Handles channel.open.
    pub(super) fn open_channel(&mut self, id: ChannelId, payload: &[u8]) -> Result {
        parse(payload)?;
        self.connections[id.connection].open_channel(id.number)?;
        self.counts.channels_opened += 1;
        let ok = channel::AMQPMethod::OpenOk(channel::OpenOk {});
        self.send(id, AMQPClass::Channel(ok));
        Ok(())
    }

    /// Answers channel.close. Ends the channel, unless the broker has closed it and still awaits the answer.
    pub(super) fn client_closes_channel(&mut self, id: ChannelId, crosses: bool) {
        // A client that has not read the broker's channel.close yet will still answer it, so the channel stays.
        if !crosses {
            self.end_channel(id);
        }
        let ok = channel::AMQPMethod::CloseOk(channel::CloseOk {});
        self.send(id, AMQPClass::Channel(ok));
    }

    /// Reports an error to a client and closes its channel or its connection.
    pub(super) fn fail(&mut self, id: ChannelId, method: (u16, u16), failure: &Failure) {
        if !failure.is_soft() || id.number == 0 {
            return self.close_connection(id.connection, method, failure);
        }
        self.end_channel(id);
        self.connections[id.connection].insert_channel(id.number, Mode::Closing);
        let close = channel::AMQPMethod::Close(channel::Close {
            reply_code: failure.code,
            reply_text: failure.short_text().into(),
            class_id: method.0,
            method_id: method.1,
        });
        self.send(id, AMQPClass::Channel(close));
    }

    /// Sends connection.close and ends all channels. A connection that is not open yet is closed without a close
    /// method, unless clients understand the reason of the refusal (as RabbitMQ).
    pub(super) fn close_connection(
        &mut self,
        id: ConnectionId,
        method: (u16, u16),
        failure: &Failure,
    ) {
        let connection = &mut self.connections[id];
        let says_why = match connection.phase() {
            Phase::Closing | Phase::Closed => return,
            Phase::Running => true,
            Phase::Start => {
                failure.code == 403 && connection.capabilities().authentication_failure_close
            }
            Phase::Tune | Phase::Open => failure.code == 530,
            Phase::Header => false,
        };
        let is_running = connection.phase() == Phase::Running;
        connection.enter(Phase::Closing, self.now);
        connection.outbox.drop_answers();
        self.release(id);
        if !says_why {
            return self.close_when_written(id);
        }
        let close = connection::AMQPMethod::Close(connection::Close {
            reply_code: failure.code,
            reply_text: failure.short_text().into(),
            class_id: method.0,
            method_id: method.1,
        });
        self.send_connection(id, close);
        if !is_running && failure.code == 403 {
            self.close_when_written(id);
        }
    }

    /// Stops reading, and closes the socket once all output is written.
    pub(super) fn close_when_written(&mut self, id: ConnectionId) {
        self.release(id);
        self.connections[id].enter(Phase::Closed, self.now);
        self.add_output(id);
    }

    /// Sends heartbeats, and ends overdue connections at once.
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

    /// Sends connection.close 320 to every client.
    pub(crate) fn shut_down(&mut self) {
        let failure = connection_forced("broker forced connection closure with reason 'shutdown'");
        for id in self.connections.ids() {
            self.close_connection(id, (0, 0), &failure);
        }
        self.finish_turn();
    }

    /// Appends a method to a connection's output.
    pub(super) fn send(&mut self, id: ChannelId, method: AMQPClass) {
        self.append(id, |output, _| output.method(id.number, method));
    }

    /// Calls `append` with the output of a channel, and with the connection's maximum frame size.
    pub(super) fn append(&mut self, id: ChannelId, append: impl FnOnce(&mut Output, usize)) {
        let Some(connection) = self.connections.get_mut(id.connection) else {
            return;
        };
        let frame_max = connection.frame_max;
        append(connection.outbox.of_channel(id.number), frame_max);
        self.scheduler
            .add_output(id.connection, &mut connection.outbox);
    }

    pub(super) fn send_basic(&mut self, id: ChannelId, method: basic::AMQPMethod) {
        self.send(id, AMQPClass::Basic(method));
    }

    /// Appends a method of the connection class, whose channel is 0.
    pub(super) fn send_connection(&mut self, id: ConnectionId, method: connection::AMQPMethod) {
        self.send(ChannelId::new(id, 0), AMQPClass::Connection(method));
    }
}
