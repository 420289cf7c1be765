//! Frames read in place: the few that come with every message are parsed by hand, all others are passed on whole.

use crate::roles::publisher::Confirm;
use crate::roles::worker::ReceivedMessage;
use amqp_client::stamp::{self, BodySum, Stamp, StampHead};

/// Octets before the payload of a frame: type, channel, size (AMQP 0-9-1, 2.3.5).
const HEAD: usize = 7;
/// Maximum payload of a non-body frame: far above what brokers negotiate, and small enough to keep.
const LARGEST: usize = 16 << 20;
const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const HEARTBEAT: u8 = 8;
const END: u8 = 0xCE;

// Class and method, as in the payload of a method frame.
const BASIC_RETURN: u32 = 60 << 16 | 50;
const BASIC_DELIVER: u32 = 60 << 16 | 60;
const BASIC_GET_OK: u32 = 60 << 16 | 71;
const BASIC_GET_EMPTY: u32 = 60 << 16 | 72;
const BASIC_ACK: u32 = 60 << 16 | 80;
const BASIC_NACK: u32 = 60 << 16 | 120;

/// An event read from the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A whole message (`basic.deliver` or `basic.get-ok`).
    Delivery(ReceivedMessage),
    /// A complete unroutable message (`basic.return`), with the stamp of its body, if there is one.
    Returned(Option<Stamp>),
    /// Messages that the broker has accepted, or refused.
    Confirm(Confirm),
    /// A `basic.get` found no message (`basic.get-empty`).
    Empty,
    /// Any other method: the whole frame, which `amq-protocol` reads.
    Method(&'a [u8]),
    /// A heartbeat.
    Heartbeat,
}

/// An event, after the number of its channel.
type ChannelEvent<'a> = (u16, Event<'a>);

