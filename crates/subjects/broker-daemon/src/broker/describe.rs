//! Descriptions of the broker's objects, with the names of RabbitMQ's management API. Nothing here changes the state,
//! and each call is short: lists are built one object at a time, with the turns of clients in between.

use std::fmt::Write as _;
use std::net::SocketAddr;

use amq_protocol::types::{AMQPValue, FieldTable};
use serde_json::{Value, json};

use super::Broker;
use super::handshake::check_login;
use crate::counts::Gauges;
use crate::exchange::QueueId;
use crate::queue::{Queue, integer};

/// The node name shown to tools.
pub(crate) const NODE: &str = "broker-daemon@localhost";

impl Broker {
    /// Returns true if a user may query the API, by the rules for AMQP clients. Counts refused logins.
    pub(crate) fn may_ask(&mut self, login: &(String, String), peer: SocketAddr) -> bool {
        let may = check_login(&self.config, login, Some(peer)).is_ok();
        self.counts.logins_refused += u64::from(!may);
        may
    }

    /// Returns why the broker cannot do its work until it is started again.
    pub(crate) fn problem(&self) -> Option<String> {
        let problem = "the disk failed: nothing is stored until the broker is started again";
        self.store.has_failed().then(|| problem.to_owned())
    }

    /// Returns the alarms in effect.
    pub(crate) fn alarms(&self) -> Vec<&'static str> {
        let alarms = [
            ("memory", self.memory.is_short()),
            ("disk", self.store.is_out()),
        ];
        let active = alarms.into_iter().filter(|(_, is_active)| *is_active);
        active.map(|(resource, _)| resource).collect()
    }

    /// Returns the queues of one virtual host, or all.
    pub(crate) fn queue_ids(&self, vhost: Option<usize>) -> Vec<QueueId> {
        match vhost {
            Some(vhost) => self
                .topology
                .vhost(vhost)
                .queues
                .values()
                .copied()
                .collect(),
            None => self.topology.queues().map(|(id, _)| id).collect(),
        }
    }

    pub(crate) fn queue_id(&self, vhost: usize, name: &str) -> Option<QueueId> {
        self.topology.vhost(vhost).queue(name)
    }

    pub(crate) fn describe_queue(&self, id: QueueId) -> Option<Value> {
        let queue = self.topology.queue(id)?;
        let counts = queue.counts();
        Some(json!({
            "name": &*queue.name,
            "vhost": &*self.topology.vhost(queue.vhost).name,
            "durable": queue.settings.durable,
            "auto_delete": queue.settings.auto_delete,
            "arguments": from_table(&queue.settings.arguments),
            "exclusive": queue.owner.is_some(),
            "type": "classic",
            "state": "running",
            "node": NODE,
            "policy": null,
            "operator_policy": null,
            "effective_policy_definition": {},
            "messages": queue.len() + counts.unacked,
            "messages_ready": queue.len(),
            "messages_unacknowledged": counts.unacked,
            "consumers": queue.consumer_count(),
            "message_stats": {
                "publish": counts.published,
                "deliver_get": counts.delivered + counts.got,
                "deliver": counts.delivered,
                "get": counts.got,
                "ack": counts.acked,
            },
        }))
    }

    /// Returns the values of the gauges.
    pub(crate) fn gauges(&self) -> Gauges {
        let connections = || self.connections.iter().map(|(_, connection)| connection);
        let queues = || self.topology.queues().map(|(_, queue)| queue);
        let exchanges = self
            .topology
            .vhosts()
            .iter()
            .map(|vhost| vhost.exchanges.len());
        let channels = connections().map(|connection| connection.channels().count());
        let backlog = connections().map(|connection| connection.backlog().len());
        let ready = queues().map(Queue::len);
        let unacked = queues().map(|queue| queue.counts().unacked);
        Gauges {
            connections: self.connections.len() as u64,
            channels: channels.sum::<usize>() as u64,
            consumers: self.topology.consumer_count() as u64,
            exchanges: exchanges.sum::<usize>() as u64,
            queues: self.topology.queue_count() as u64,
            messages_ready: ready.sum::<usize>() as u64,
            messages_unacked: unacked.sum::<usize>() as u64,
            memory_bytes: self.memory.meter.get() as u64,
            memory_limit_bytes: self.config.memory_limit as u64,
            backlog_bytes: backlog.sum::<usize>() as u64,
            publishers_blocked: self.memory.is_short().into(),
            disk_bytes: self.store.disk_bytes(),
            disk_out: self.store.is_out().into(),
        }
    }

    /// Appends the samples of a queue, one to each text, in the order of [`QUEUE_METRICS`].
    pub(crate) fn write_samples(&self, id: QueueId, texts: &mut [String]) {
        let Some(queue) = self.topology.queue(id) else {
            return;
        };
        let vhost = label(&self.topology.vhost(queue.vhost).name);
        let name = label(&queue.name);
        for (text, (metric, _, _, value)) in texts.iter_mut().zip(QUEUE_METRICS) {
            let value = value(queue);
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                r#"{metric}{{vhost="{vhost}",queue="{name}"}} {value}"#
            );
        }
    }
}

