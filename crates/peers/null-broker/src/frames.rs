//! Reading and writing of frames for the null broker.

use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::{AMQPClass, connection};

use amqp_client::frame::encode;

/// Length of type, channel and size.
pub(super) const HEAD: usize = 7;
const END: u8 = 0xCE;

/// A message being published.
#[derive(Debug)]
pub(super) struct Publish {
    pub(super) exchange: String,
    pub(super) routing_key: String,
    pub(super) mandatory: bool,
    /// The payload of the content header: class, weight, size of the body, properties.
    pub(super) header: Vec<u8>,
    pub(super) body: Vec<u8>,
    pub(super) remaining: u64,
}

/// Returns the first frame if it is complete.
pub(super) fn whole(octets: &[u8]) -> Option<&[u8]> {
    let size = octets.get(3..HEAD)?;
    let size = u32::from_be_bytes([size[0], size[1], size[2], size[3]]) as usize;
    octets.get(..HEAD + size + 1)
}

pub(super) fn channel(frame: &[u8]) -> u16 {
    u16::from_be_bytes([frame[1], frame[2]])
}

pub(super) fn payload(frame: &[u8]) -> &[u8] {
    &frame[HEAD..frame.len() - 1]
}

/// Parses the arguments of `basic.publish` (60, 40) from its payload.
pub(super) fn publish(payload: &[u8]) -> Option<Publish> {
    let (exchange, rest) = short(payload.get(6..)?)?;
    let (routing_key, rest) = short(rest)?;
    Some(Publish {
        exchange: exchange.to_owned(),
        routing_key: routing_key.to_owned(),
        mandatory: rest.first()? & 1 == 1,
        header: Vec::new(),
        body: Vec::new(),
        remaining: 0,
    })
}

fn short(octets: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = octets.split_first()?;
    let (text, rest) = rest.split_at_checked(usize::from(*length))?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

/// Appends a frame of this type.
pub(super) fn frame(kind: u8, channel: u16, payload: &[u8], output: &mut Vec<u8>) {
    output.push(kind);
    output.extend_from_slice(&channel.to_be_bytes());
    output.extend_from_slice(&(payload.len() as u32).to_be_bytes());
    output.extend_from_slice(payload);
    output.push(END);
}

/// The largest payload that every peer accepts.
pub(super) const LARGEST: usize = 131_072 - HEAD - 1;

/// Appends content header and body, in frames of at most `largest` octets of payload.
pub(super) fn content(
    channel: u16,
    header: &[u8],
    body: &[u8],
    largest: usize,
    output: &mut Vec<u8>,
) {
    frame(2, channel, header, output);
    for piece in body.chunks(largest) {
        frame(3, channel, piece, output);
    }
}

/// Appends `basic.deliver` (60, 60) from the default exchange.
pub(super) fn deliver(
    channel: u16,
    consumer: &str,
    tag: u64,
    redelivered: bool,
    routing_key: &str,
    output: &mut Vec<u8>,
) {
    let mut payload = Vec::with_capacity(64);
    payload.extend_from_slice(&[0, 60, 0, 60]);
    text(consumer, &mut payload);
    payload.extend_from_slice(&tag.to_be_bytes());
    payload.push(u8::from(redelivered));
    text("", &mut payload);
    text(routing_key, &mut payload);
    frame(1, channel, &payload, output);
}

fn text(text: &str, output: &mut Vec<u8>) {
    output.push(text.len() as u8);
    output.extend_from_slice(text.as_bytes());
}

/// Appends `basic.ack` (60, 80) of all messages up to `tag`, or `basic.nack` (60, 120) of one.
pub(super) fn confirm(channel: u16, tag: u64, taken: bool, output: &mut Vec<u8>) {
    let mut payload = [0; 13];
    payload[1] = 60;
    payload[3] = if taken { 80 } else { 120 };
    payload[4..12].copy_from_slice(&tag.to_be_bytes());
    payload[12] = u8::from(taken);
    frame(1, channel, &payload, output);
}

/// Returns `connection.start`.
pub(super) fn start() -> Vec<u8> {
    connection(connection::AMQPMethod::Start(connection::Start {
        version_major: 0,
        version_minor: 9,
        server_properties: amq_protocol::types::FieldTable::default(),
        mechanisms: "PLAIN".into(),
        locales: "en_US".into(),
    }))
}

/// Returns a heartbeat.
pub(super) fn heartbeat() -> Vec<u8> {
    encode(&AMQPFrame::Heartbeat)
}

/// Returns `connection.unblocked`.
pub(super) fn unblocked() -> Vec<u8> {
    connection(connection::AMQPMethod::Unblocked(connection::Unblocked {}))
}

/// Returns `connection.blocked`.
pub(super) fn blocked() -> Vec<u8> {
    let reason = "the script says so".into();
    connection(connection::AMQPMethod::Blocked(connection::Blocked {
        reason,
    }))
}

/// Returns a method of the connection.
pub(super) fn connection(method: connection::AMQPMethod) -> Vec<u8> {
    encode(&AMQPFrame::Method(0, AMQPClass::Connection(method)))
}
