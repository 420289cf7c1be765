//! Descriptions of the broker's objects, with the names of RabbitMQ's management API. Nothing here changes the state,
//! and each call is short: lists are built one object at a time, with the turns of clients in between.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::rc::Rc;

use amq_protocol::types::FieldTable;

use super::Broker;
use super::handshake::check_login;
use crate::connection::{Connection, Phase};
use crate::exchange::{Destination, Name, QueueId};
use crate::json::{Json, Value};
use crate::queue::{ConnectionId, ConsumerId, Queue};

/// The node name shown to tools.
pub(crate) const NODE: &str = "broker-daemon@localhost";

/// An exchange, by the index of its virtual host and its name.
pub(crate) type ExchangeId = (usize, Name);

/// A binding with the names of both its ends.
pub(crate) struct NamedBinding {
    pub(crate) vhost: Name,
    pub(crate) source: Name,
    to: Name,
    to_queue: bool,
    key: String,
    arguments: FieldTable,
    /// True if the destination queue is exclusive, and so is deleted with its connection.
    pub(crate) is_exclusive: bool,
}

impl NamedBinding {
    /// Returns the name of the destination queue.
    pub(crate) fn queue(&self) -> Option<&str> {
        self.to_queue.then_some(&*self.to)
    }

    /// Writes the binding: the fields of a definition, or all fields of a list.
    pub(crate) fn write(&self, json: &mut Json, as_definition: bool) {
        json.object(|json| {
            json.field("source", &*self.source);
            json.field("vhost", &*self.vhost);
            json.field("destination", &*self.to);
            let kind = if self.to_queue { "queue" } else { "exchange" };
            json.field("destination_type", kind);
            json.field("routing_key", &*self.key);
            json.key("arguments");
            json.table(&self.arguments);
            if !as_definition {
                json.field("properties_key", &*self.properties_key());
            }
        });
    }

    /// Returns the key that tells bindings between the same two ends apart.
    fn properties_key(&self) -> String {
        let mut key = escape_key(&self.key);
        if !self.arguments.inner().is_empty() {
            let mut arguments = Json::default();
            arguments.table(&self.arguments);
            let sum = crc32c::crc32c(arguments.into_text().as_bytes());
            key.push_str(&format!("~{sum:08x}"));
        }
        if key.is_empty() { "~".to_owned() } else { key }
    }
}