/// A metric of a queue: name, type, help and value.
type QueueMetric = (&'static str, &'static str, &'static str, fn(&Queue) -> u64);

/// The metrics of each queue.
pub(crate) const QUEUE_METRICS: [QueueMetric; 6] = [
    (
        "broker_queue_messages_ready",
        "gauge",
        "Messages ready in the queue.",
        |queue| queue.len() as u64,
    ),
    (
        "broker_queue_messages_unacked",
        "gauge",
        "Messages of the queue that were delivered and are not settled.",
        |queue| queue.counts().unacked as u64,
    ),
    (
        "broker_queue_consumers",
        "gauge",
        "Consumers of the queue.",
        |queue| queue.consumer_count() as u64,
    ),
    (
        "broker_queue_messages_published_total",
        "counter",
        "Messages that entered the queue, including dead letters.",
        |queue| queue.counts().published,
    ),
    (
        "broker_queue_messages_delivered_total",
        "counter",
        "Messages of the queue that were sent to consumers or by basic.get.",
        |queue| queue.counts().delivered + queue.counts().got,
    ),
    (
        "broker_queue_messages_acked_total",
        "counter",
        "Deliveries of the queue that were acknowledged.",
        |queue| queue.counts().acked,
    ),
];

/// Escapes the value of a label (Prometheus text format 0.0.4).
fn label(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// Converts the arguments of a declaration or a binding to an object.
fn from_table(table: &FieldTable) -> Value {
    let fields = table.inner().iter();
    fields
        .map(|(name, value)| (name.as_str(), from_value(value)))
        .collect()
}

fn from_value(value: &AMQPValue) -> Value {
    match value {
        AMQPValue::Boolean(flag) => (*flag).into(),
        AMQPValue::LongString(text) => String::from_utf8_lossy(text.as_bytes()).into(),
        AMQPValue::ShortString(text) => text.as_str().into(),
        AMQPValue::FieldTable(table) => from_table(table),
        AMQPValue::FieldArray(array) => array.as_slice().iter().map(from_value).collect(),
        // JSON has neither infinity nor NaN: both become null.
        AMQPValue::Float(number) => f64::from(*number).into(),
        AMQPValue::Double(number) => (*number).into(),
        AMQPValue::DecimalValue(decimal) => {
            (f64::from(decimal.value) / 10_f64.powi(decimal.scale.into())).into()
        }
        AMQPValue::ByteArray(bytes) => String::from_utf8_lossy(bytes.as_slice()).into(),
        AMQPValue::Timestamp(number) => (*number).into(),
        AMQPValue::Void => Value::Null,
        number => integer(number).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_arguments_keep_their_types() {
        let mut table = FieldTable::default();
        table.insert("n".into(), AMQPValue::LongInt(-3));
        table.insert("t".into(), AMQPValue::LongString("a\"b\\c\n\u{1}é".into()));
        table.insert("v".into(), AMQPValue::Void);
        table.insert("x".into(), AMQPValue::Double(f64::NAN));
        assert_eq!(
            from_table(&table).to_string(),
            r#"{"n":-3,"t":"a\"b\\c\n\u0001é","v":null,"x":null}"#
        );
    }
}
