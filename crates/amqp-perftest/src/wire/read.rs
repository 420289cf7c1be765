//! Frames read in place: the few that come once a message are taken apart by hand, all others are handed on whole.

use crate::stamp::{self, Stamp};

/// Octets before the payload of a frame: type, channel, size (AMQP 0-9-1, 2.3.5).
const HEAD: usize = 7;
const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const HEARTBEAT: u8 = 8;
const END: u8 = 0xCE;

// Class and method, as in the payload of a method frame.
const BASIC_RETURN: u32 = 60 << 16 | 50;
const BASIC_DELIVER: u32 = 60 << 16 | 60;
const BASIC_GET_OK: u32 = 60 << 16 | 71;
const BASIC_ACK: u32 = 60 << 16 | 80;
const BASIC_NACK: u32 = 60 << 16 | 120;

/// Something that the broker said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A whole message (`basic.deliver` or `basic.get-ok`).
    Delivery {
        /// Its channel.
        channel: u16,
        /// Its delivery tag.
        tag: u64,
        /// Whether it may have been delivered before.
        redelivered: bool,
        /// The stamp of its body, if there is one.
        stamp: Option<Stamp>,
    },
    /// A whole message that no queue took (`basic.return`).
    Returned {
        /// Its channel.
        channel: u16,
        /// The stamp of its body, if there is one.
        stamp: Option<Stamp>,
    },
    /// Messages that the broker has taken, or refused.
    Confirm {
        /// Their channel.
        channel: u16,
        /// The number of the message.
        tag: u64,
        /// Whether all up to it are meant.
        multiple: bool,
        /// Whether they were taken.
        taken: bool,
    },
    /// Any other method: the whole frame, which `amq-protocol` reads.
    Method {
        /// Its channel.
        channel: u16,
        /// The frame.
        frame: &'a [u8],
    },
    /// A heartbeat.
    Heartbeat,
}

