//! Bindings of queues and of exchanges (replies as RabbitMQ's).

use amq_protocol::protocol::{AMQPClass, exchange, queue};
use amq_protocol::types::{AMQPValue, FieldTable};

use super::Broker;
use super::exchanges::default_exchange;
use super::queues::plain_name;
use crate::channel::ChannelId;
use crate::exchange::{Binding, Destination, Kind, Name, remove_first};
use crate::failure::{Result, precondition_failed};

impl Broker {
    pub(super) fn bind_queue(&mut self, id: ChannelId, bind: queue::Bind) -> Result {
        let queue_id = self.queue_of(id, &plain_name(bind.queue.as_str()))?;
        // If queue name and key are both empty, the queue's name is also the key.
        let key = match (bind.queue.as_str(), bind.routing_key.as_str()) {
            ("", "") => &*self.queues[queue_id].name,
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
        // Even if it is missing: the record of its removal may still be on its way to the disk.
        let mut ticket = self.store.ticket();
        match self.queue_of(id, &plain_name(unbind.queue.as_str())) {
            Ok(queue) => {
                let binding = Binding::new(unbind.routing_key.as_str(), unbind.arguments);
                let to = Destination::Queue(queue);
                ticket = self.unbind(id, unbind.exchange.as_str(), &to, &binding)?;
            }
            Err(failure) if failure.code == 404 && !unbind.queue.as_str().is_empty() => {}
            Err(failure) => return Err(failure),
        }
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
        let mut ticket = self.store.ticket();
        match self.exchange_to_bind(id, unbind.destination.as_str()) {
            Ok(to) => {
                let binding = Binding::new(unbind.routing_key.as_str(), unbind.arguments);
                ticket = self.unbind(id, unbind.source.as_str(), &to, &binding)?;
            }
            Err(failure) if failure.code == 404 => {}
            Err(failure) => return Err(failure),
        }
        let ok = exchange::AMQPMethod::UnbindOk(exchange::UnbindOk {});
        self.answer_unless(unbind.nowait, id, ticket, AMQPClass::Exchange(ok))
    }

    fn exchange_to_bind(&self, id: ChannelId, name: &str) -> Result<Destination> {
        let name = &*plain_name(name);
        let vhost = &self.vhosts[self.vhost_of(id)];
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
        let vhost = &self.vhosts[index];
        let exchange = vhost.exchanges.get(source);
        let exchange = exchange.ok_or_else(|| vhost.no_exchange(source))?;
        if exchange.traits.kind == Kind::Headers {
            check_match(&binding.arguments)?;
        }
        let is_new = !exchange.has(to, binding);
        let is_durable = self.is_durable_binding(index, source, to);
        if is_new && is_durable {
            self.store.check()?;
        }
        if self.add_binding(index, source, to, binding) {
            self.store_binding(index, source, to, binding, true);
        }
        // Even if it existed already: its record may still be on its way to the disk.
        Ok(if is_durable { self.store.ticket() } else { 0 })
    }

    /// Adds a binding if both ends exist. Returns true if it is new.
    pub(super) fn add_binding(
        &mut self,
        vhost: usize,
        source: &str,
        to: &Destination,
        binding: &Binding,
    ) -> bool {
        let exchange = self.vhosts[vhost].exchanges.get_mut(source);
        if !exchange.is_some_and(|exchange| exchange.bind(to, binding)) {
            return false;
        }
        self.topology += 1;
        if let Some(sources) = self.sources(vhost, to) {
            sources.push(source.into());
        }
        true
    }

    /// Returns the sources that a destination is bound to.
    fn sources(&mut self, vhost: usize, to: &Destination) -> Option<&mut Vec<Name>> {
        match to {
            Destination::Queue(queue) => Some(&mut self.queues.get_mut(*queue)?.sources),
            Destination::Exchange(name) => {
                Some(&mut self.vhosts[vhost].exchanges.get_mut(name)?.sources)
            }
        }
    }

    /// Removes a binding. Returns the log ticket that its answer waits for.
    fn unbind(
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
        self.finish_dead_letters();
        let index = self.vhost_of(id);
        let is_durable = self.is_durable_binding(index, source, to);
        let before = self.store.recorded();
        let exchange = self.vhosts[index].exchanges.get_mut(source);
        if exchange.is_some_and(|exchange| exchange.unbind(to, binding)) {
            self.topology += 1;
            self.store_binding(index, source, to, binding, false);
            self.forget_source(index, to, &source.into());
            self.remove_if_unused(index, source);
        }
        // Even if it was missing: the record of its removal may still be on its way to the disk.
        Ok(if is_durable {
            self.store.ticket()
        } else {
            self.store.ticket_since(before)
        })
    }

    /// Removes one entry from the sources of a destination.
    pub(super) fn forget_source(&mut self, vhost: usize, to: &Destination, source: &Name) {
        if let Some(sources) = self.sources(vhost, to) {
            remove_first(sources, |other| other == source);
        }
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
