//! The exchange class, and bindings of both kinds (replies as RabbitMQ's).

use amq_protocol::protocol::{AMQPClass, exchange, queue};
use amq_protocol::types::{AMQPValue, FieldTable};

use super::Broker;
use super::queues::{same, same_argument};
use crate::exchange::{Binding, Destination, Exchange, Kind, Name, Traits};
use crate::failure::{Result, access_refused, command_invalid, precondition_failed};
use crate::queue::ConnectionId;

impl Broker {
    /// exchange.declare.
    pub(super) fn declare_exchange(
        &mut self,
        id: ConnectionId,
        number: u16,
        declare: exchange::Declare,
    ) -> Result {
        let nowait = declare.nowait;
        let name = declare.exchange.as_str();
        let index = self.vhost_of(id);
        let vhost = &self.vhosts[index];
        if name.is_empty() {
            return Err(default_exchange());
        }
        if declare.passive {
            if !vhost.exchanges.contains_key(name) {
                return Err(vhost.no_exchange(name));
            }
        } else {
            let kind = declare.kind.as_str();
            let Some(kind) = Kind::parse(kind) else {
                return Err(command_invalid(format_args!(
                    "unknown exchange type '{kind}'"
                )));
            };
            check_alternate(&declare.arguments)?;
            let traits = Traits {
                kind,
                durable: declare.durable,
                auto_delete: declare.auto_delete,
                internal: declare.internal,
                arguments: declare.arguments,
            };
            match vhost.exchanges.get(name) {
                Some(existing) => {
                    let what = format!("exchange '{name}' in vhost '{}'", vhost.name);
                    check_same(&what, &traits, &existing.traits)?;
                }
                None if name.starts_with("amq.") => {
                    return Err(access_refused(format_args!(
                        "exchange name '{name}' contains reserved prefix 'amq.*'"
                    )));
                }
                None => {
                    if traits.durable {
                        self.check_store()?;
                    }
                    self.store_exchange(index, name, &traits, true);
                    self.vhosts[index]
                        .exchanges
                        .insert(name.into(), Exchange::new(traits));
                    self.topology += 1;
                }
            }
        }
        if !nowait {
            let ok = exchange::AMQPMethod::DeclareOk(exchange::DeclareOk {});
            self.send(id, number, AMQPClass::Exchange(ok));
        }
        Ok(())
    }

    /// exchange.delete. One that is not there is no error.
    pub(super) fn delete_exchange(
        &mut self,
        id: ConnectionId,
        number: u16,
        delete: &exchange::Delete,
    ) -> Result {
        let name = delete.exchange.as_str();
        let index = self.vhost_of(id);
        let vhost = &self.vhosts[index];
        if name.is_empty() {
            return Err(default_exchange());
        }
        if name.starts_with("amq.") {
            return Err(access_refused(format_args!(
                "deletion of system exchange '{name}' in vhost '{}' not allowed",
                vhost.name
            )));
        }
        if let Some(exchange) = vhost.exchanges.get(name) {
            if delete.if_unused && exchange.is_used() {
                let vhost = &vhost.name;
                return Err(precondition_failed(format_args!(
                    "exchange '{name}' in vhost '{vhost}' in use"
                )));
            }
            self.remove_exchange(index, name);
        }
        if !delete.nowait {
            let ok = exchange::AMQPMethod::DeleteOk(exchange::DeleteOk {});
            self.send(id, number, AMQPClass::Exchange(ok));
        }
        Ok(())
    }

    /// Removes an exchange, and with it the auto-delete ones that thereby lose their last binding, and so on.
    fn remove_exchange(&mut self, vhost: usize, name: &str) {
        // A list and no recursion: clients decide how long such a chain is.
        let mut going: Vec<Name> = vec![name.into()];
        while let Some(name) = going.pop() {
            let Some(exchange) = self.vhosts[vhost].exchanges.remove(&name) else {
                continue;
            };
            self.topology += 1;
            self.store_exchange(vhost, &name, &exchange.traits, false);
            for (to, binding) in exchange.bindings() {
                self.store_binding(vhost, &name, to, binding, false);
                self.forget_source(vhost, to, &name);
            }
            let to = Destination::Exchange(name);
            for source in exchange.sources {
                self.forget_bindings(vhost, &source, &to);
                if self.is_left_unused(vhost, &source) {
                    going.push(source);
                }
            }
        }
    }

