//! What recovery hands over: the meta and the messages.

use std::path::PathBuf;

use super::format::Publish;
use super::index::Holders;

/// What a folder held when it was opened.
#[derive(Debug)]
pub struct Recovered {
    /// What was put and not deleted, by key.
    pub meta: Vec<(String, Vec<u8>)>,
    /// Every message that some queue holds, once, in the order of publication.
    pub messages: Vec<Stored>,
    /// Bytes at the end of the log that a crash left of writes which had not been synced. They were cut off.
    pub cut_bytes: u64,
    /// The newest segment, where its file was empty. It was removed.
    pub empty: Option<PathBuf>,
}

/// A message that was read.
#[derive(Debug)]
pub struct Stored {
    /// As [`Log::publish`](super::Log::publish) returned it.
    pub id: u64,
    /// When it was published, in milliseconds since 1970.
    pub published_ms: u64,
    pub(super) holders: Holders,
    parts: Parts,
}

/// The parts of a message, one behind the other in memory of its own: what it was read with is not kept for it.
#[derive(Debug)]
pub struct Parts {
    /// Exchange and routing key, each behind its length as a short string of AMQP; the payload of the content header;
    /// the body.
    pub data: Box<[u8]>,
    /// Where the payload of the content header begins.
    pub address: usize,
    /// Where the body begins.
    pub head: usize,
}

impl Stored {
    /// From a record and its content.
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
            holders: Holders::of(&[]),
            parts: Parts {
                data: data.into_boxed_slice(),
                address,
                head,
            },
        }
    }

    /// The queues that hold it: those that it was published to and not settled in. Never empty.
    pub fn queues(&self) -> &[u32] {
        self.holders.as_slice()
    }

    fn names(&self) -> (&[u8], &[u8]) {
        let names = &self.parts.data[1..self.parts.address];
        let (exchange, rest) = names.split_at(usize::from(self.parts.data[0]));
        (exchange, &rest[1..])
    }

    /// The exchange that it was published to.
    pub fn exchange(&self) -> &[u8] {
        self.names().0
    }

    /// The routing key that it was published with.
    pub fn routing_key(&self) -> &[u8] {
        self.names().1
    }

    /// The payload of its content header.
    pub fn properties(&self) -> &[u8] {
        &self.parts.data[self.parts.address..self.parts.head]
    }

    /// Its body.
    pub fn body(&self) -> &[u8] {
        &self.parts.data[self.parts.head..]
    }

    /// All of it, to keep.
    #[must_use]
    pub fn into_parts(self) -> Parts {
        self.parts
    }
}