/// Data that is not AMQP, or frames in an impossible order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the broker sent data that is not a valid AMQP 0-9-1 frame: {0}")]
pub struct Malformed(&'static str);

#[derive(Debug, Clone, Copy, Default)]
struct Partial {
    kind: Kind,
    tag: u64,
    redelivered: bool,
    /// Octets of the body still to come.
    remaining: u64,
    /// True until the beginning of the body has come.
    fresh: bool,
    beginning: Option<StampHead>,
    /// Octets of the stamp still to be skipped, and the checksum of the octets after it.
    of_stamp: usize,
    rest: BodySum,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    None,
    Delivery,
    Returned,
}

/// A reader for the frames of a connection; it accepts them in pieces.
#[derive(Debug)]
pub struct Reader {
    /// Maximum payload.
    largest: usize,
    partial: Vec<Partial>,
    /// Octets of a body frame, including its end octet, still to come, and its channel.
    skip: u64,
    skipped: u16,
}

impl Default for Reader {
    /// Returns a reader of a connection without a frame limit.
    fn default() -> Self {
        Self::new(0)
    }
}

impl Reader {
    /// Returns a reader for frames of at most `frame_max` octets, 0 for no limit (`connection.tune`).
    #[must_use]
    pub fn new(frame_max: u32) -> Self {
        let largest = (frame_max as usize).checked_sub(HEAD + 1);
        Self {
            largest: largest.unwrap_or(usize::MAX),
            partial: Vec::new(),
            skip: 0,
            skipped: 0,
        }
    }

    /// Parses the next event from `input`, with its channel; also returns how many octets it consumed. Returns `None` if
    /// more octets are needed. The unconsumed ones, at most a frame without body, must then be presented again with more.
    ///
    /// # Errors
    /// Data that is not AMQP; nothing after it can be read.
    pub fn next<'a>(
        &mut self,
        input: &'a [u8],
    ) -> Result<(usize, Option<ChannelEvent<'a>>), Malformed> {
        let mut taken = 0;
        loop {
            let rest = &input[taken..];
            if self.skip > 0 {
                let (octets, event) = self.skip(rest)?;
                taken += octets;
                if event.is_some() || octets == 0 {
                    return Ok((taken, event.map(|event| (self.skipped, event))));
                }
                continue;
            }
            if rest.len() < HEAD {
                return Ok((taken, None));
            }
            let channel = u16::from_be_bytes([rest[1], rest[2]]);
            let size = word(&rest[3..]) as usize;
            if size > self.largest {
                return Err(LARGE);
            }
            if rest[0] == BODY {
                let Some(octets) = self.body(channel, size, &rest[HEAD..])? else {
                    return Ok((taken, None));
                };
                taken += HEAD + octets;
                continue;
            }
            if size > LARGEST {
                return Err(LARGE);
            }
            let whole = HEAD + size + 1;
            if rest.len() < whole {
                return Ok((taken, None));
            }
            if rest[whole - 1] != END {
                return Err(Malformed("a frame has no end octet"));
            }
            taken += whole;
            let event = self.frame(rest[0], channel, &rest[..whole])?;
            if let Some(event) = event {
                return Ok((taken, Some((channel, event))));
            }
        }
    }

    /// Parses a complete frame that is not a body.
    fn frame<'a>(
        &mut self,
        kind: u8,
        channel: u16,
        frame: &'a [u8],
    ) -> Result<Option<Event<'a>>, Malformed> {
        let payload = &frame[HEAD..frame.len() - 1];
        match kind {
            METHOD if payload.len() >= 4 => self.method(channel, payload, frame),
            HEADER if payload.len() >= 12 => self.header(channel, long(&payload[4..])),
            HEARTBEAT => Ok(Some(Event::Heartbeat)),
            _ => Err(Malformed("a frame of an unknown type")),
        }
    }

    fn method<'a>(
        &mut self,
        channel: u16,
        payload: &[u8],
        frame: &'a [u8],
    ) -> Result<Option<Event<'a>>, Malformed> {
        let arguments = &payload[4..];
        let method = word(payload);
        match method {
            BASIC_DELIVER => {
                let tag = 1 + usize::from(*arguments.first().ok_or(SHORT)?);
                self.delivery(channel, arguments.get(tag..).ok_or(SHORT)?)?;
            }
            BASIC_GET_OK => self.delivery(channel, arguments)?,
            BASIC_GET_EMPTY => return Ok(Some(Event::Empty)),
            BASIC_RETURN => {
                self.content(channel).kind = Kind::Returned;
            }
            BASIC_ACK | BASIC_NACK => {
                let arguments = arguments.get(..9).ok_or(SHORT)?;
                return Ok(Some(Event::Confirm(Confirm {
                    tag: long(arguments),
                    multiple: arguments[8] & 1 == 1,
                    accepted: method == BASIC_ACK,
                })));
            }
            _ => return Ok(Some(Event::Method(frame))),
        }
        Ok(None)
    }

    /// Parses the delivery tag and the redelivered flag, which follow in both methods.
    fn delivery(&mut self, channel: u16, arguments: &[u8]) -> Result<(), Malformed> {
        let arguments = arguments.get(..9).ok_or(SHORT)?;
        let partial = self.content(channel);
        partial.kind = Kind::Delivery;
        partial.tag = long(arguments);
        partial.redelivered = arguments[8] & 1 == 1;
        Ok(())
    }

    fn content(&mut self, channel: u16) -> &mut Partial {
        let index = usize::from(channel);
        if index >= self.partial.len() {
            self.partial.resize(index + 1, Partial::default());
        }
        &mut self.partial[index]
    }

    fn header<'a>(&mut self, channel: u16, size: u64) -> Result<Option<Event<'a>>, Malformed> {
        let partial = self.content(channel);
        if partial.kind == Kind::None {
            return Err(Malformed("a content header has no method before it"));
        }
        partial.remaining = size;
        partial.fresh = true;
        partial.beginning = None;
        Ok((size == 0).then(|| finish(partial)))
    }

    /// Begins a body frame, whose payload may be incomplete. Returns how many octets of it were consumed, or `None` if
    /// its beginning is not there.
    fn body(
        &mut self,
        channel: u16,
        size: usize,
        payload: &[u8],
    ) -> Result<Option<usize>, Malformed> {
        let partial = self.content(channel);
        if partial.kind == Kind::None || (size as u64) > partial.remaining {
            return Err(Malformed("a body has no content header before it"));
        }
        if partial.fresh {
            if payload.len() < size.min(stamp::BYTES) {
                return Ok(None);
            }
            partial.fresh = size == 0;
            partial.beginning = StampHead::read(&payload[..size.min(payload.len())]);
            partial.of_stamp = stamp::BYTES;
            partial.rest = BodySum::default();
        }
        partial.remaining -= size as u64;
        self.skip = size as u64 + 1;
        self.skipped = channel;
        Ok(Some(0))
    }

    /// Skips the rest of a body frame and adds it to the checksum.
    fn skip<'a>(&mut self, input: &[u8]) -> Result<(usize, Option<Event<'a>>), Malformed> {
        let octets = self.skip.min(input.len() as u64) as usize;
        self.skip -= octets as u64;
        let ends = self.skip == 0;
        let partial = self.content(self.skipped);
        if partial.beginning.is_some() {
            let piece = &input[..octets - usize::from(ends)];
            let of_stamp = partial.of_stamp.min(piece.len());
            partial.of_stamp -= of_stamp;
            partial.rest.add(&piece[of_stamp..]);
        }
        if !ends {
            return Ok((octets, None));
        }
        if input[octets - 1] != END {
            return Err(Malformed("a body frame has no end octet"));
        }
        let is_whole = partial.remaining == 0;
        Ok((octets, is_whole.then(|| finish(partial))))
    }
}

