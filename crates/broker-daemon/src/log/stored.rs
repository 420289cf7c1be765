//! What recovery hands over: the meta and the messages.

use bytes::Bytes;

use super::format::Publish;

/// What a folder held when it was opened.
#[derive(Debug)]
pub struct Recovered {
    /// What was put and not deleted, by key.
    pub meta: Vec<(String, Vec<u8>)>,
    /// Every message that some queue holds, once, in the order of publication.
    pub messages: Vec<Stored>,
    /// Bytes at the end of the log that a crash left of writes which had not been synced. They were cut off.
    pub cut_bytes: u64,
}

/// A message that was read.
#[derive(Debug)]
pub struct Stored {
    /// As [`Log::publish`](super::Log::publish) returned it.
    pub id: u64,
    /// When it was published, in milliseconds since 1970.
    pub published_ms: u64,
    /// The queues that hold it: those that it was published to and not settled in. Never empty.
    pub queues: Vec<u32>,
    /// Its record, a slice of the buffer that it was read into.
    content: Bytes,
    /// Where exchange, routing key, properties and body begin; each ends where the next begins.
    begins: [u32; 4],
}

impl Stored {
    /// From a record and its content.
    pub(super) fn new(publish: &Publish<'_>, content: Bytes) -> Self {
        let mut end = content.len();
        let mut begins = [0; 4];
        for (begin, len) in begins.iter_mut().zip(publish.lengths).rev() {
            end -= len;
            *begin = u32::try_from(end).expect("a record has less than 4 GiB");
        }
        Self {
            id: publish.id,
            published_ms: publish.published_ms,
            queues: Vec::new(),
            content,
            begins,
        }
    }

    /// The exchange that it was published to.
    pub fn exchange(&self) -> &[u8] {
        &self.content[self.begins[0] as usize..self.begins[1] as usize]
    }

    /// The routing key that it was published with.
    pub fn routing_key(&self) -> &[u8] {
        &self.content[self.begins[1] as usize..self.begins[2] as usize]
    }

    /// The payload of its content header: a slice of the buffer that was read, about 1 MiB, which it keeps alive.
    pub fn properties(&self) -> Bytes {
        self.content
            .slice(self.begins[2] as usize..self.begins[3] as usize)
    }

    /// Its body: a slice, as of the properties.
    pub fn body(&self) -> Bytes {
        self.content.slice(self.begins[3] as usize..)
    }
}
