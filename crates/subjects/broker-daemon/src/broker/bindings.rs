//! Bindings of queues and of exchanges (replies as RabbitMQ's).

use amq_protocol::protocol::{AMQPClass, exchange, queue};
use amq_protocol::types::{AMQPValue, FieldTable};

use super::Broker;
use super::exchanges::default_exchange;
use super::queues::plain_name;
use crate::channel::ChannelId;
use crate::exchange::{Binding, Destination, Kind};
use crate::failure::{Result, precondition_failed};

impl Broker {
    pub(super) fn bind_queue(&mut self, id: ChannelId, bind: queue::Bind) -> Result {
        let name = self.full_name(id, &plain_name(bind.queue.as_str()))?;
        let queue_id = self.find_queue(id, &name)?;
        // If queue name and key are both empty, the queue's name is also the key.
        let key = match (bind.queue.as_str(), bind.routing_key.as_str()) {
            ("", "") => &*name,
            (_, key) => key,
        };
        let binding = Binding::new(key, bind.arguments);
        let to = Destination::Queue(queue_id);
        let ticket = self.bind(id, bind.exchange.as_str(), &to, &binding)?;
        let ok = queue::AMQPMethod::BindOk(queue::BindOk {});
        self.answer_unless(bind.nowait, id, ticket, AMQPClass::Queue(ok))
    }

    /// Handles queue.unbind. A missing binding or exchange is no error.
    pub(super) fn unbind_queue(&mut self, id: ChannelId, unbind: queue::Unbind) -> Result {
        let name = self.full_name(id, &plain_name(unbind.queue.as_str()))?;
        let to = self.find_queue(id, &name).map(Destination::Queue);
        let binding = Binding::new(unbind.routing_key.as_str(), unbind.arguments);
        let ticket = self.unbind(id, unbind.exchange.as_str(), to, &binding)?;
        let ok = queue::AMQPMethod::UnbindOk(queue::UnbindOk {});
        self.answer(id, ticket, AMQPClass::Queue(ok))
    }

    pub(super) fn bind_exchange(&mut self, id: ChannelId, bind: exchange::Bind) -> Result {
        let to = self.exchange_to_bind(id, bind.destination.as_str())?;
        let binding = Binding::new(bind.routing_key.as_str(), bind.arguments);
        let ticket = self.bind(id, bind.source.as_str(), &to, &binding)?;
        let ok = exchange::AMQPMethod::BindOk(exchange::BindOk {});
        self.answer_unless(bind.nowait, id, ticket, AMQPClass::Exchange(ok))
    }

    pub(super) fn unbind_exchange(&mut self, id: ChannelId, unbind: exchange::Unbind) -> Result {
        let to = self.exchange_to_bind(id, unbind.destination.as_str());
        let binding = Binding::new(unbind.routing_key.as_str(), unbind.arguments);
        let ticket = self.unbind(id, unbind.source.as_str(), to, &binding)?;
        let ok = exchange::AMQPMethod::UnbindOk(exchange::UnbindOk {});
        self.answer_unless(unbind.nowait, id, ticket, AMQPClass::Exchange(ok))
    }

    fn exchange_to_bind(&self, id: ChannelId, name: &str) -> Result<Destination> {
        let name = &*plain_name(name);
        let vhost = self.topology.vhost(self.vhost_of(id));
        if name.is_empty() {
            return Err(default_exchange());
        }
        match vhost.exchanges.get_key_value(name) {
            Some((name, _)) => Ok(Destination::Exchange(name.clone())),
            None => Err(vhost.no_exchange(name)),
        }
    }

    /// Adds a binding. Returns the log ticket that its answer waits for.
    fn bind(
        &mut self,
        id: ChannelId,
        source: &str,
        to: &Destination,
        binding: &Binding,
    ) -> Result<u64> {
        let source = &*plain_name(source);
        if source.is_empty() {
            return Err(default_exchange());
        }
        let index = self.vhost_of(id);
        let vhost = self.topology.vhost(index);
        let exchange = vhost.exchanges.get(source);
        let exchange = exchange.ok_or_else(|| vhost.no_exchange(source))?;
        if exchange.settings.kind == Kind::Headers {
            check_match(&binding.arguments)?;
        }
        let is_new = !exchange.has(to, binding);
        let is_durable = self.topology.is_durable(index, source, to);
        if is_new && is_durable {
            self.store.check()?;
        }
        if self.topology.bind(index, source, to, binding) {
            self.store_binding(index, source, to, binding, true);
        }
        // Even if it existed already: its record may still be on its way to the disk.
        Ok(if is_durable { self.store.ticket() } else { 0 })
    }

    /// Removes a binding; a missing destination is no error. Returns the log ticket that its answer waits for.
    fn unbind(
        &mut self,
        id: ChannelId,
        source: &str,
        to: Result<Destination>,
        binding: &Binding,
    ) -> Result<u64> {
        let to = &match to {
            // The record of its removal may still be on its way to the disk.
            Err(failure) if failure.code == 404 => return Ok(self.store.ticket()),
            to => to?,
        };
        let source = &*plain_name(source);
        if source.is_empty() {
            return Err(default_exchange());
        }
        self.finish_dead_letters();
        let index = self.vhost_of(id);
        let is_durable = self.topology.is_durable(index, source, to);
        let before = self.store.recorded();
        if self.topology.unbind(index, source, to, binding) {
            self.store_binding(index, source, to, binding, false);
            self.remove_if_unused(index, source);
        }
        // Even if it was missing: the record of its removal may still be on its way to the disk.
        Ok(if is_durable {
            self.store.ticket()
        } else {
            self.store.ticket_since(before)
        })
    }
}

/// # Errors
/// 406 for an unknown `x-match`.
fn check_match(arguments: &FieldTable) -> Result {
    let shown = match arguments.inner().get("x-match") {
        None => return Ok(()),
        Some(AMQPValue::LongString(mode)) => match mode.as_bytes() {
            b"all" | b"any" | b"all-with-x" | b"any-with-x" => return Ok(()),
            _ => mode.to_string(),
        },
        Some(other) => format!("{other:?}"),
    };
    Err(precondition_failed(format_args!(
        "Invalid x-match field value {shown}; expected all, any, all-with-x or any-with-x"
    )))
}
