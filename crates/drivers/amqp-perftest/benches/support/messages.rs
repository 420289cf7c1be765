//! Messages as they are on the wire.

use amq_protocol::protocol::basic::{AMQPProperties, Publish};
use amqp_client::stamp::{Stamp, stream};
use amqp_perftest::engine::wire::Template;

pub(crate) fn stamp(sequence: u64) -> Stamp {
    Stamp {
        run: 1,
        stream: stream(0, true),
        sequence,
        start: 1,
    }
}

pub(crate) fn template(body: &[u8]) -> Template {
    let publish = Publish {
        exchange: "".into(),
        routing_key: "perftest".into(),
        mandatory: false,
        immediate: false,
    };
    Template::new(publish, &AMQPProperties::default(), body, 1, 131_072)
}

/// Returns `basic.deliver` with content header and body: the frames of a publish after another method.
pub(crate) fn delivery(sequence: u64, body: &[u8]) -> Vec<u8> {
    let consumer = b"perftest-0";
    let mut method = vec![0, 60, 0, 60, consumer.len() as u8];
    method.extend_from_slice(consumer);
    method.extend_from_slice(&(sequence + 1).to_be_bytes());
    method.extend_from_slice(b"\0\0\x08perftest");
    let mut frames = vec![1, 0, 1];
    frames.extend_from_slice(&(method.len() as u32).to_be_bytes());
    frames.extend_from_slice(&method);
    frames.push(0xCE);
    let mut published = Vec::new();
    template(body).append(&stamp(sequence), &mut published);
    let method = u32::from_be_bytes([published[3], published[4], published[5], published[6]]);
    frames.extend_from_slice(&published[method as usize + 8..]);
    frames
}
