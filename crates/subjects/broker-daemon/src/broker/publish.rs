//! Published messages, their routing, and the replies to their publishers.

use std::rc::Rc;

use amq_protocol::protocol::{AMQPClass, confirm};

use super::Broker;
use super::dead_letters::Reason;
use crate::channel::{Channel, ChannelId, Mode, Pending};
use crate::confirms::{Confirms, Verdict};
use crate::exchange::QueueId;
use crate::failure::{Result, resource_error, unknown_id};
use crate::incoming::LARGEST;
use crate::message::Message;
use crate::queue::{ConnectionId, Overflow, Queue};

impl Broker {
    /// Handles basic.publish.
    pub(super) fn begin_publish(&mut self, id: ChannelId, payload: &[u8]) -> Result {
        self.channel(id)?.begin_message(payload)
    }

    /// Handles a content header.
    pub(super) fn content_header(&mut self, id: ChannelId, payload: &[u8]) -> Result {
        let (user, channel) = self.connections[id.connection].user_and_channel(id.number);
        let Channel {
            incoming, replies, ..
        } = channel.ok_or_else(unknown_id)?;
        let replies = replies.as_ref().map(|replies| &*replies.address);
        if incoming.add_header(payload, user, replies)? {
            return self.complete(id);
        }
        Ok(())
    }

    /// Handles a part of a content body.
    pub(super) fn content_body(&mut self, id: ChannelId, payload: &[u8]) -> Result {
        let channel = self.connections[id.connection].channel(id.number);
        let incoming = &mut channel.ok_or_else(unknown_id)?.incoming;
        if incoming.add_body(payload)? {
            return self.complete(id);
        }
        incoming.account_memory(&self.memory.meter);
        self.check_unfinished(id.connection)
    }

    /// # Errors
    /// 506 for a client that begins ever more messages on ever more channels while memory is short.
    fn check_unfinished(&self, id: ConnectionId) -> Result {
        if !self.memory.is_short() {
            return Ok(());
        }
        let channels = self.connections[id].channels();
        let bytes: usize = channels.map(|channel| channel.incoming.len()).sum();
        if bytes as u64 > LARGEST {
            return Err(resource_error(format_args!(
                "memory is short, and {bytes} bytes of messages on this connection are not complete"
            )));
        }
        Ok(())
    }

    fn complete(&mut self, id: ChannelId) -> Result {
        let channel = self.connections[id.connection].publishing_channel(id.number);
        let incoming = &mut channel.ok_or_else(unknown_id)?.incoming;
        let pending = incoming.finish(&self.memory.meter)?;
        self.counts.messages_published += 1;
        self.publish(id, pending)
    }

    /// Publishes a message of a client.
    ///
    /// # Errors
    /// 404 or 403 for the exchange.
    fn publish(&mut self, id: ChannelId, pending: Pending) -> Result {
        let version = self.topology.version();
        if !self.channel(id)?.route.is_valid(version, &pending) {
            self.find_route(id, &pending)?;
        }
        if let Mode::Tx(tx) = &mut self.channel(id)?.mode {
            tx.published.push(pending);
            return Ok(());
        }
        self.deliver_to_queues(id, &pending)
    }

    /// Computes the channel's route for a message, unless it is the route of the last one.
    fn find_route(&mut self, id: ChannelId, pending: &Pending) -> Result {
        let connection = &mut self.connections[id.connection];
        let vhost = self.topology.vhost(connection.vhost);
        match connection.channel(id.number) {
            Some(channel) => channel.route.find(vhost, self.topology.version(), pending),
            None => Ok(()),
        }
    }

    /// Puts a message into the queues of the channel's route, returns it to the client if there are none, and counts it
    /// for the confirms.
    fn deliver_to_queues(&mut self, id: ChannelId, pending: &Pending) -> Result {
        let Pending {
            message,
            mandatory,
            copies,
        } = pending;
        if message.exchange().is_empty() {
            self.deliver_reply(message.routing_key(), message);
            for key in copies {
                self.deliver_reply(key, message);
            }
        }
        let queues = std::mem::take(&mut self.channel(id)?.route.queues);
        let verdict = if self.can_store(&queues, message) {
            self.enqueue_all(&queues, message)
        } else {
            self.counts.messages_refused += 1;
            Some(Verdict::Refused)
        };
        if queues.is_empty() && *mandatory {
            self.give_back(id, message);
        }
        let channel = self.channel(id)?;
        channel.route.queues = queues;
        if let Mode::Confirm(confirms) = &mut channel.mode
            && confirms.publish(verdict)
        {
            self.confirming.push(id);
        }
        Ok(())
    }

    /// Publishes a message that a transaction held back. If its exchange was deleted meanwhile, it is routed nowhere.
    pub(super) fn publish_pending(&mut self, id: ChannelId, pending: &Pending) -> Result {
        if self.find_route(id, pending).is_err() {
            return Ok(());
        }
        self.deliver_to_queues(id, pending)
    }

