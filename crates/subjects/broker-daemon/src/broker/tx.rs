//! The tx class: publishes and settlements take effect at commit.

use std::cmp::Reverse;
use std::mem;

use amq_protocol::protocol::{AMQPClass, tx};

use super::Broker;
use crate::channel::{Channel, ChannelId, Pending, Tx};
use crate::failure::{Result, precondition_failed};

impl Broker {
    pub(super) fn tx_select(&mut self, id: ChannelId) -> Result {
        let channel = self.channel(id)?;
        if channel.confirms.is_some() {
            return Err(precondition_failed("cannot switch from confirm to tx mode"));
        }
        channel.tx.get_or_insert_default();
        self.send(id, AMQPClass::Tx(tx::AMQPMethod::SelectOk(tx::SelectOk {})));
        Ok(())
    }

    pub(super) fn tx_commit(&mut self, id: ChannelId) -> Result {
        let is_persistent = |pending: &Pending| pending.message.facts().persistent;
        let published = &transaction(self.channel(id)?)?.published;
        if published.iter().any(is_persistent) {
            // Checked before anything is taken: on failure, deliveries are requeued with the channel.
            self.store.check()?;
        }
        let Tx {
            published,
            mut settled,
        } = mem::take(transaction(self.channel(id)?)?);
        for pending in published {
            self.publish_pending(id, &pending)?;
        }
        let consumed = settled.iter().map(|(delivered, _)| delivered);
        self.channel(id)?.count_settled(consumed);
        settled.sort_by_key(|(delivered, _)| Reverse(delivered.tag));
        for (delivered, settlement) in settled {
            self.settle(delivered, settlement);
        }
        self.wake_channel(id);
        let ok = tx::AMQPMethod::CommitOk(tx::CommitOk {});
        self.answer(id, self.store.ticket(), AMQPClass::Tx(ok))
    }

    /// Handles tx.rollback. Settled deliveries are unsettled again; they are not redelivered (AMQP 0-9-1, tx.rollback).
    pub(super) fn tx_rollback(&mut self, id: ChannelId) -> Result {
        let channel = self.channel(id)?;
        let Tx { settled, .. } = mem::take(transaction(channel)?);
        for (delivered, _) in settled {
            channel.unacked.restore(delivered);
        }
        let ok = tx::AMQPMethod::RollbackOk(tx::RollbackOk {});
        self.send(id, AMQPClass::Tx(ok));
        Ok(())
    }
}

fn transaction(channel: &mut Channel) -> Result<&mut Tx> {
    let tx = channel.tx.as_mut();
    tx.ok_or_else(|| precondition_failed("channel is not transactional"))
}
