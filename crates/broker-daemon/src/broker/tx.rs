//! The tx class: publishes and settlements take effect at commit.

use amq_protocol::protocol::{AMQPClass, tx};

use super::Broker;
use crate::channel::{Channel, Pending, Tx};
use crate::failure::{Result, precondition_failed};
use crate::queue::ConnectionId;

impl Broker {
    /// Handles tx.select.
    pub(super) fn tx_select(&mut self, id: ConnectionId, number: u16) -> Result {
        let Some(channel) = self.channel(id, number)? else {
            return Ok(());
        };
        if channel.confirms.is_some() {
            return Err(precondition_failed("cannot switch from confirm to tx mode"));
        }
        channel.tx.get_or_insert_with(Tx::default);
        self.send(
            id,
            number,
            AMQPClass::Tx(tx::AMQPMethod::SelectOk(tx::SelectOk {})),
        );
        Ok(())
    }

    /// Handles tx.commit.
    pub(super) fn tx_commit(&mut self, id: ConnectionId, number: u16) -> Result {
        let Some(channel) = self.channel(id, number)? else {
            return Ok(());
        };
        let is_persistent = |pending: &Pending| pending.message.facts().persistent;
        if transaction(channel)?.published.iter().any(is_persistent) {
            // Checked before anything is taken: on failure, deliveries are requeued with the channel.
            self.check_store()?;
        }
        let Some(channel) = self.channel(id, number)? else {
            return Ok(());
        };
        let Tx {
            published,
            mut settled,
        } = std::mem::take(transaction(channel)?);
        for pending in published {
            self.publish_pending(id, number, &pending);
        }
        if let Some(channel) = self.channel(id, number)? {
            let consumed = settled.iter().map(|(delivered, _)| delivered);
            channel.count_settled(consumed);
        }
        settled.sort_by_key(|(delivered, _)| std::cmp::Reverse(delivered.tag));
        for (delivered, settlement) in settled {
            self.settle(delivered, settlement);
        }
        self.wake_channel(id, number);
        let ok = tx::AMQPMethod::CommitOk(tx::CommitOk {});
        self.answer(id, number, self.ticket(), AMQPClass::Tx(ok))
    }

    /// Handles tx.rollback. Settled deliveries are unsettled again; they are not redelivered (AMQP 0-9-1, tx.rollback).
    pub(super) fn tx_rollback(&mut self, id: ConnectionId, number: u16) -> Result {
        let Some(channel) = self.channel(id, number)? else {
            return Ok(());
        };
        let Tx { settled, .. } = std::mem::take(transaction(channel)?);
        for (delivered, _) in settled {
            channel.unacked.restore(delivered);
        }
        self.send(
            id,
            number,
            AMQPClass::Tx(tx::AMQPMethod::RollbackOk(tx::RollbackOk {})),
        );
        Ok(())
    }
}

fn transaction(channel: &mut Channel) -> Result<&mut Tx> {
    channel
        .tx
        .as_mut()
        .ok_or_else(|| precondition_failed("channel is not transactional"))
}