    /// Puts a message into queues. Returns what its confirm must wait for, or that a queue refused it.
    pub(super) fn enqueue_all(
        &mut self,
        queues: &[QueueId],
        message: &Rc<Message>,
    ) -> Option<Verdict> {
        let mut is_refused = false;
        let mut taking = Vec::new();
        // Most queues refuse nothing; the list is built only for those that do.
        let mut queues = queues;
        if queues.iter().any(|queue| self.refuses(*queue)) {
            let all = queues.iter().copied();
            taking.extend(all.filter(|queue| self.has_room(*queue, message)));
            is_refused = taking.len() < queues.len();
            queues = &taking;
        }
        // Stored before anything is settled: the log's records of both must not be separated.
        let ticket = self.store_message(queues, message);
        for queue in queues {
            self.enqueue(*queue, message, ticket.is_some());
        }
        if is_refused {
            self.counts.messages_refused += 1;
            return Some(Verdict::Refused);
        }
        ticket.map(Verdict::Stored)
    }

    /// Returns true if a queue refuses messages beyond its limits.
    fn refuses(&self, id: QueueId) -> bool {
        let queue = self.topology.queue(id);
        queue.is_some_and(|queue| queue.limits.overflow != Overflow::DropHead)
    }

    /// Returns true if a queue accepts one more message (x-overflow: reject-publish).
    fn has_room(&mut self, id: QueueId, message: &Rc<Message>) -> bool {
        let queue = self.topology.queue(id);
        if queue.is_some_and(|queue| queue.refuses(message)) {
            // Consumers come first: messages published earlier in this turn have not been dispatched yet.
            self.dispatch(id);
        }
        let Some(queue) = self.topology.queue(id) else {
            return true;
        };
        let has_room = !queue.refuses(message);
        if !has_room && queue.limits.overflow == Overflow::RejectPublishDlx {
            self.queue_refused(id, message);
        }
        has_room
    }

    /// Puts a message into a queue.
    fn enqueue(&mut self, id: QueueId, message: &Rc<Message>, is_stored: bool) {
        let now = self.now;
        let Some(queue) = self.topology.queue_mut(id) else {
            return;
        };
        let is_stored = is_stored && queue.is_stored();
        queue.push(Rc::clone(message), now, is_stored);
        let (is_over, is_lagging) = (queue.is_over(), queue.is_lagging());
        let has_turns = queue.has_turns();
        self.scheduler.activate(id, queue);
        if is_lagging {
            self.scheduler.lagging = Some(id);
        }
        if is_over {
            // Consumers come first.
            if has_turns {
                self.dispatch(id);
            }
            self.drop_heads(id);
        }
        self.set_timer(id);
    }

    /// Drops messages from the head until the queue is within its limits (x-overflow: drop-head).
    pub(super) fn drop_heads(&mut self, id: QueueId) {
        while let Some(entry) = self.topology.queue_mut(id).and_then(Queue::pop_excess) {
            self.queue_dead_letter(id, entry, Reason::MaxLength);
        }
    }

    /// Sends basic.return 312.
    fn give_back(&mut self, id: ChannelId, message: &Rc<Message>) {
        self.append(id, |output, frame_max| {
            output.give_back(id.number, (312, "NO_ROUTE"), message, frame_max)
        });
        self.counts.messages_returned += 1;
    }

    pub(super) fn confirm_select(&mut self, id: ChannelId, nowait: bool) -> Result {
        let confirm = Mode::Confirm(Confirms::default());
        self.channel(id)?.select(confirm)?;
        let ok = confirm::AMQPMethod::SelectOk(confirm::SelectOk {});
        self.answer_unless(nowait, id, 0, AMQPClass::Confirm(ok))
    }

    /// Sends the due confirms: at most a few for all messages of a turn.
    pub(super) fn send_confirms(&mut self) {
        let mut confirming = std::mem::take(&mut self.confirming);
        let (synced, has_failed) = (self.store.synced(), self.store.has_failed());
        confirming.retain(|id| {
            let Some(connection) = self.connections.get_mut(id.connection) else {
                return false;
            };
            let number = id.number;
            let Some((channel, output)) = connection.channel_and_output(number) else {
                return false;
            };
            let Mode::Confirm(confirms) = &mut channel.mode else {
                return false;
            };
            let (count, waits) = confirms.settle(synced, has_failed, |is_ack, tag, multiple| {
                output.confirm(number, is_ack, tag, multiple)
            });
            self.counts.messages_confirmed += count;
            if count > 0 {
                self.add_output(id.connection);
            }
            waits
        });
        self.store.confirming.append(&mut confirming);
        // Nothing is added while they are sent; the list is put back for its capacity.
        self.confirming = confirming;
    }
}
