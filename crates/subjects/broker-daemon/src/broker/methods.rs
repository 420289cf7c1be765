//! Methods outside the hot path: parsed, and dispatched to their handlers.

use amq_protocol::protocol::{
    AMQPClass, access, basic, channel, confirm, connection, exchange, parse_class, queue, tx,
};

use super::Broker;
use crate::channel::{ChannelId, Settlement};
use crate::failure::{
    Failure, Result, channel_error, command_invalid, frame_error, not_implemented,
};
use crate::frame::is_too_deep;
use crate::queue::ConnectionId;

/// The known methods by class.
const KNOWN: [(u16, &[u16]); 8] = [
    (
        10,
        &[10, 11, 20, 21, 30, 31, 40, 41, 50, 51, 60, 61, 70, 71],
    ),
    (20, &[10, 11, 20, 21, 40, 41]),
    (30, &[10, 11]),
    (40, &[10, 11, 20, 21, 30, 31, 40, 51]),
    (50, &[10, 11, 20, 21, 30, 31, 40, 41, 50, 51]),
    (
        60,
        &[
            10, 11, 20, 21, 30, 31, 40, 50, 60, 70, 71, 72, 80, 90, 100, 110, 111, 120,
        ],
    ),
    (85, &[10, 11]),
    (90, &[10, 11, 20, 21, 30, 31]),
];

/// Returns the ids of class and method that the payload of a method frame begins with.
pub(super) fn ids(payload: &[u8]) -> Option<(u16, u16)> {
    let ([c0, c1, m0, m1], _) = payload.split_first_chunk()?;
    let class = u16::from_be_bytes([*c0, *c1]);
    Some((class, u16::from_be_bytes([*m0, *m1])))
}

/// Parses the payload of a method frame.
///
/// # Errors
/// 540 for an unknown method, 501 for unreadable arguments (as RabbitMQ).
pub(super) fn parse(payload: &[u8]) -> Result<AMQPClass> {
    let Some((class, method)) = ids(payload) else {
        return Err(frame_error("a method frame without a method"));
    };
    let is_known = KNOWN
        .iter()
        .any(|(known, methods)| *known == class && methods.contains(&method));
    if !is_known {
        return Err(not_implemented(format_args!(
            "method {method} of class {class} does not exist"
        )));
    }
    if is_too_deep(payload) {
        return Err(frame_error("tables within tables within tables"));
    }
    match parse_class(payload) {
        Ok(([], method)) => Ok(method),
        _ => Err(frame_error(format_args!(
            "the arguments of method {method} of class {class} cannot be read"
        ))),
    }
}

impl Broker {
    /// Handles a method on channel 0 of an open connection.
    pub(super) fn connection_method(&mut self, id: ConnectionId, payload: &[u8]) -> Result {
        match parse(payload)? {
            AMQPClass::Connection(connection::AMQPMethod::Close(_)) => self.client_closes(id),
            AMQPClass::Connection(connection::AMQPMethod::UpdateSecret(_)) => {
                let ok = connection::UpdateSecretOk {};
                self.send_connection(id, connection::AMQPMethod::UpdateSecretOk(ok));
            }
            _ => return Err(channel_error("unexpected method on channel 0")),
        }
        Ok(())
    }

    /// Handles a method on another channel.
    pub(super) fn channel_method(&mut self, id: ChannelId, payload: &[u8]) -> Result {
        self.channel(id)?.incoming.expect_method()?;
        match parse(payload)? {
            AMQPClass::Basic(method) => self.basic_method(id, payload, method),
            AMQPClass::Queue(method) => self.queue_method(id, method),
            AMQPClass::Exchange(method) => self.exchange_method(id, method),
            AMQPClass::Channel(channel::AMQPMethod::Flow(flow)) if flow.active => {
                let ok = channel::AMQPMethod::FlowOk(channel::FlowOk { active: true });
                self.send(id, AMQPClass::Channel(ok));
                Ok(())
            }
            AMQPClass::Channel(channel::AMQPMethod::Flow(_)) => {
                Err(not_implemented("active=false"))
            }
            AMQPClass::Channel(channel::AMQPMethod::FlowOk(_)) => Ok(()),
            AMQPClass::Confirm(confirm::AMQPMethod::Select(select)) => {
                self.confirm_select(id, select.nowait)
            }
            AMQPClass::Tx(tx::AMQPMethod::Select(_)) => self.tx_select(id),
            AMQPClass::Tx(tx::AMQPMethod::Commit(_)) => self.tx_commit(id),
            AMQPClass::Tx(tx::AMQPMethod::Rollback(_)) => self.tx_rollback(id),
            AMQPClass::Access(access::AMQPMethod::Request(_)) => {
                let ok = access::AMQPMethod::RequestOk(access::RequestOk {});
                self.send(id, AMQPClass::Access(ok));
                Ok(())
            }
            _ => Err(unimplemented()),
        }
    }

    fn exchange_method(&mut self, id: ChannelId, method: exchange::AMQPMethod) -> Result {
        match method {
            exchange::AMQPMethod::Declare(declare) => self.declare_exchange(id, declare),
            exchange::AMQPMethod::Delete(delete) => self.delete_exchange(id, &delete),
            exchange::AMQPMethod::Bind(bind) => self.bind_exchange(id, bind),
            exchange::AMQPMethod::Unbind(unbind) => self.unbind_exchange(id, unbind),
            _ => Err(unimplemented()),
        }
    }

    fn queue_method(&mut self, id: ChannelId, method: queue::AMQPMethod) -> Result {
        match method {
            queue::AMQPMethod::Declare(declare) => self.declare_queue(id, &declare),
            queue::AMQPMethod::Bind(bind) => self.bind_queue(id, bind),
            queue::AMQPMethod::Unbind(unbind) => self.unbind_queue(id, unbind),
            queue::AMQPMethod::Purge(purge) => self.purge_queue(id, &purge),
            queue::AMQPMethod::Delete(delete) => self.delete_queue(id, &delete),
            _ => Err(unimplemented()),
        }
    }

    fn basic_method(&mut self, id: ChannelId, payload: &[u8], method: basic::AMQPMethod) -> Result {
        match method {
            basic::AMQPMethod::Qos(qos) => self.qos(id, payload, &qos),
            basic::AMQPMethod::Consume(consume) => self.consume(id, &consume),
            basic::AMQPMethod::Cancel(cancel) => self.cancel(id, cancel),
            basic::AMQPMethod::Get(get) => self.get(id, &get),
            basic::AMQPMethod::Reject(reject) => {
                let settlement = Settlement::refusal(reject.requeue);
                self.settle_tag(id, reject.delivery_tag, false, settlement)
            }
            basic::AMQPMethod::Nack(nack) => {
                let settlement = Settlement::refusal(nack.requeue);
                self.settle_tag(id, nack.delivery_tag, nack.multiple, settlement)
            }
            basic::AMQPMethod::Recover(recover) => self.recover(id, recover.requeue, true),
            basic::AMQPMethod::RecoverAsync(recover) => self.recover(id, recover.requeue, false),
            _ => Err(unimplemented()),
        }
    }
}

fn unimplemented() -> Failure {
    command_invalid("unimplemented method")
}