const LARGE: Malformed = Malformed("a frame is larger than negotiated");
const SHORT: Malformed = Malformed("a method lacks some of its arguments");

fn finish<'a>(partial: &mut Partial) -> Event<'a> {
    let beginning = partial.beginning;
    let stamp = beginning.map(|beginning| beginning.stamp);
    let is_intact = beginning.is_some_and(|beginning| beginning.is_intact(&partial.rest));
    match std::mem::take(&mut partial.kind) {
        Kind::Returned => Event::Returned(stamp.filter(|_| is_intact)),
        _ => Event::Delivery(ReceivedMessage {
            tag: partial.tag,
            redelivered: partial.redelivered,
            stamp,
            is_intact,
        }),
    }
}

fn word(octets: &[u8]) -> u32 {
    u32::from_be_bytes([octets[0], octets[1], octets[2], octets[3]])
}

fn long(octets: &[u8]) -> u64 {
    u64::from(word(octets)) << 32 | u64::from(word(&octets[4..]))
}

#[cfg(test)]
mod tests {
    use amq_protocol::frame::{AMQPContentHeader, AMQPFrame};
    use amq_protocol::protocol::AMQPClass;
    use amq_protocol::protocol::basic::{AMQPMethod, AMQPProperties, Ack, Cancel, Deliver, Nack};

    use super::*;
    use amqp_client::frame::encode;

    const CHANNEL: u16 = 3;

    fn stamp(sequence: u64) -> Stamp {
        Stamp {
            run: 9,
            stream: 5,
            sequence,
            start: 77,
        }
    }

    fn method(method: AMQPMethod) -> Vec<u8> {
        encode(&AMQPFrame::Method(CHANNEL, AMQPClass::Basic(method)))
    }

    /// Encodes a delivery whose body of `bytes` bytes comes in frames of at most 50.
    fn delivery(tag: u64, bytes: usize) -> Vec<u8> {
        let deliver = Deliver {
            consumer_tag: "somebody".into(),
            delivery_tag: tag,
            redelivered: tag.is_multiple_of(2),
            exchange: "an exchange".into(),
            routing_key: "a key".into(),
        };
        let header = AMQPContentHeader {
            class_id: 60,
            body_size: bytes as u64,
            properties: AMQPProperties::default().with_content_type("text/plain".into()),
        };
        let mut body = vec![0xCE; bytes];
        if bytes >= stamp::BYTES {
            stamp(tag).write(&mut body);
        }
        let mut frames = method(AMQPMethod::Deliver(deliver));
        frames.extend(encode(&AMQPFrame::Header(CHANNEL, header)));
        for piece in body.chunks(50) {
            frames.extend(encode(&AMQPFrame::Body(CHANNEL, piece.to_vec())));
        }
        frames
    }

