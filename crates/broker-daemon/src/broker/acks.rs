//! Settlement of deliveries by clients: ack, nack, reject, recover.

use amq_protocol::protocol::basic;

use super::dead_letter::Reason;
use super::{Broker, enter_ring};
use crate::channel::{Delivered, Settlement};
use crate::failure::{Result, frame_error, not_implemented, precondition_failed};
use crate::frame::Frame;
use crate::queue::ConnectionId;

impl Broker {
    /// Handles basic.ack. It is parsed in place, because there is often one for each message.
    pub(super) fn ack(&mut self, id: ConnectionId, frame: Frame<'_>) -> Result {
        let Some((tag, [bits])) = frame.payload[4..].split_first_chunk::<8>() else {
            return Err(frame_error("the arguments of basic.ack cannot be read"));
        };
        let tag = u64::from_be_bytes(*tag);
        self.settle_tag(id, frame.channel, tag, bits & 1 != 0, Settlement::Acked)
    }

    /// Handles basic.reject and basic.nack.
    pub(super) fn reject(
        &mut self,
        id: ConnectionId,
        number: u16,
        tag: u64,
        multiple: bool,
        requeue: bool,
    ) -> Result {
        let settlement = match requeue {
            true => Settlement::Requeued,
            false => Settlement::Rejected,
        };
        self.settle_tag(id, number, tag, multiple, settlement)
    }

    fn settle_tag(
        &mut self,
        id: ConnectionId,
        number: u16,
        tag: u64,
        multiple: bool,
        settlement: Settlement,
    ) -> Result {
        let mut taken = std::mem::take(&mut self.scratch);
        let found = self.channel(id, number).map(|channel| {
            let Some(channel) = channel else { return true };
            if multiple {
                return channel.unacked.take_up_to(tag, &mut taken);
            }
            taken.extend(channel.unacked.take(tag));
            !taken.is_empty()
        });
        if !taken.is_empty() {
            self.settle_all(id, number, &mut taken, settlement);
        }
        self.scratch = taken;
        match found? {
            true => Ok(()),
            false => Err(precondition_failed(format_args!(
                "unknown delivery tag {tag}"
            ))),
        }
    }

    fn settle_all(
        &mut self,
        id: ConnectionId,
        number: u16,
        taken: &mut Vec<Delivered>,
        settlement: Settlement,
    ) {
        let channel = self
            .connections
            .get_mut(id)
            .and_then(|connection| connection.channel(number));
        if let Some(channel) = channel {
            if let Some(tx) = &mut channel.tx {
                tx.settled
                    .extend(taken.drain(..).map(|delivered| (delivered, settlement)));
                return;
            }
            channel.count_settled(&*taken);
        }
        if settlement == Settlement::Requeued {
            // From the last to the first, so that each is requeued before the one after it.
            taken.reverse();
        }
        for delivered in taken.drain(..) {
            self.settle(delivered, settlement);
        }
        self.wake_channel(id, number);
    }

    /// Settles a delivery that was removed from the channel's list.
    pub(super) fn settle(&mut self, delivered: Delivered, settlement: Settlement) {
        let Delivered {
            queue: queue_id,
            consumer,
            mut entry,
            ..
        } = delivered;
        let Some(queue) = self.queues.get_mut(queue_id) else {
            // The queue is deleted, but the log still must know that its message is settled.
            return self.on_removed(queue_id, &entry);
        };
        queue.unacked -= 1;
        queue.acked += u64::from(settlement == Settlement::Acked);
        if let Some(consumer_id) = consumer
            && let Some(consumer) = self.consumers.get_mut(consumer_id)
        {
            consumer.unacked -= 1;
            if enter_ring(queue, consumer_id, consumer) && queue.len() > 0 {
                self.activate(queue_id);
            }
        }
        match settlement {
            Settlement::Acked => {
                self.counts.messages_acked += 1;
                self.on_removed(queue_id, &entry);
            }
            Settlement::Rejected => self.queue_dead_letter(queue_id, entry, Reason::Rejected),
            Settlement::Requeued => {
                self.counts.messages_requeued += 1;
                entry.redelivered = true;
                if let Some(queue) = self.queues.get_mut(queue_id) {
                    queue.insert(entry);
                }
                self.activate(queue_id);
                self.set_timer(queue_id);
            }
        }
    }

    /// Handles basic.recover and basic.recover-async.
    ///
    /// # Errors
    /// 540 for `requeue` false, as in RabbitMQ.
    pub(super) fn recover(
        &mut self,
        id: ConnectionId,
        number: u16,
        requeue: bool,
        is_answered: bool,
    ) -> Result {
        if !requeue {
            return Err(not_implemented("requeue=false"));
        }
        let mut taken = std::mem::take(&mut self.scratch);
        if let Some(channel) = self.channel(id, number)? {
            channel.unacked.take_up_to(0, &mut taken);
            channel.count_settled(&taken);
        }
        taken.reverse();
        for delivered in taken.drain(..) {
            self.settle(delivered, Settlement::Requeued);
        }
        self.scratch = taken;
        self.wake_channel(id, number);
        if is_answered {
            self.send_basic(
                id,
                number,
                basic::AMQPMethod::RecoverOk(basic::RecoverOk {}),
            );
        }
        Ok(())
    }
}
