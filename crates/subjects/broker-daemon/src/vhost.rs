//! A virtual host: exchanges and queues by name, and routing from an address to queues.

use std::collections::HashMap;

use amq_protocol::types::FieldTable;
use amq_protocol::types::parsing::parse_field_table;

use crate::carbon_copies::Key;
use crate::exchange::{Destination, Exchange, ExchangeSettings, Kind, Name, QueueId};
use crate::failure::{Failure, access_refused, not_found};
use crate::frame::is_too_deep;
use crate::message::{Message, Properties};

/// The predeclared exchanges (AMQP 0-9-1, 3.1.3; without amq.rabbitmq.trace).
const PREDECLARED: [(&str, Kind); 6] = [
    ("amq.direct", Kind::Direct),
    ("amq.fanout", Kind::Fanout),
    ("amq.topic", Kind::Topic),
    ("amq.headers", Kind::Headers),
    ("amq.match", Kind::Headers),
    ("", Kind::Direct),
];

/// A virtual host. Its exchanges include the default exchange, so that queries find it; its bindings are the names of
/// the queues.
#[derive(Debug)]
pub(crate) struct Vhost {
    pub(crate) name: Name,
    pub(crate) exchanges: HashMap<Name, Exchange>,
    pub(crate) queues: HashMap<Name, QueueId>,
}

impl Vhost {
    pub(crate) fn new(name: &str) -> Self {
        let exchanges = PREDECLARED.map(|(name, kind)| {
            let settings = ExchangeSettings {
                kind,
                durable: true,
                ..ExchangeSettings::default()
            };
            (Name::from(name), Exchange::new(settings))
        });
        Self {
            name: name.into(),
            exchanges: exchanges.into(),
            queues: HashMap::new(),
        }
    }

    /// Names one of its objects in an error message.
    pub(crate) fn describe(&self, kind: &str, name: &str) -> String {
        format!("{kind} '{name}' in vhost '{}'", self.name)
    }

    pub(crate) fn no_exchange(&self, name: &str) -> Failure {
        not_found(format_args!("no {}", self.describe("exchange", name)))
    }

    pub(crate) fn no_queue(&self, name: &str) -> Failure {
        not_found(format_args!("no {}", self.describe("queue", name)))
    }

    pub(crate) fn queue(&self, name: &str) -> Option<QueueId> {
        self.queues.get(name).copied()
    }

    /// Adds the queues for a message that a client published with these `copies`. Returns true if the route depends on
    /// the address and the copies alone.
    ///
    /// # Errors
    /// 404 for an unknown exchange, 403 for an internal one.
    pub(crate) fn route(
        &self,
        message: &Message,
        copies: &[Key],
        into: &mut Vec<QueueId>,
    ) -> Result<bool, Failure> {
        if message.exchange().is_empty() {
            return Ok(self.route_from("", message, copies, into));
        }
        let name = String::from_utf8_lossy(message.exchange());
        let exchange = self
            .exchanges
            .get(&*name)
            .ok_or_else(|| self.no_exchange(&name))?;
        if exchange.settings.internal {
            return Err(access_refused(format_args!(
                "cannot publish to internal {}",
                self.describe("exchange", &name)
            )));
        }
        Ok(self.route_from(&name, message, copies, into))
    }

    /// Adds the queues that `name` routes to, through other exchanges and alternates. The message's own key and the
    /// keys of its `copies` count at each exchange on the way (RabbitMQ, "Sender-selected Distribution"). An unknown
    /// exchange routes nowhere. Returns true if no headers were read.
    pub(crate) fn route_from(
        &self,
        name: &str,
        message: &Message,
        copies: &[Key],
        into: &mut Vec<QueueId>,
    ) -> bool {
        let copied = copies.iter().map(|key| &**key);
        let keys = std::iter::once(message.routing_key()).chain(copied);
        let queue_named = |key| self.queue(str::from_utf8(key).ok()?);
        let mut by_address = true;
        let mut visited: Vec<&str> = Vec::new();
        let mut next: Vec<&str> = Vec::new();
        match name {
            "" => into.extend(keys.clone().filter_map(queue_named)),
            name => next.push(name),
        }
        while let Some(name) = next.pop() {
            let Some((name, exchange)) = self.exchanges.get_key_value(name) else {
                continue;
            };
            if visited.contains(&&**name) {
                continue;
            }
            visited.push(name);
            by_address &= exchange.settings.kind != Kind::Headers;
            let mut is_routed = false;
            let mut found = |to: &Destination| {
                is_routed = true;
                match to {
                    Destination::Queue(queue) => into.push(*queue),
                    Destination::Exchange(name) => {
                        if let Some((name, _)) = self.exchanges.get_key_value(name) {
                            next.push(name);
                        }
                    }
                }
            };
            for key in keys.clone() {
                exchange.route(key, || headers(message), &mut found);
            }
            if !is_routed && let Some(alternate) = &exchange.alternate {
                next.push(alternate);
            }
        }
        // Each queue once, however many routes lead to it.
        into.sort_unstable();
        into.dedup();
        by_address
    }
}

/// Returns the headers of a message; empty if they cannot be read.
pub(crate) fn headers(message: &Message) -> FieldTable {
    let found = Properties::scan(message.properties()).ok();
    let bytes = found.and_then(|properties| properties.headers);
    let readable = bytes.filter(|bytes| !is_too_deep(bytes));
    let parsed = readable.and_then(|bytes| parse_field_table(bytes).ok());
    parsed.map_or_else(FieldTable::default, |(_, table)| table)
}
