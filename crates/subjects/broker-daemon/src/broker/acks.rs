//! Settlement of deliveries by clients: ack, nack, reject, recover.

use amq_protocol::protocol::basic;

use super::Broker;
use super::dead_letters::Reason;
use crate::channel::{Channel, ChannelId, Mode, Settlement};
use crate::deliveries::Delivered;
use crate::failure::{Result, frame_error, not_implemented, precondition_failed};
use crate::frame::AckRun;
use crate::queue::ConnectionId;

impl Broker {
    /// Handles basic.ack. It is parsed in place, because there is often one for each message.
    pub(super) fn ack(&mut self, id: ChannelId, payload: &[u8]) -> Result {
        let Some((tag, [bits])) = payload[4..].split_first_chunk::<8>() else {
            return Err(frame_error("the arguments of basic.ack cannot be read"));
        };
        let tag = u64::from_be_bytes(*tag);
        self.settle_tag(id, tag, bits & 1 != 0, Settlement::Acked)
    }

    /// Handles frames with basic.ack as one. Returns false, and does nothing, if they must be handled one by one: their
    /// deliveries are not the oldest ones of the channel.
    pub(super) fn ack_run(&mut self, id: ConnectionId, run: AckRun) -> bool {
        let id = ChannelId::new(id, run.channel);
        let is_next = |channel: &mut Channel| {
            !matches!(channel.mode, Mode::Closing)
                && channel.deliveries.begins_with(run.first, run.count)
        };
        let last = run.first.wrapping_add(run.count as u64 - 1);
        self.find_channel(id).is_some_and(is_next)
            && self.settle_tag(id, last, true, Settlement::Acked).is_ok()
    }

    /// Settles a delivery, or with `multiple` all up to it.
    pub(super) fn settle_tag(
        &mut self,
        id: ChannelId,
        tag: u64,
        multiple: bool,
        settlement: Settlement,
    ) -> Result {
        let mut taken = std::mem::take(&mut self.scratch);
        let channel = self.channel(id)?;
        let is_known = channel.deliveries.take(tag, multiple, &mut taken);
        if let Mode::Tx(tx) = &mut channel.mode {
            let taken = taken.drain(..);
            tx.settled
                .extend(taken.map(|delivered| (delivered, settlement)));
        } else if !taken.is_empty() {
            channel.deliveries.count_settled(&taken);
            self.settle_all(id, &mut taken, settlement);
        }
        self.scratch = taken;
        if !is_known {
            let text = format_args!("unknown delivery tag {tag}");
            return Err(precondition_failed(text));
        }
        Ok(())
    }

    fn settle_all(&mut self, id: ChannelId, taken: &mut Vec<Delivered>, settlement: Settlement) {
        if settlement == Settlement::Requeued {
            // From the last to the first, so that each is requeued before the one after it.
            taken.reverse();
        }
        for delivered in taken.drain(..) {
            self.settle(delivered, settlement);
        }
        self.wake_channel(id);
    }

    /// Settles a delivery that was removed from the channel's list.
    pub(super) fn settle(&mut self, delivered: Delivered, settlement: Settlement) {
        let Delivered {
            queue: queue_id,
            consumer,
            mut entry,
            ..
        } = delivered;
        let Some((queue, consumers)) = self.topology.queue_and_consumers(queue_id) else {
            // The queue is deleted, but the log still must know that its message is settled.
            return self.store.settle(queue_id, &entry);
        };
        let consumer = consumer.and_then(|id| Some((id, consumers.get_mut(id)?)));
        if queue.settle(consumer, settlement == Settlement::Acked) {
            self.scheduler.activate(queue_id, queue);
        }
        match settlement {
            Settlement::Acked => {
                self.counts.messages_acked += 1;
                self.store.settle(queue_id, &entry);
            }
            Settlement::Rejected => self.queue_dead_letter(queue_id, entry, Reason::Rejected),
            Settlement::Requeued => {
                self.counts.messages_requeued += 1;
                entry.redelivered = true;
                queue.insert(entry);
                self.scheduler.activate(queue_id, queue);
                self.set_timer(queue_id);
            }
        }
    }

    /// Handles basic.recover and basic.recover-async.
    ///
    /// # Errors
    /// 540 for `requeue` false, as in RabbitMQ.
    pub(super) fn recover(&mut self, id: ChannelId, requeue: bool, is_answered: bool) -> Result {
        if !requeue {
            return Err(not_implemented("requeue=false"));
        }
        let mut taken = std::mem::take(&mut self.scratch);
        let channel = self.channel(id)?;
        channel.deliveries.take(0, true, &mut taken);
        channel.deliveries.count_settled(&taken);
        self.settle_all(id, &mut taken, Settlement::Requeued);
        self.scratch = taken;
        if is_answered {
            self.send_basic(id, basic::AMQPMethod::RecoverOk(basic::RecoverOk {}));
        }
        Ok(())
    }
}