    /// Takes one binding off what a destination is bound to.
    fn forget_source(&mut self, vhost: usize, to: &Destination, source: &Name) {
        let sources = match to {
            Destination::Queue(queue) => {
                self.queues.get_mut(*queue).map(|queue| &mut queue.sources)
            }
            Destination::Exchange(name) => {
                let exchange = self.vhosts[vhost].exchanges.get_mut(name);
                exchange.map(|exchange| &mut exchange.sources)
            }
        };
        if let Some(sources) = sources
            && let Some(at) = sources.iter().position(|other| other == source)
        {
            sources.swap_remove(at);
        }
    }

    /// Removes all bindings of an exchange to a destination that goes, and the exchange if it goes with them.
    pub(super) fn forget_destination(&mut self, vhost: usize, source: &str, to: &Destination) {
        self.forget_bindings(vhost, source, to);
        self.remove_if_unused(vhost, source);
    }

    fn forget_bindings(&mut self, vhost: usize, source: &str, to: &Destination) {
        let exchange = self.vhosts[vhost].exchanges.get_mut(source);
        for binding in exchange
            .map(|exchange| exchange.forget(to))
            .unwrap_or_default()
        {
            self.store_binding(vhost, source, to, &binding, false);
        }
    }

    /// Removes an auto-delete exchange that has lost its last binding.
    pub(super) fn remove_if_unused(&mut self, vhost: usize, name: &str) {
        if self.is_left_unused(vhost, name) {
            self.remove_exchange(vhost, name);
        }
    }

    fn is_left_unused(&self, vhost: usize, name: &str) -> bool {
        let exchange = self.vhosts[vhost].exchanges.get(name);
        exchange.is_some_and(|exchange| {
            exchange.traits.auto_delete && exchange.was_bound && !exchange.is_used()
        })
    }

    /// queue.bind.
    pub(super) fn bind_queue(
        &mut self,
        id: ConnectionId,
        number: u16,
        bind: queue::Bind,
    ) -> Result {
        let queue_id = self.queue_of(id, number, bind.queue.as_str())?;
        // Without a name and a key, the name is the key too.
        let key = match (bind.queue.as_str(), bind.routing_key.as_str()) {
            ("", "") => self
                .queues
                .get(queue_id)
                .map(|queue| queue.name.to_string())
                .unwrap_or_default(),
            (_, key) => key.to_owned(),
        };
        let binding = binding(&key, bind.arguments);
        self.bind(
            id,
            bind.exchange.as_str(),
            &Destination::Queue(queue_id),
            &binding,
        )?;
        if !bind.nowait {
            let ok = queue::AMQPMethod::BindOk(queue::BindOk {});
            self.send(id, number, AMQPClass::Queue(ok));
        }
        Ok(())
    }

    /// queue.unbind. What is not bound, or not there, is no error.
    pub(super) fn unbind_queue(
        &mut self,
        id: ConnectionId,
        number: u16,
        unbind: queue::Unbind,
    ) -> Result {
        match self.queue_of(id, number, unbind.queue.as_str()) {
            Ok(queue) => {
                let binding = binding(unbind.routing_key.as_str(), unbind.arguments);
                self.unbind(
                    id,
                    unbind.exchange.as_str(),
                    &Destination::Queue(queue),
                    &binding,
                )?;
            }
            Err(failure) if failure.code == 404 && !unbind.queue.as_str().is_empty() => {}
            Err(failure) => return Err(failure),
        }
        let ok = queue::AMQPMethod::UnbindOk(queue::UnbindOk {});
        self.send(id, number, AMQPClass::Queue(ok));
        Ok(())
    }

    /// exchange.bind.
    pub(super) fn bind_exchange(
        &mut self,
        id: ConnectionId,
        number: u16,
        bind: exchange::Bind,
    ) -> Result {
        let to = self.exchange_to_bind(id, bind.destination.as_str())?;
        let binding = binding(bind.routing_key.as_str(), bind.arguments);
        self.bind(id, bind.source.as_str(), &to, &binding)?;
        if !bind.nowait {
            let ok = exchange::AMQPMethod::BindOk(exchange::BindOk {});
            self.send(id, number, AMQPClass::Exchange(ok));
        }
        Ok(())
    }

