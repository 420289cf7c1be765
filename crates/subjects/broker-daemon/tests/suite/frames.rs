//! Frames of a client, and their bytes.

use amq_protocol::frame::{AMQPContentHeader, AMQPFrame, gen_frame};
use amq_protocol::protocol::basic::AMQPProperties;
use amq_protocol::protocol::{AMQPClass, basic, channel, connection, exchange, queue};
use amq_protocol::types::{AMQPValue, FieldTable};

pub(crate) fn encode(frames: &[AMQPFrame]) -> Vec<u8> {
    let encoded = frames.iter().map(|frame| {
        let written = gen_frame(frame)(Vec::new().into());
        written.expect("a vector takes every frame").into_inner().0
    });
    encoded.flatten().collect()
}

/// Returns everything that a client sends until it has channel 1, without waiting for answers.
pub(crate) fn greeting(password: &str, vhost: &str) -> Vec<u8> {
    greeting_by("PLAIN", &format!("\0guest\0{password}"), vhost)
}

/// As [`greeting`], with this response of an authentication mechanism.
pub(crate) fn greeting_by(mechanism: &str, response: &str, vhost: &str) -> Vec<u8> {
    let mut capabilities = FieldTable::default();
    for capability in ["connection.blocked", "authentication_failure_close"] {
        capabilities.insert(capability.into(), AMQPValue::Boolean(true));
    }
    let mut client_properties = FieldTable::default();
    client_properties.insert("capabilities".into(), AMQPValue::FieldTable(capabilities));
    let start = connection::StartOk {
        client_properties,
        mechanism: mechanism.into(),
        response: response.into(),
        locale: "en_US".into(),
    };
    let tune = connection::TuneOk {
        channel_max: 10,
        frame_max: 131_072,
        heartbeat: 0,
    };
    let open = connection::Open {
        virtual_host: vhost.into(),
    };
    let of_connection = [
        connection::AMQPMethod::StartOk(start),
        connection::AMQPMethod::TuneOk(tune),
        connection::AMQPMethod::Open(open),
    ];
    let mut frames: Vec<_> = of_connection
        .into_iter()
        .map(|method| AMQPFrame::Method(0, AMQPClass::Connection(method)))
        .collect();
    let open = channel::AMQPMethod::Open(channel::Open {});
    frames.push(AMQPFrame::Method(1, AMQPClass::Channel(open)));
    let mut bytes = b"AMQP\x00\x00\x09\x01".to_vec();
    bytes.extend(encode(&frames));
    bytes
}

pub(crate) fn declare(name: &str) -> AMQPFrame {
    let declare = queue::Declare {
        queue: name.into(),
        ..queue::Declare::default()
    };
    AMQPFrame::Method(1, AMQPClass::Queue(queue::AMQPMethod::Declare(declare)))
}

pub(crate) fn bind(queue: &str, exchange: &str) -> AMQPFrame {
    let bind = queue::Bind {
        queue: queue.into(),
        exchange: exchange.into(),
        nowait: true,
        ..queue::Bind::default()
    };
    AMQPFrame::Method(1, AMQPClass::Queue(queue::AMQPMethod::Bind(bind)))
}

pub(crate) fn declare_exchange(name: &str, kind: &str) -> AMQPFrame {
    let declare = exchange::Declare {
        exchange: name.into(),
        kind: kind.into(),
        ..exchange::Declare::default()
    };
    AMQPFrame::Method(
        1,
        AMQPClass::Exchange(exchange::AMQPMethod::Declare(declare)),
    )
}

pub(crate) fn consume(queue: &str) -> AMQPFrame {
    let consume = basic::Consume {
        queue: queue.into(),
        ..basic::Consume::default()
    };
    AMQPFrame::Method(1, AMQPClass::Basic(basic::AMQPMethod::Consume(consume)))
}

pub(crate) fn publish(exchange: &str, key: &str, body: &[u8]) -> [AMQPFrame; 3] {
    let publish = basic::Publish {
        exchange: exchange.into(),
        routing_key: key.into(),
        ..basic::Publish::default()
    };
    let header = AMQPContentHeader {
        class_id: 60,
        body_size: body.len() as u64,
        properties: AMQPProperties::default(),
    };
    [
        AMQPFrame::Method(1, AMQPClass::Basic(basic::AMQPMethod::Publish(publish))),
        AMQPFrame::Header(1, header),
        AMQPFrame::Body(1, body.to_vec()),
    ]
}