/// What is no AMQP, or an order of frames that makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the broker sent something that is no frame of AMQP 0-9-1: {0}")]
pub struct Malformed(&'static str);

/// A message of which not all has come.
#[derive(Debug, Clone, Copy, Default)]
struct Partial {
    kind: Kind,
    tag: u64,
    redelivered: bool,
    /// Octets of the body that have not come.
    remaining: u64,
    /// Whether the beginning of the body has not come.
    fresh: bool,
    stamp: Option<Stamp>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    None,
    Delivery,
    Returned,
}

/// Reads the frames of a connection, in pieces as they come.
#[derive(Debug, Default)]
pub struct Reader {
    /// By channel.
    partial: Vec<Partial>,
    /// Octets of a body's frame, with its end, that are still to come, and its channel.
    skip: u64,
    skipped: u16,
}

impl Reader {
    /// Takes the next event from `input`, and how many octets it took. `None` where more octets are needed than those
    /// that are not yet taken; these, at most a frame without body, are to be presented again with more.
    ///
    /// # Errors
    /// What is no AMQP; nothing that follows can be read.
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Option<Event<'a>>), Malformed> {
        let mut taken = 0;
        loop {
            let rest = &input[taken..];
            if self.skip > 0 {
                let (octets, event) = self.skip(rest)?;
                taken += octets;
                if event.is_some() || octets == 0 {
                    return Ok((taken, event));
                }
                continue;
            }
            if rest.len() < HEAD {
                return Ok((taken, None));
            }
            let channel = u16::from_be_bytes([rest[1], rest[2]]);
            let size = word(&rest[3..]) as usize;
            if rest[0] == BODY {
                let Some(octets) = self.body(channel, size, &rest[HEAD..])? else {
                    return Ok((taken, None));
                };
                taken += HEAD + octets;
                continue;
            }
            let whole = HEAD + size + 1;
            if rest.len() < whole {
                return Ok((taken, None));
            }
            if rest[whole - 1] != END {
                return Err(Malformed("a frame without its end octet"));
            }
            taken += whole;
            let event = self.frame(rest[0], channel, &rest[..whole])?;
            if event.is_some() {
                return Ok((taken, event));
            }
        }
    }

    /// A frame that is there whole, and is no body.
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
            BASIC_RETURN => {
                self.content(channel).kind = Kind::Returned;
            }
            BASIC_ACK | BASIC_NACK => {
                let arguments = arguments.get(..9).ok_or(SHORT)?;
                return Ok(Some(Event::Confirm {
                    channel,
                    tag: long(arguments),
                    multiple: arguments[8] & 1 == 1,
                    taken: method == BASIC_ACK,
                }));
            }
            _ => return Ok(Some(Event::Method { channel, frame })),
        }
        Ok(None)
    }

    /// Both methods go on with the delivery tag and whether it is delivered again.
    fn delivery(&mut self, channel: u16, arguments: &[u8]) -> Result<(), Malformed> {
        let arguments = arguments.get(..9).ok_or(SHORT)?;
        let partial = self.content(channel);
        partial.kind = Kind::Delivery;
        partial.tag = long(arguments);
        partial.redelivered = arguments[8] & 1 == 1;
        Ok(())
    }

    fn content(&mut self, channel: u16) -> &mut Partial {
        let place = usize::from(channel);
        if place >= self.partial.len() {
            self.partial.resize(place + 1, Partial::default());
        }
        &mut self.partial[place]
    }

    fn header<'a>(&mut self, channel: u16, size: u64) -> Result<Option<Event<'a>>, Malformed> {
        let partial = self.content(channel);
        if partial.kind == Kind::None {
            return Err(Malformed("a content header without its method"));
        }
        partial.remaining = size;
        partial.fresh = true;
        partial.stamp = None;
        Ok((size == 0).then(|| finish(channel, partial)))
    }

    /// Begins a frame of a body, whose payload needs not be there whole; how many octets of it were taken. `None` where
    /// its beginning is not there.
    fn body(
        &mut self,
        channel: u16,
        size: usize,
        payload: &[u8],
    ) -> Result<Option<usize>, Malformed> {
        let partial = self.content(channel);
        if partial.kind == Kind::None || (size as u64) > partial.remaining {
            return Err(Malformed("a body that nothing announced"));
        }
        if partial.fresh {
            if payload.len() < size.min(stamp::BYTES) {
                return Ok(None);
            }
            partial.fresh = size == 0;
            partial.stamp = Stamp::read(&payload[..size.min(payload.len())]);
        }
        partial.remaining -= size as u64;
        self.skip = size as u64 + 1;
        self.skipped = channel;
        Ok(Some(0))
    }

    /// Passes over what is left of a body's frame.
    fn skip<'a>(&mut self, input: &[u8]) -> Result<(usize, Option<Event<'a>>), Malformed> {
        let octets = self.skip.min(input.len() as u64) as usize;
        self.skip -= octets as u64;
        if self.skip > 0 {
            return Ok((octets, None));
        }
        if input[octets - 1] != END {
            return Err(Malformed("a body without its end octet"));
        }
        let channel = self.skipped;
        let partial = self.content(channel);
        Ok((
            octets,
            (partial.remaining == 0).then(|| finish(channel, partial)),
        ))
    }
}

const SHORT: Malformed = Malformed("a method without all of its arguments");

fn finish<'a>(channel: u16, partial: &mut Partial) -> Event<'a> {
    let stamp = partial.stamp;
    let kind = std::mem::take(&mut partial.kind);
    if kind == Kind::Returned {
        return Event::Returned { channel, stamp };
    }
    Event::Delivery {
        channel,
        tag: partial.tag,
        redelivered: partial.redelivered,
        stamp,
    }
}

fn word(octets: &[u8]) -> u32 {
    u32::from_be_bytes([octets[0], octets[1], octets[2], octets[3]])
}

fn long(octets: &[u8]) -> u64 {
    u64::from(word(octets)) << 32 | u64::from(word(&octets[4..]))
}
