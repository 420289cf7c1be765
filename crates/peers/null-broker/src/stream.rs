//! Synthetic messages without end: a batch of deliveries is built once, and then only the varying fields are rewritten.

use load::slots::Id;

use super::{BATCH, Broker, Channel, frames};
use amqp_client::stamp::{self, BodySum, Stamp};

/// Octets of a body.
const BODY: usize = 1024;
/// Octets of `basic.deliver` before the consumer's tag: class, method and the tag's length.
const BEFORE_CONSUMER: usize = 5;

/// The state of one consumer's stream.
#[derive(Debug)]
pub(super) struct Streamed {
    /// Equal deliveries, one after the other.
    frames: Vec<u8>,
    /// Octets of one delivery.
    each: usize,
    /// Offsets of the delivery tag and the stamp in it.
    tag_at: usize,
    stamp_at: usize,
    /// Checksum of the body after the stamp.
    rest: BodySum,
    delivered: u64,
    unacknowledged: u64,
    no_ack: bool,
}

impl Streamed {
    fn new(number: u16, queue: &str, consumer: &str, no_ack: bool) -> Self {
        let mut frames = Vec::new();
        frames::deliver(number, consumer, 0, false, queue, &mut frames);
        let mut header = vec![0, 60, 0, 0];
        header.extend_from_slice(&(BODY as u64).to_be_bytes());
        header.extend_from_slice(&[0, 0]);
        let mut body = [b'x'; BODY];
        // The stamp belongs to the first producer of run 0.
        let stamp = Stamp {
            run: 0,
            stream: stamp::stream(0, true),
            sequence: 0,
            start: 0,
        };
        stamp.write(&mut body);
        frames::content(number, &header, &body, frames::LARGEST, &mut frames);
        let each = frames.len();
        // The body ends one octet before its frame.
        let stamp_at = each - 1 - BODY;
        Self {
            frames: frames.repeat(BATCH / each),
            each,
            tag_at: frames::HEAD + BEFORE_CONSUMER + consumer.len(),
            stamp_at,
            rest: BodySum::new(&body),
            delivered: 0,
            unacknowledged: 0,
            no_ack,
        }
    }

    /// Returns the next deliveries, at most `most`.
    fn next(&mut self, most: u64, now: u64) -> &[u8] {
        let messages = most.min((self.frames.len() / self.each) as u64);
        let octets = messages as usize * self.each;
        for delivery in self.frames[..octets].chunks_exact_mut(self.each) {
            let stamp = Stamp {
                run: 0,
                stream: stamp::stream(0, true),
                sequence: self.delivered,
                start: now,
            };
            self.delivered += 1;
            let (tag_at, stamp_at) = (self.tag_at, self.stamp_at);
            delivery[tag_at..tag_at + 8].copy_from_slice(&self.delivered.to_be_bytes());
            let stamp_bytes = &mut delivery[stamp_at..stamp_at + stamp::BYTES];
            stamp.put(stamp_bytes, &self.rest);
        }
        if !self.no_ack {
            self.unacknowledged += messages;
        }
        &self.frames[..octets]
    }

    /// Settles one delivery, or all up to `tag`: the driver settles in the order of delivery.
    pub(super) fn settled(&mut self, tag: u64, multiple: bool) {
        self.unacknowledged = if multiple {
            self.delivered.saturating_sub(tag)
        } else {
            self.unacknowledged.saturating_sub(1)
        };
    }
}

impl Channel {
    /// Returns how many messages its consumer may be sent.
    fn streams(&self) -> u64 {
        let open = self
            .streamed
            .as_ref()
            .map_or(0, |streamed| streamed.unacknowledged);
        match (&self.consumes, self.prefetch) {
            (None, _) => 0,
            (_, 0) => u64::MAX,
            (_, prefetch) => prefetch.saturating_sub(open),
        }
    }
}

impl Broker {
    /// Returns true if a consumer could be sent more messages.
    pub(super) fn can_stream(&self) -> bool {
        self.peers.iter().any(|(_, peer)| {
            let mut channels = peer.channels.values();
            peer.output.is_empty() && channels.any(|channel| channel.streams() > 0)
        })
    }

    /// Sends each consumer a batch of messages.
    pub(super) fn stream(&mut self, now: u64) {
        let channels = self.peers.iter().flat_map(|(id, peer)| {
            let numbers = peer.channels.keys();
            numbers.map(move |number| (id, *number))
        });
        let channels: Vec<(Id, u16)> = channels.collect();
        for (id, number) in channels {
            self.stream_to(id, number, now);
        }
    }

    fn stream_to(&mut self, id: Id, number: u16, now: u64) {
        let peer = self.peers.get_mut(id);
        let Some(channel) = peer
            .filter(|peer| peer.output.is_empty())
            .and_then(|peer| peer.channels.get_mut(&number))
        else {
            return;
        };
        let (most, streamed) = (channel.streams(), channel.streamed.take());
        let Some((queue, consumer, no_ack)) = &channel.consumes else {
            return;
        };
        let mut streamed =
            streamed.unwrap_or_else(|| Streamed::new(number, queue, consumer, *no_ack));
        if most > 0 {
            self.write(id, streamed.next(most, now));
        }
        if let Some(channel) = self.channel(id, number) {
            channel.streamed = Some(streamed);
        }
    }
}
