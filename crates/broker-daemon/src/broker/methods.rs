//! Methods outside the hot path: parsed, and dispatched to their handlers.

use amq_protocol::protocol::{
    AMQPClass, access, basic, channel, confirm, connection, exchange, parse_class, queue, tx,
};

use super::Broker;
use crate::channel::Stage;
use crate::failure::{
    Result, channel_error, command_invalid, frame_error, not_implemented, unexpected_frame,
};
use crate::frame::{Frame, is_too_deep};
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

/// Parses the payload of a method frame.
///
/// # Errors
/// 540 for an unknown method, 501 for unreadable arguments (as RabbitMQ).
pub(super) fn parse(payload: &[u8]) -> Result<AMQPClass> {
    let Some(([c0, c1, m0, m1], _)) = payload.split_first_chunk::<4>() else {
        return Err(frame_error("a method frame without a method"));
    };
    let (class, method) = (
        u16::from_be_bytes([*c0, *c1]),
        u16::from_be_bytes([*m0, *m1]),
    );
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
                let ok = connection::AMQPMethod::UpdateSecretOk(connection::UpdateSecretOk {});
                self.send(id, 0, AMQPClass::Connection(ok));
            }
            _ => return Err(channel_error("unexpected method on channel 0")),
        }
        Ok(())
    }

    /// Handles a method on another channel.
    pub(super) fn channel_method(&mut self, id: ConnectionId, frame: Frame<'_>) -> Result {
        let number = frame.channel;
        // Input on a channel that is being closed need not even be readable.
        match *frame.payload {
            [0, 20, 0, 10, ..] => {
                parse(frame.payload)?;
                return self.open_channel(id, number);
            }
            [0, 20, 0, 40, ..] => {
                // Sent before the client read the broker's channel.close, which it will still answer, so the channel
                // stays.
                let crosses = self.channel(id, number)?.is_none();
                self.client_closes_channel(id, number, crosses);
                return Ok(());
            }
            [0, 20, 0, 41, ..] => {
                if self.channel(id, number)?.is_some() {
                    return Err(command_invalid("unexpected channel.close-ok"));
                }
                self.end_channel(id, number);
                return Ok(());
            }
            _ => {}
        }
        let Some(channel) = self.channel(id, number)? else {
            return Ok(());
        };
        if channel.incoming.stage != Stage::Method {
            return Err(unexpected_frame(
                "expected content header or body, got method",
            ));
        }
        match parse(frame.payload)? {
            AMQPClass::Basic(method) => self.basic_method(id, number, frame.payload, method),
            AMQPClass::Queue(method) => self.queue_method(id, number, method),
            AMQPClass::Exchange(method) => self.exchange_method(id, number, method),
            AMQPClass::Channel(channel::AMQPMethod::Flow(flow)) if flow.active => {
                let ok = channel::AMQPMethod::FlowOk(channel::FlowOk { active: true });
                self.send(id, number, AMQPClass::Channel(ok));
                Ok(())
            }
            AMQPClass::Channel(channel::AMQPMethod::Flow(_)) => {
                Err(not_implemented("active=false"))
            }
            AMQPClass::Channel(channel::AMQPMethod::FlowOk(_)) => Ok(()),
            AMQPClass::Confirm(confirm::AMQPMethod::Select(select)) => {
                self.confirm_select(id, number, select.nowait)
            }
            AMQPClass::Tx(tx::AMQPMethod::Select(_)) => self.tx_select(id, number),
            AMQPClass::Tx(tx::AMQPMethod::Commit(_)) => self.tx_commit(id, number),
            AMQPClass::Tx(tx::AMQPMethod::Rollback(_)) => self.tx_rollback(id, number),
            AMQPClass::Access(access::AMQPMethod::Request(_)) => {
                let ok = access::AMQPMethod::RequestOk(access::RequestOk {});
                self.send(id, number, AMQPClass::Access(ok));
                Ok(())
            }
            _ => Err(command_invalid("unimplemented method")),
        }
    }

    fn exchange_method(
        &mut self,
        id: ConnectionId,
        number: u16,
        method: exchange::AMQPMethod,
    ) -> Result {
        match method {
            exchange::AMQPMethod::Declare(declare) => self.declare_exchange(id, number, declare),
            exchange::AMQPMethod::Delete(delete) => self.delete_exchange(id, number, &delete),
            exchange::AMQPMethod::Bind(bind) => self.bind_exchange(id, number, bind),
            exchange::AMQPMethod::Unbind(unbind) => self.unbind_exchange(id, number, unbind),
            _ => Err(command_invalid("unimplemented method")),
        }
    }

    fn queue_method(&mut self, id: ConnectionId, number: u16, method: queue::AMQPMethod) -> Result {
        match method {
            queue::AMQPMethod::Declare(declare) => self.declare_queue(id, number, &declare),
            queue::AMQPMethod::Bind(bind) => self.bind_queue(id, number, bind),
            queue::AMQPMethod::Unbind(unbind) => self.unbind_queue(id, number, unbind),
            queue::AMQPMethod::Purge(purge) => self.purge_queue(id, number, &purge),
            queue::AMQPMethod::Delete(delete) => self.delete_queue(id, number, &delete),
            _ => Err(command_invalid("unimplemented method")),
        }
    }

    fn basic_method(
        &mut self,
        id: ConnectionId,
        number: u16,
        payload: &[u8],
        method: basic::AMQPMethod,
    ) -> Result {
        match method {
            basic::AMQPMethod::Qos(qos) => self.qos(id, number, payload, &qos),
            basic::AMQPMethod::Consume(consume) => self.consume(id, number, &consume),
            basic::AMQPMethod::Cancel(cancel) => self.cancel(id, number, cancel),
            basic::AMQPMethod::Get(get) => self.get(id, number, &get),
            basic::AMQPMethod::Reject(reject) => {
                self.reject(id, number, reject.delivery_tag, false, reject.requeue)
            }
            basic::AMQPMethod::Nack(nack) => {
                self.reject(id, number, nack.delivery_tag, nack.multiple, nack.requeue)
            }
            basic::AMQPMethod::Recover(recover) => self.recover(id, number, recover.requeue, true),
            basic::AMQPMethod::RecoverAsync(recover) => {
                self.recover(id, number, recover.requeue, false)
            }
            _ => Err(command_invalid("unimplemented method")),
        }
    }
}
