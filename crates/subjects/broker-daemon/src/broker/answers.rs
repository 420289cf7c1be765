//! Answers of methods that change durable definitions: they wait for the sync of the record, as confirms do.

use amq_protocol::protocol::AMQPClass;

use super::Broker;
use crate::channel::ChannelId;
use crate::failure::{Result, disk_failed};

impl Broker {
    /// Answers a method, either now or when the log has reached a ticket. Until then, all other output of its channel
    /// waits behind the answer.
    ///
    /// # Errors
    /// 406 if the disk has failed, so that the ticket is never reached.
    pub(super) fn answer(&mut self, id: ChannelId, ticket: u64, answer: AMQPClass) -> Result {
        if ticket <= self.store.synced() {
            self.send(id, answer);
            return Ok(());
        }
        if self.store.has_failed() {
            return Err(disk_failed());
        }
        let outbox = &mut self.connections[id.connection].outbox;
        if outbox.answer(id.number, ticket, answer) {
            self.store.answering.push(id);
        }
        Ok(())
    }

    /// Answers a method as [`Broker::answer`] does, unless the client set `nowait`.
    pub(super) fn answer_unless(
        &mut self,
        nowait: bool,
        id: ChannelId,
        ticket: u64,
        answer: AMQPClass,
    ) -> Result {
        if nowait {
            Ok(())
        } else {
            self.answer(id, ticket, answer)
        }
    }

    /// Sends the answers whose tickets are reached. After a disk failure, waiting answers become errors of their
    /// channels.
    pub(super) fn send_answers(&mut self) {
        for id in std::mem::take(&mut self.store.answering) {
            let Some(connection) = self.connections.get_mut(id.connection) else {
                continue;
            };
            let outbox = &mut connection.outbox;
            if outbox.send_answers(id.number, self.store.synced()) {
                if !self.store.has_failed() {
                    self.store.answering.push(id);
                } else if let Some(request) = outbox.refuse_answers(id.number) {
                    self.fail(id, request, &disk_failed());
                }
            }
            self.add_output(id.connection);
            // A client that asked to close is answered last.
            let connection = self.connections.get(id.connection);
            if connection.is_some_and(|connection| connection.outbox.may_leave()) {
                self.client_closes(id.connection);
            }
        }
    }
}