    /// Describes all events in these octets, presented in pieces of `piece`.
    fn events(octets: &[u8], piece: usize) -> Result<Vec<String>, Malformed> {
        let (mut reader, mut unread, mut seen) = (Reader::default(), Vec::new(), Vec::new());
        for more in octets.chunks(piece) {
            unread.extend_from_slice(more);
            let mut taken = 0;
            loop {
                let (octets, event) = reader.next(&unread[taken..])?;
                taken += octets;
                match event {
                    Some((_, event)) => seen.push(format!("{event:?}")),
                    None => break,
                }
            }
            unread.drain(..taken);
        }
        Ok(seen)
    }

    #[test]
    fn frames_say_the_same_in_whatever_pieces_they_come() {
        let ack = AMQPMethod::Ack(Ack {
            delivery_tag: 8,
            multiple: true,
        });
        let nack = AMQPMethod::Nack(Nack {
            delivery_tag: 9,
            multiple: false,
            requeue: false,
        });
        let cancel = AMQPMethod::Cancel(Cancel {
            consumer_tag: "somebody".into(),
            nowait: true,
        });
        let octets = [
            delivery(1, 28),
            delivery(2, 0),
            method(ack),
            delivery(3, 27),
            delivery(4, 170),
            encode(&AMQPFrame::Heartbeat),
            method(nack),
            method(cancel),
            delivery(5, 1024),
        ]
        .concat();
        let whole = events(&octets, octets.len()).unwrap();
        assert_eq!(whole.len(), 9);
        let fifth = Event::Delivery(ReceivedMessage {
            tag: 5,
            redelivered: false,
            stamp: Some(stamp(5)),
            is_intact: true,
        });
        assert_eq!(whole[8], format!("{fifth:?}"));
        assert!(whole[3].contains("stamp: None") && whole[4].contains("redelivered: true"));
        assert!(whole[2].contains("tag: 8, multiple: true, accepted: true"));
        for piece in 1..300 {
            assert_eq!(
                events(&octets, piece).unwrap(),
                whole,
                "in pieces of {piece}"
            );
        }
    }

    #[test]
    fn a_body_that_is_not_as_it_was_sent_is_told_apart_in_whatever_pieces_it_comes() {
        let octets = delivery(1, 170);
        let mut wrong = octets.clone();
        let in_the_body = wrong.len() - 20;
        wrong[in_the_body] ^= 1;
        for piece in 1..200 {
            let said = [&octets, &wrong].map(|octets| events(octets, piece).unwrap().concat());
            assert!(said[0].contains("is_intact: true"), "{piece}: {said:?}");
            assert!(said[1].contains("is_intact: false"), "{piece}: {said:?}");
        }
    }

    #[test]
    fn malformed_frames_are_named_and_nothing_panics() {
        let octets = delivery(1, 100);
        for index in 0..octets.len() {
            for value in [0, 1, 3, 0xFF] {
                let mut wrong = octets.clone();
                wrong[index] = value;
                // Most of it still is a valid frame: parsing must end in any case.
                let _ = events(&wrong, 64);
            }
        }
        let without_end = [&octets[..octets.len() - 1], &[0]].concat();
        assert!(events(&without_end, 64).is_err());
        assert!(events(b"HTTP/1.1 400 Bad Request\r\n\r\n", 64).is_err());
        let body = encode(&AMQPFrame::Body(CHANNEL, vec![0; 9]));
        assert!(
            events(&body, 64).is_err(),
            "a body has no content header before it"
        );
    }
}
