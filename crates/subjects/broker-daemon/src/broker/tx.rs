//! The tx class: publishes and settlements take effect at commit.

use std::cmp::Reverse;
use std::mem;

use amq_protocol::protocol::{AMQPClass, tx};

use super::Broker;
use crate::channel::{ChannelId, Mode, Pending, Tx};
use crate::failure::Result;

impl Broker {
    pub(super) fn tx_select(&mut self, id: ChannelId) -> Result {
        self.channel(id)?.select(Mode::Tx(Tx::default()))?;
        self.send(id, AMQPClass::Tx(tx::AMQPMethod::SelectOk(tx::SelectOk {})));
        Ok(())
    }

    pub(super) fn tx_commit(&mut self, id: ChannelId) -> Result {
        let is_persistent = |pending: &Pending| pending.message.facts().persistent;
        if self.channel(id)?.tx()?.published.iter().any(is_persistent) {
            // Checked before anything is taken: on failure, deliveries are requeued with the channel.
            self.store.check()?;
        }
        let Tx {
            published,
            mut settled,
        } = mem::take(self.channel(id)?.tx()?);
        for pending in published {
            self.publish_pending(id, &pending)?;
        }
        let consumed = settled.iter().map(|(delivered, _)| delivered);
        self.channel(id)?.deliveries.count_settled(consumed);
        // From the last to the first, so that each is requeued before the one after it.
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
        let Tx { settled, .. } = mem::take(channel.tx()?);
        for (delivered, _) in settled {
            channel.deliveries.restore(delivered);
        }
        let ok = tx::AMQPMethod::RollbackOk(tx::RollbackOk {});
        self.send(id, AMQPClass::Tx(ok));
        Ok(())
    }
}