/// Percent-encodes every byte that is not a letter, a digit or one of `-_.`.
fn escape_key(key: &str) -> String {
    let mut escaped = String::with_capacity(key.len());
    for byte in key.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                escaped.push(byte.into());
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

impl Broker {
    /// Returns true if a user may query the API, by the rules for AMQP clients. Counts refused logins.
    pub(crate) fn may_ask(&mut self, login: &(String, String), peer: SocketAddr) -> bool {
        let may = check_login(&self.config.users, login, Some(peer)).is_ok();
        self.counts.logins_refused += u64::from(!may);
        may
    }

    /// Returns the alarms in effect.
    pub(crate) fn alarms(&self) -> Vec<&'static str> {
        let alarms = [("memory", self.is_blocked), ("disk", !self.log_takes)];
        let active = alarms.into_iter().filter(|(_, is_active)| *is_active);
        active.map(|(resource, _)| resource).collect()
    }

    pub(crate) fn vhost_names(&self) -> Vec<Name> {
        self.vhosts
            .iter()
            .map(|vhost| Rc::clone(&vhost.name))
            .collect()
    }

    /// Returns the queues of one virtual host, or all.
    pub(crate) fn queue_ids(&self, vhost: Option<usize>) -> Vec<QueueId> {
        match vhost.and_then(|vhost| self.vhosts.get(vhost)) {
            Some(vhost) => vhost.queues.values().copied().collect(),
            None => self.queues.ids(),
        }
    }

    pub(crate) fn has_queue(&self, id: QueueId) -> bool {
        self.queues.get(id).is_some()
    }

    pub(crate) fn queue_id(&self, vhost: usize, name: &str) -> Option<QueueId> {
        self.vhosts.get(vhost)?.queues.get(name).copied()
    }

    /// Returns the exchanges of one virtual host, or all.
    pub(crate) fn exchange_ids(&self, vhost: Option<usize>) -> Vec<ExchangeId> {
        let all = self.vhosts.iter().enumerate();
        all.filter(|(at, _)| vhost.is_none_or(|vhost| vhost == *at))
            .flat_map(|(at, vhost)| {
                vhost
                    .exchanges
                    .keys()
                    .map(move |name| (at, Rc::clone(name)))
            })
            .collect()
    }

    pub(crate) fn connection_ids(&self) -> Vec<ConnectionId> {
        self.connections.ids()
    }

    pub(crate) fn consumer_ids(&self, id: QueueId) -> Vec<ConsumerId> {
        let queue = self.queues.get(id);
        queue.map_or_else(Vec::new, |queue| queue.consumers.iter().copied().collect())
    }

    /// Writes the fields of a queue.
    pub(crate) fn write_queue(&self, id: QueueId, json: &mut Json) {
        let Some(queue) = self.queues.get(id) else {
            return;
        };
        json.field("name", &*queue.name);
        json.field("vhost", &*self.vhosts[queue.vhost].name);
        json.field("durable", queue.traits.durable);
        json.field("auto_delete", queue.traits.auto_delete);
        json.field("exclusive", queue.owner.is_some());
        json.key("arguments");
        json.table(&queue.traits.arguments);
        json.field("type", "classic");
        json.field("state", "running");
        json.field("node", NODE);
        json.field("policy", Value::Null);
        json.field("operator_policy", Value::Null);
        json.object_field("effective_policy_definition", |_| ());
        json.field("messages", queue.len() + queue.unacked);
        json.field("messages_ready", queue.len());
        json.field("messages_unacknowledged", queue.unacked);
        json.field("consumers", queue.consumers.len());
        json.object_field("message_stats", |json| {
            json.field("publish", queue.published);
            json.field("deliver_get", queue.delivered + queue.got);
            json.field("deliver", queue.delivered);
            json.field("get", queue.got);
            json.field("ack", queue.acked);
        });
    }

    /// Writes the definition of a queue. An exclusive queue has none.
    pub(crate) fn write_queue_definition(&self, id: QueueId, json: &mut Json) {
        let Some(queue) = self.queues.get(id).filter(|queue| queue.owner.is_none()) else {
            return;
        };
        json.object(|json| {
            json.field("name", &*queue.name);
            json.field("vhost", &*self.vhosts[queue.vhost].name);
            json.field("durable", queue.traits.durable);
            json.field("auto_delete", queue.traits.auto_delete);
            json.key("arguments");
            json.table(&queue.traits.arguments);
        });
    }

    pub(crate) fn write_consumer(&self, id: ConsumerId, json: &mut Json) {
        let Some(consumer) = self.consumers.get(id) else {
            return;
        };
        let connection = self.connections.get(consumer.channel.connection);
        json.object(|json| {
            json.field("consumer_tag", consumer.tag());
            json.field("ack_required", !consumer.no_ack);
            json.field("exclusive", consumer.exclusive);
            json.field("prefetch_count", consumer.prefetch);
            json.field("active", true);
            json.field("activity_status", "up");
            json.object_field("channel_details", |json| {
                if let Some(connection) = connection {
                    let name = connection_name(connection);
                    json.field("connection_name", &*name);
                    json.field("name", &*format!("{name} ({})", consumer.channel.number));
                    json.field("number", consumer.channel.number);
                    json.field("node", NODE);
                    json.field("user", &*connection.user);
                }
            });
            if let Some(queue) = self.queues.get(consumer.queue) {
                json.object_field("queue", |json| {
                    json.field("name", &*queue.name);
                    json.field("vhost", &*self.vhosts[queue.vhost].name);
                });
            }
        });
    }

    /// Writes an exchange. Writes nothing if it no longer exists, or if a definition is requested of a predeclared one.
    pub(crate) fn write_exchange(
        &self,
        (vhost, name): &ExchangeId,
        json: &mut Json,
        as_definition: bool,
    ) -> bool {
        let Some(vhost) = self.vhosts.get(*vhost) else {
            return false;
        };
        let Some(exchange) = vhost.exchanges.get(name) else {
            return false;
        };
        if as_definition && (name.is_empty() || name.starts_with("amq.")) {
            return false;
        }
        json.object(|json| {
            json.field("name", &**name);
            json.field("vhost", &*vhost.name);
            json.field("type", exchange.traits.kind.name());
            json.field("durable", exchange.traits.durable);
            json.field("auto_delete", exchange.traits.auto_delete);
            json.field("internal", exchange.traits.internal);
            json.key("arguments");
            json.table(&exchange.traits.arguments);
        });
        true
    }

    /// Returns the bindings of an exchange. Those of the default exchange are the names of the queues.
    pub(crate) fn bindings_of(&self, (vhost, source): &ExchangeId) -> Vec<NamedBinding> {
        let Some(vhost) = self.vhosts.get(*vhost) else {
            return Vec::new();
        };
        let named =
            |to: Name, queue: Option<&Queue>, key: String, arguments: FieldTable| NamedBinding {
                vhost: Rc::clone(&vhost.name),
                source: Rc::clone(source),
                to,
                to_queue: queue.is_some(),
                key,
                arguments,
                is_exclusive: queue.is_some_and(|queue| queue.owner.is_some()),
            };
        if source.is_empty() {
            let queues = vhost.queues.iter();
            return queues
                .map(|(name, id)| {
                    let key = name.to_string();
                    named(
                        Rc::clone(name),
                        self.queues.get(*id),
                        key,
                        FieldTable::default(),
                    )
                })
                .collect();
        }
        let exchange = vhost.exchanges.get(source);
        let bindings = exchange
            .into_iter()
            .flat_map(|exchange| exchange.bindings());
        bindings
            .filter_map(|(to, binding)| {
                let key = String::from_utf8_lossy(&binding.key).into_owned();
                let (to, queue) = match to {
                    Destination::Exchange(name) => (Rc::clone(name), None),
                    Destination::Queue(id) => {
                        let queue = self.queues.get(*id)?;
                        (Rc::clone(&queue.name), Some(queue))
                    }
                };
                Some(named(to, queue, key, binding.arguments.clone()))
            })
            .collect()
    }

    pub(crate) fn write_connection(&self, id: ConnectionId, json: &mut Json) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let state = match connection.phase {
            Phase::Running if connection.is_blocked => "blocked",
            Phase::Running => "running",
            Phase::Header | Phase::Start | Phase::Tune | Phase::Open => "starting",
            Phase::Closing | Phase::Closed => "closing",
        };
        let local = connection
            .socket
            .as_ref()
            .and_then(|socket| socket.local_addr().ok());
        json.object(|json| {
            json.field("name", &*connection_name(connection));
            json.field("vhost", &*self.vhosts[connection.vhost].name);
            json.field("user", &*connection.user);
            json.field("state", state);
            json.field("type", "network");
            json.field("protocol", "AMQP 0-9-1");
            json.field("node", NODE);
            json.field("channels", connection.channels().count());
            json.field("channel_max", connection.channel_max);
            json.field("frame_max", connection.frame_max);
            json.field("timeout", connection.heartbeat);
            json.field("send_pend", connection.output.pending());
            json.field("ssl", false);
            for (host, port, address) in [
                ("peer_host", "peer_port", connection.peer()),
                ("host", "port", local),
            ] {
                if let Some(address) = address {
                    json.field(host, &*address.ip().to_string());
                    json.field(port, address.port());
                }
            }
        });
    }

    /// Writes the counts of `/api/overview`.
    pub(crate) fn write_totals(&self, json: &mut Json) {
        let counts = &self.counts;
        let exchanges = self.vhosts.iter().map(|vhost| vhost.exchanges.len());
        let channels = self
            .connections
            .iter()
            .map(|(_, connection)| connection.channels().count());
        let ready: usize = self.queues.iter().map(|(_, queue)| queue.len()).sum();
        let unacked: usize = self.queues.iter().map(|(_, queue)| queue.unacked).sum();
        json.object_field("message_stats", |json| {
            json.field("publish", counts.messages_published);
            json.field("confirm", counts.messages_confirmed);
            json.field("deliver_get", counts.messages_delivered);
            json.field("redeliver", counts.messages_redelivered);
            json.field("ack", counts.messages_acked);
            json.field("return_unroutable", counts.messages_returned);
        });
        json.object_field("queue_totals", |json| {
            json.field("messages", ready + unacked);
            json.field("messages_ready", ready);
            json.field("messages_unacknowledged", unacked);
        });
        json.object_field("object_totals", |json| {
            json.field("channels", channels.sum::<usize>());
            json.field("connections", self.connections.len());
            json.field("consumers", self.consumers.len());
            json.field("exchanges", exchanges.sum::<usize>());
            json.field("queues", self.queues.len());
        });
    }

    /// Appends the samples of a queue, one to each text, in the order of [`QUEUE_METRICS`].
    pub(crate) fn write_samples(&self, id: QueueId, texts: &mut [String]) {
        let Some(queue) = self.queues.get(id) else {
            return;
        };
        let vhost = label(&self.vhosts[queue.vhost].name);
        let name = label(&queue.name);
        let values = [
            queue.len() as u64,
            queue.unacked as u64,
            queue.consumers.len() as u64,
            queue.published,
            queue.delivered + queue.got,
            queue.acked,
        ];
        for ((text, (metric, ..)), value) in texts.iter_mut().zip(QUEUE_METRICS).zip(values) {
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{metric}{{vhost=\"{vhost}\",queue=\"{name}\"}} {value}"
            );
        }
    }
}