    /// exchange.unbind.
    pub(super) fn unbind_exchange(
        &mut self,
        id: ConnectionId,
        number: u16,
        unbind: exchange::Unbind,
    ) -> Result {
        match self.exchange_to_bind(id, unbind.destination.as_str()) {
            Ok(to) => {
                let binding = binding(unbind.routing_key.as_str(), unbind.arguments);
                self.unbind(id, unbind.source.as_str(), &to, &binding)?;
            }
            Err(failure) if failure.code == 404 => {}
            Err(failure) => return Err(failure),
        }
        if !unbind.nowait {
            let ok = exchange::AMQPMethod::UnbindOk(exchange::UnbindOk {});
            self.send(id, number, AMQPClass::Exchange(ok));
        }
        Ok(())
    }

    fn exchange_to_bind(&self, id: ConnectionId, name: &str) -> Result<Destination> {
        let vhost = &self.vhosts[self.vhost_of(id)];
        if name.is_empty() {
            return Err(default_exchange());
        }
        match vhost.exchanges.get_key_value(name) {
            Some((name, _)) => Ok(Destination::Exchange(name.clone())),
            None => Err(vhost.no_exchange(name)),
        }
    }

    fn bind(
        &mut self,
        id: ConnectionId,
        source: &str,
        to: &Destination,
        binding: &Binding,
    ) -> Result {
        if source.is_empty() {
            return Err(default_exchange());
        }
        let index = self.vhost_of(id);
        let vhost = &self.vhosts[index];
        let Some(exchange) = vhost.exchanges.get(source) else {
            return Err(vhost.no_exchange(source));
        };
        if exchange.traits.kind == Kind::Headers {
            check_match(&binding.arguments)?;
        }
        if self.add_binding(index, source, to, binding) {
            self.store_binding(index, source, to, binding, true);
        }
        Ok(())
    }

    /// Adds a binding where both ends are there. Returns whether it is new.
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

    /// What a destination is bound to.
    fn sources(&mut self, vhost: usize, to: &Destination) -> Option<&mut Vec<Name>> {
        match to {
            Destination::Queue(queue) => Some(&mut self.queues.get_mut(*queue)?.sources),
            Destination::Exchange(name) => {
                Some(&mut self.vhosts[vhost].exchanges.get_mut(name)?.sources)
            }
        }
    }

    fn unbind(
        &mut self,
        id: ConnectionId,
        source: &str,
        to: &Destination,
        binding: &Binding,
    ) -> Result {
        if source.is_empty() {
            return Err(default_exchange());
        }
        let index = self.vhost_of(id);
        let exchange = self.vhosts[index].exchanges.get_mut(source);
        if exchange.is_some_and(|exchange| exchange.unbind(to, binding)) {
            self.topology += 1;
            self.store_binding(index, source, to, binding, false);
            self.forget_source(index, to, &source.into());
            self.remove_if_unused(index, source);
        }
        Ok(())
    }
}

fn default_exchange() -> crate::failure::Failure {
    access_refused("operation not permitted on the default exchange")
}

fn binding(key: &str, arguments: FieldTable) -> Binding {
    Binding {
        key: key.as_bytes().into(),
        arguments,
    }
}

fn check_same(what: &str, received: &Traits, current: &Traits) -> Result {
    same("type", what, received.kind.name(), current.kind.name())?;
    same("durable", what, received.durable, current.durable)?;
    same(
        "auto_delete",
        what,
        received.auto_delete,
        current.auto_delete,
    )?;
    same("internal", what, received.internal, current.internal)?;
    same_argument(
        "alternate-exchange",
        what,
        &received.arguments,
        &current.arguments,
    )
}

/// # Errors
/// 406 for an alternate exchange that is no name.
fn check_alternate(arguments: &FieldTable) -> Result {
    match arguments.inner().get("alternate-exchange") {
        None | Some(AMQPValue::LongString(_)) => Ok(()),
        Some(_) => Err(precondition_failed(
            "invalid type for arg 'alternate-exchange': it must be a string",
        )),
    }
}

/// # Errors
/// 406 for an `x-match` that means nothing.
fn check_match(arguments: &FieldTable) -> Result {
    match arguments.inner().get("x-match") {
        None => Ok(()),
        Some(AMQPValue::LongString(mode))
            if matches!(
                mode.as_bytes(),
                b"all" | b"any" | b"all-with-x" | b"any-with-x"
            ) =>
        {
            Ok(())
        }
        Some(other) => {
            let shown = match other {
                AMQPValue::LongString(text) => text.to_string(),
                other => format!("{other:?}"),
            };
            Err(precondition_failed(format_args!(
                "Invalid x-match field value {shown}; expected all, any, all-with-x or any-with-x"
            )))
        }
    }
}
