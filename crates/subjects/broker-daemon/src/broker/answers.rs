//! Answers of methods that change durable definitions: they wait for the sync of the record, as confirms do.

use amq_protocol::protocol::AMQPClass;

use super::Broker;
use crate::channel::ChannelId;
use crate::failure::{Result, disk_failed};
use crate::queue::ConnectionId;

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
        let answers = &mut self.connections[id.connection].answers;
        if !answers.is_waiting(id.number) {
            self.store.answering.push(id);
        }
        answers.push(id.number, ticket, answer);
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
            let is_waiting = if self.store.has_failed() {
                self.refuse_answers(id)
            } else {
                self.send_answers_of(id)
            };
            if is_waiting {
                self.store.answering.push(id);
            }
            self.add_output(id.connection);
            self.leave_when_answered(id.connection);
        }
    }

    /// Returns true if answers of the channel still wait.
    fn send_answers_of(&mut self, id: ChannelId) -> bool {
        let synced = self.store.synced();
        let Some(connection) = self.connections.get_mut(id.connection) else {
            return false;
        };
        while let Some(answer) = connection.answers.take_due(id.number, synced) {
            connection.output.method(id.number, answer.method);
            connection.output.append(answer.behind);
        }
        connection.answers.is_waiting(id.number)
    }

    /// Sends the answers whose tickets were reached and fails the channel for the first other one. Returns false, since
    /// nothing waits any more.
    fn refuse_answers(&mut self, id: ChannelId) -> bool {
        self.send_answers_of(id);
        let Some(connection) = self.connections.get_mut(id.connection) else {
            return false;
        };
        while let Some(answer) = connection.answers.take_due(id.number, u64::MAX) {
            if answer.is_orphan {
                connection.output.append(answer.behind);
                continue;
            }
            connection.answers.forget(id.number);
            self.fail(id, answer.request, &disk_failed());
            break;
        }
        false
    }

    /// Answers a client's connection.close that waited for other answers.
    fn leave_when_answered(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id)
            && connection.is_leaving
            && connection.answers.is_empty()
        {
            connection.is_leaving = false;
            self.client_closes(id);
        }
    }
}
