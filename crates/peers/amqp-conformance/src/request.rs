//! Methods with the fields that most cases set.

use amq_protocol::protocol::{basic, exchange, queue};
use amq_protocol::types::AMQPValue;

use super::method::Method as _;
use super::values::{table, text};

/// Returns `queue.declare` with a name and no options.
pub(super) fn named(queue: &str) -> queue::Declare {
    queue::Declare {
        queue: queue.into(),
        ..queue::Declare::default()
    }
}

/// Returns a passive `queue.declare`.
pub(super) fn passive(queue: &str) -> queue::Declare {
    named(queue).with(|declare| declare.passive = true)
}

/// Returns `queue.delete` of a queue that may be in use and hold messages.
pub(super) fn deletion(queue: &str) -> queue::Delete {
    queue::Delete {
        queue: queue.into(),
        ..queue::Delete::default()
    }
}

pub(super) fn purging(queue: &str) -> queue::Purge {
    queue::Purge {
        queue: queue.into(),
        nowait: false,
    }
}

pub(super) fn binding(queue: &str, exchange: &str, key: &str) -> queue::Bind {
    queue::Bind {
        queue: queue.into(),
        exchange: exchange.into(),
        routing_key: key.into(),
        ..queue::Bind::default()
    }
}

pub(super) fn unbinding(queue: &str, exchange: &str, key: &str) -> queue::Unbind {
    queue::Unbind {
        queue: queue.into(),
        exchange: exchange.into(),
        routing_key: key.into(),
        ..queue::Unbind::default()
    }
}

pub(super) fn exchange_of(exchange: &str, kind: &str) -> exchange::Declare {
    exchange::Declare {
        exchange: exchange.into(),
        kind: kind.into(),
        ..exchange::Declare::default()
    }
}

/// Returns `exchange.delete` of an exchange that may be in use.
pub(super) fn exchange_deletion(exchange: &str) -> exchange::Delete {
    exchange::Delete {
        exchange: exchange.into(),
        ..exchange::Delete::default()
    }
}

/// Returns `exchange.delete` that is refused while the exchange is in use.
pub(super) fn unused_deletion(exchange: &str) -> exchange::Delete {
    exchange_deletion(exchange).with(|delete| delete.if_unused = true)
}

pub(super) fn exchange_binding(destination: &str, source: &str, key: &str) -> exchange::Bind {
    exchange::Bind {
        destination: destination.into(),
        source: source.into(),
        routing_key: key.into(),
        ..exchange::Bind::default()
    }
}

pub(super) fn exchange_unbinding(destination: &str, source: &str, key: &str) -> exchange::Unbind {
    exchange::Unbind {
        destination: destination.into(),
        source: source.into(),
        routing_key: key.into(),
        ..exchange::Unbind::default()
    }
}

/// Makes an exchange pass what it does not route to another.
pub(super) fn alternate_to(exchange: &str) -> impl FnOnce(&mut exchange::Declare) {
    let arguments = table(&[("alternate-exchange", text(exchange))]);
    move |declare| declare.arguments = arguments
}

/// Returns the arguments of a queue whose dead letters go to another queue.
pub(super) fn dead_letters_to(queue: &str) -> [(&'static str, AMQPValue); 2] {
    [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text(queue)),
    ]
}

pub(super) fn publishing(exchange: &str, key: &str) -> basic::Publish {
    basic::Publish {
        exchange: exchange.into(),
        routing_key: key.into(),
        ..basic::Publish::default()
    }
}

/// Returns `basic.publish` through the default exchange.
pub(super) fn to_queue(queue: &str) -> basic::Publish {
    publishing("", queue)
}

pub(super) fn consumer(queue: &str) -> basic::Consume {
    basic::Consume {
        queue: queue.into(),
        ..basic::Consume::default()
    }
}

/// Returns `basic.consume` without acknowledgements.
pub(super) fn no_ack_consumer(queue: &str) -> basic::Consume {
    consumer(queue).with(|consume| consume.no_ack = true)
}

pub(super) fn ack(delivery_tag: u64, multiple: bool) -> basic::Ack {
    basic::Ack {
        delivery_tag,
        multiple,
    }
}

/// Returns `basic.consume` for one consumer alone.
pub(super) fn exclusive_consumer(queue: &str) -> basic::Consume {
    consumer(queue).with(|consume| consume.exclusive = true)
}

/// Returns `basic.get` without an acknowledgement.
pub(super) fn getting(queue: &str) -> basic::Get {
    basic::Get {
        queue: queue.into(),
        no_ack: true,
    }
}
