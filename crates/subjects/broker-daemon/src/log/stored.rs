//! Recovered state: the definitions and the messages.

use std::path::PathBuf;

use super::format::Publish;
use super::index::Holders;
use crate::message::split_address;

/// The content of a folder at the time it was opened.
#[derive(Debug)]
pub struct Recovered {
    /// Stored values by key.
    pub meta: Vec<(String, Vec<u8>)>,
    /// Every message that some queue holds, once, in the order of publication.
    pub messages: Vec<Stored>,
    /// Bytes at the end of the log from writes that had not been synced before a crash. They were truncated.
    pub cut_bytes: u64,
    /// The newest segment, if its file was empty. It was removed.
    pub empty: Option<PathBuf>,
}

/// A recovered message.
#[derive(Debug)]
pub struct Stored {
    /// The id that [`Log::publish`](super::Log::publish) returned.
    pub id: u64,
    /// Publication time, in milliseconds since 1970.
    pub published_ms: u64,
    pub(super) holders: Holders,
    /// Exchange and routing key, each as a short string of AMQP; the payload of the content header; the body. They are
    /// in memory of their own: the read buffer is not kept for it.
    pub data: Box<[u8]>,
    /// Length of the address, after which the payload of the content header begins.
    pub address: usize,
    /// Offset of the body.
    pub head: usize,
}

impl Stored {
    /// Copies the parts out of a record and its content.
    pub(super) fn new(publish: &Publish<'_>, content: &[u8]) -> Self {
        let [exchange, routing_key, properties, body] = publish.lengths;
        let address = 1 + exchange + 1 + routing_key;
        let head = address + properties;
        let parts = &content[content.len() - (head - 2 + body)..];
        let (exchange, parts) = parts.split_at(exchange);
        let (routing_key, rest) = parts.split_at(routing_key);
        let mut data = Vec::with_capacity(head + body);
        for name in [exchange, routing_key] {
            data.push(u8::try_from(name.len()).expect("its length was read from one byte"));
            data.extend_from_slice(name);
        }
        data.extend_from_slice(rest);
        Self {
            id: publish.id,
            published_ms: publish.published_ms,
            holders: Holders::new(&[]),
            data: data.into_boxed_slice(),
            address,
            head,
        }
    }

    /// Returns the queues that hold it: those it was published to and is not settled in. Never empty.
    pub fn queues(&self) -> &[u32] {
        self.holders.as_slice()
    }

    /// Returns the exchange that it was published to.
    pub fn exchange(&self) -> &[u8] {
        split_address(&self.data[..self.address]).0
    }

    /// Returns the routing key that it was published with.
    pub fn routing_key(&self) -> &[u8] {
        split_address(&self.data[..self.address]).1
    }

    /// Returns the payload of its content header.
    pub fn properties(&self) -> &[u8] {
        &self.data[self.address..self.head]
    }

    /// Returns its body.
    pub fn body(&self) -> &[u8] {
        &self.data[self.head..]
    }
}
