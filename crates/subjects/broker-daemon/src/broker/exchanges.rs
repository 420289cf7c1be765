//! Exchanges: declaration, deletion, and auto-deletion with the last binding (replies as RabbitMQ's).

use amq_protocol::protocol::{AMQPClass, exchange};
use amq_protocol::types::{AMQPValue, FieldTable};

use super::Broker;
use super::queues::{plain_name, same, same_argument};
use crate::channel::ChannelId;
use crate::exchange::{Destination, Exchange, ExchangeSettings, Kind, Name};
use crate::failure::{Failure, Result, access_refused, command_invalid, precondition_failed};

impl Broker {
    pub(super) fn declare_exchange(&mut self, id: ChannelId, declare: exchange::Declare) -> Result {
        let nowait = declare.nowait;
        let name = &*plain_name(declare.exchange.as_str());
        let index = self.vhost_of(id);
        let vhost = self.topology.vhost(index);
        if name.is_empty() {
            return Err(default_exchange());
        }
        let ticket;
        if declare.passive {
            let exchange = vhost.exchanges.get(name);
            ticket = exchange.ok_or_else(|| vhost.no_exchange(name))?.ticket;
        } else {
            let kind = declare.kind.as_str();
            let unknown = || command_invalid(format_args!("unknown exchange type '{kind}'"));
            let kind = Kind::parse(kind).ok_or_else(unknown)?;
            check_alternate(&declare.arguments)?;
            let settings = ExchangeSettings {
                kind,
                durable: declare.durable,
                auto_delete: declare.auto_delete,
                internal: declare.internal,
                arguments: declare.arguments,
            };
            match vhost.exchanges.get(name) {
                Some(existing) => {
                    let what = vhost.describe("exchange", name);
                    check_same(&what, &settings, &existing.settings)?;
                    ticket = existing.ticket;
                }
                None if name.starts_with("amq.") => {
                    return Err(access_refused(format_args!(
                        "exchange name '{name}' contains reserved prefix 'amq.*'"
                    )));
                }
                None => {
                    if settings.durable {
                        self.store.check()?;
                    }
                    ticket = self.store_exchange(index, name, &settings, true);
                    let mut exchange = Exchange::new(settings);
                    exchange.ticket = ticket;
                    self.topology.add_exchange(index, name, exchange);
                }
            }
        }
        let ok = exchange::AMQPMethod::DeclareOk(exchange::DeclareOk {});
        self.answer_unless(nowait, id, ticket, AMQPClass::Exchange(ok))
    }

    /// Handles exchange.delete. A missing exchange is no error.
    pub(super) fn delete_exchange(&mut self, id: ChannelId, delete: &exchange::Delete) -> Result {
        let name = &*plain_name(delete.exchange.as_str());
        let index = self.vhost_of(id);
        let vhost = self.topology.vhost(index);
        if name.is_empty() {
            return Err(default_exchange());
        }
        if name.starts_with("amq.") {
            return Err(access_refused(format_args!(
                "deletion of system {} not allowed",
                vhost.describe("exchange", name)
            )));
        }
        // Even if it is missing: the record of its deletion may still be on its way to the disk.
        let mut ticket = self.store.ticket();
        if let Some(exchange) = vhost.exchanges.get(name) {
            if delete.if_unused && exchange.is_used() {
                let what = vhost.describe("exchange", name);
                return Err(precondition_failed(format_args!("{what} in use")));
            }
            let before = self.store.recorded();
            self.remove_exchange(index, name);
            ticket = self.store.ticket_since(before);
        }
        let ok = exchange::AMQPMethod::DeleteOk(exchange::DeleteOk {});
        self.answer_unless(delete.nowait, id, ticket, AMQPClass::Exchange(ok))
    }

    /// Removes an exchange, and with it every auto-delete exchange that thereby loses its last binding.
    fn remove_exchange(&mut self, vhost: usize, name: &str) {
        self.finish_dead_letters();
        // A list instead of recursion: clients determine the length of such a chain.
        let mut going: Vec<Name> = vec![name.into()];
        while let Some(name) = going.pop() {
            let Some(exchange) = self.topology.remove_exchange(vhost, &name) else {
                continue;
            };
            self.store_exchange(vhost, &name, &exchange.settings, false);
            for (to, binding) in exchange.bindings() {
                self.store_binding(vhost, &name, to, binding, false);
                self.topology.forget_source(vhost, to, &name);
            }
            let to = Destination::Exchange(name);
            for source in self.topology.take_sources(vhost, &to) {
                self.forget_bindings(vhost, &source, &to);
                if self.is_left_unused(vhost, &source) {
                    going.push(source);
                }
            }
        }
    }

    /// Removes all bindings of an exchange to a deleted destination, and the exchange too if it is auto-deleted with
    /// them.
    pub(super) fn forget_destination(&mut self, vhost: usize, source: &str, to: &Destination) {
        self.forget_bindings(vhost, source, to);
        self.remove_if_unused(vhost, source);
    }

    fn forget_bindings(&mut self, vhost: usize, source: &str, to: &Destination) {
        for binding in self.topology.forget_destination(vhost, source, to) {
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
        let exchange = self.topology.vhost(vhost).exchanges.get(name);
        exchange.is_some_and(|exchange| {
            exchange.settings.auto_delete && exchange.was_bound && !exchange.is_used()
        })
    }
}

pub(super) fn default_exchange() -> Failure {
    access_refused("operation not permitted on the default exchange")
}

fn check_same(what: &str, received: &ExchangeSettings, current: &ExchangeSettings) -> Result {
    same("type", what, received.kind.name(), current.kind.name())?;
    for (name, received, current) in [
        ("durable", received.durable, current.durable),
        ("auto_delete", received.auto_delete, current.auto_delete),
        ("internal", received.internal, current.internal),
    ] {
        same(name, what, received, current)?;
    }
    let (received, current) = (&received.arguments, &current.arguments);
    same_argument("alternate-exchange", what, received, current)
}

/// # Errors
/// 406 for an alternate exchange that is not a name.
fn check_alternate(arguments: &FieldTable) -> Result {
    match arguments.inner().get("alternate-exchange") {
        None | Some(AMQPValue::LongString(_)) => Ok(()),
        Some(_) => Err(precondition_failed(
            "invalid type for arg 'alternate-exchange': must be a string",
        )),
    }
}