/// The metrics of each queue: name, type and help.
pub(crate) const QUEUE_METRICS: [(&str, &str, &str); 6] = [
    (
        "broker_queue_messages_ready",
        "gauge",
        "Messages ready in the queue.",
    ),
    (
        "broker_queue_messages_unacked",
        "gauge",
        "Messages of the queue that were delivered and are not settled.",
    ),
    ("broker_queue_consumers", "gauge", "Consumers of the queue."),
    (
        "broker_queue_messages_published_total",
        "counter",
        "Messages that entered the queue, including dead letters.",
    ),
    (
        "broker_queue_messages_delivered_total",
        "counter",
        "Messages of the queue that were sent to consumers or by basic.get.",
    ),
    (
        "broker_queue_messages_acked_total",
        "counter",
        "Deliveries of the queue that were acknowledged.",
    ),
];

/// Escapes the value of a label (Prometheus text format 0.0.4).
fn label(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// Names a connection by both of its ends, as RabbitMQ does.
fn connection_name(connection: &Connection) -> String {
    let local = connection
        .socket
        .as_ref()
        .and_then(|socket| socket.local_addr().ok());
    match (connection.peer(), local) {
        (Some(peer), Some(local)) => format!("{peer} -> {local}"),
        _ => "gone".to_owned(),
    }
}
