//! A message: one buffer shared by all holders, and the facts in its properties that a broker needs.

use std::cell::Cell;
use std::ops::Deref;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::failure::{Failure, frame_error, precondition_failed};

/// Memory of a message besides its bytes: reference counts and allocations.
const OVERHEAD: usize = 160;
/// Memory of a message per queue that it is in: an entry there, with room to grow, or among a channel's unsettled
/// deliveries. A fanout of small messages to 1,000 queues is little else.
const ENTRY: usize = 64;
/// Length of class, weight and body size, which precede the properties in a content header (AMQP 0-9-1, 2.3.5.2).
pub(crate) const HEADER_FIXED: usize = 12;

/// Bytes held by messages.
#[derive(Debug, Default)]
pub(crate) struct Meter(Cell<usize>);

impl Meter {
    pub(crate) fn get(&self) -> usize {
        self.0.get()
    }
}

/// Bytes that are accounted for as long as this value lives.
#[derive(Debug, Default)]
pub(crate) struct Share {
    bytes: usize,
    meter: Rc<Meter>,
}

impl Share {
    pub(crate) fn new(bytes: usize, meter: &Rc<Meter>) -> Self {
        meter.0.set(meter.0.get() + bytes);
        let meter = Rc::clone(meter);
        Self { bytes, meter }
    }

    /// Changes the number of accounted bytes.
    pub(crate) fn set(&mut self, bytes: usize) {
        let others = self.meter.0.get().saturating_sub(self.bytes);
        self.meter.0.set(others + bytes);
        self.bytes = bytes;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let left = self.meter.0.get().saturating_sub(self.bytes);
        self.meter.0.set(left);
    }
}

/// The facts in the properties that a broker needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// True for `delivery-mode` 2.
    pub(crate) persistent: bool,
    pub(crate) priority: u8,
    /// `expiration`, in milliseconds.
    pub(crate) expiration: Option<u64>,
}

/// The longest time to live in milliseconds, ten years (as RabbitMQ).
pub(crate) const LONGEST_TTL: u64 = 10 * 365 * 24 * 3600 * 1000;
/// A packed time to live with this bit is in seconds.
const SECONDS: u32 = 1 << 31;

/// A message as received: exchange and routing key as short strings, the payload of the content header, the body.
///
/// With the two counts of an `Rc` it has 64 bytes, one cache line: it has left the cache when the message is delivered,
/// and again when it is acknowledged.
#[derive(Debug)]
pub(crate) struct Message {
    data: Box<[u8]>,
    meter: Rc<Meter>,
    /// The message's id in the log; 0 until it has one.
    pub(crate) log_id: Cell<u64>,
    head: u32,
    address: u16,
    /// The facts as separate fields, which take less memory.
    persistent: bool,
    priority: u8,
    /// In milliseconds, or with [`SECONDS`] in seconds.
    expiration: Option<u32>,
}

impl Message {
    /// Builds a message from its parts, contiguous in `data`: the address of `address` bytes, the header up to `head`,
    /// the body.
    pub(crate) fn new(
        data: impl Into<Box<[u8]>>,
        address: usize,
        head: usize,
        facts: Facts,
        meter: &Rc<Meter>,
    ) -> Self {
        let data = data.into();
        meter.0.set(meter.0.get() + data.len() + OVERHEAD);
        Self {
            data,
            address: u16::try_from(address).expect("an address has at most 512 bytes"),
            head: u32::try_from(head).expect("a header is shorter than frame_max"),
            persistent: facts.persistent,
            priority: facts.priority,
            expiration: facts.expiration.map(pack),
            log_id: Cell::new(0),
            meter: Rc::clone(meter),
        }
    }

    /// Returns exchange and routing key as two short strings, in the format of basic.publish and basic.deliver.
    pub(crate) fn address(&self) -> &[u8] {
        &self.data[..self.address as usize]
    }

    pub(crate) fn exchange(&self) -> &[u8] {
        split_address(self.address()).0
    }

    pub(crate) fn routing_key(&self) -> &[u8] {
        split_address(self.address()).1
    }

    /// Returns the payload of the content header frame.
    pub(crate) fn header(&self) -> &[u8] {
        &self.data[self.address as usize..self.head as usize]
    }

    /// Returns property flags and properties.
    pub(crate) fn properties(&self) -> &[u8] {
        &self.header()[HEADER_FIXED..]
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.data[self.head as usize..]
    }

    pub(crate) fn facts(&self) -> Facts {
        Facts {
            persistent: self.persistent,
            priority: self.priority,
            expiration: self.expiration.map(unpack),
        }
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        let cost = self.data.len() + OVERHEAD;
        self.meter.0.set(self.meter.0.get().saturating_sub(cost));
    }
}

/// A message held by one queue, ready or unacknowledged. It accounts for its entry; the message itself is shared by all
/// queues.
#[derive(Debug)]
pub(crate) struct Held(Rc<Message>);

impl Held {
    pub(crate) fn new(message: Rc<Message>) -> Self {
        message.meter.0.set(message.meter.0.get() + ENTRY);
        Self(message)
    }
}

impl Deref for Held {
    type Target = Rc<Message>;

    fn deref(&self) -> &Rc<Message> {
        &self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let meter = &self.0.meter.0;
        meter.set(meter.get().saturating_sub(ENTRY));
    }
}

/// Returns exchange and routing key of an address.
pub(crate) fn split_address(address: &[u8]) -> (&[u8], &[u8]) {
    let (exchange, rest) = address[1..].split_at(usize::from(address[0]));
    (exchange, &rest[1..])
}

/// Appends a short string.
pub(crate) fn push_short(to: &mut Vec<u8>, text: &[u8]) {
    to.push(u8::try_from(text.len()).expect("a name has at most 255 bytes"));
    to.extend_from_slice(text);
}

/// Returns a text as a short string: its length comes first.
pub(crate) fn short_string(text: &str) -> Vec<u8> {
    let mut short = Vec::with_capacity(text.len() + 1);
    push_short(&mut short, text.as_bytes());
    short
}

/// The properties as raw bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Properties<'a> {
    pub(crate) headers: Option<&'a [u8]>,
    delivery_mode: Option<u8>,
    priority: Option<u8>,
    /// A short string: its length comes first.
    expiration: Option<&'a [u8]>,
    pub(crate) reply_to: Option<&'a [u8]>,
    pub(crate) user_id: Option<&'a [u8]>,
}

impl<'a> Properties<'a> {
    /// Scans property flags and properties without decoding any (basic, AMQP 0-9-1, 4.2.6.1).
    ///
    /// # Errors
    /// 501 if they do not fill the bytes exactly.
    pub(crate) fn scan(bytes: &'a [u8]) -> Result<Self, Failure> {
        Self::walk(bytes).ok_or_else(|| frame_error("malformed content properties"))
    }

    fn walk(bytes: &'a [u8]) -> Option<Self> {
        let (flags, mut rest) = bytes.split_first_chunk::<2>()?;
        let flags = u16::from_be_bytes(*flags);
        let mut found = Self::default();
        // The two low bits would announce more flags; basic has none.
        let mut left = flags;
        while left > 3 {
            let bit = 15 - left.leading_zeros();
            left &= !(1 << bit);
            let value;
            (value, rest) = rest.split_at_checked(property_length(bit, rest)?)?;
            match bit {
                13 => found.headers = Some(value),
                12 => found.delivery_mode = Some(value[0]),
                11 => found.priority = Some(value[0]),
                9 => found.reply_to = Some(&value[1..]),
                8 => found.expiration = Some(value),
                4 => found.user_id = Some(&value[1..]),
                _ => {}
            }
        }
        (left == 0 && rest.is_empty()).then_some(found)
    }

    /// Returns the properties that these were scanned from, without the headers.
    pub(crate) fn without_headers(&self, properties: &[u8]) -> Vec<u8> {
        without(properties, 13, self.headers)
    }

    /// Returns the properties that these were scanned from, without `expiration`.
    pub(crate) fn without_expiration(&self, properties: &[u8]) -> Vec<u8> {
        without(properties, 8, self.expiration)
    }

    pub(crate) fn expiration(&self) -> Option<&'a [u8]> {
        self.expiration.map(|short| &short[1..])
    }

    /// # Errors
    /// 406 for an `expiration` that is not a number of milliseconds.
    pub(crate) fn facts(&self) -> Result<Facts, Failure> {
        Ok(Facts {
            persistent: self.delivery_mode == Some(2),
            priority: self.priority.unwrap_or(0),
            expiration: self.expiration().map(parse_expiration).transpose()?,
        })
    }
}

/// Returns properties without the one that has this flag; `part` is its bytes, if it is there.
fn without(properties: &[u8], bit: u32, part: Option<&[u8]>) -> Vec<u8> {
    let mut rest = properties.to_vec();
    if let Some(part) = part {
        let start = part.as_ptr() as usize - properties.as_ptr() as usize;
        rest.drain(start..start + part.len());
        let flags = u16::from_be_bytes([rest[0], rest[1]]) & !(1 << bit);
        rest[..2].copy_from_slice(&flags.to_be_bytes());
    }
    rest
}

/// Returns the length of a property, by its flag.
fn property_length(bit: u32, rest: &[u8]) -> Option<usize> {
    Some(match bit {
        13 => 4 + u32::from_be_bytes(*rest.first_chunk::<4>()?) as usize,
        12 | 11 => 1,
        6 => 8,
        _ => 1 + usize::from(*rest.first()?),
    })
}

fn parse_expiration(text: &[u8]) -> Result<u64, Failure> {
    let number = std::str::from_utf8(text)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|text| text.parse::<u64>().ok())
        .filter(|number| *number <= LONGEST_TTL);
    number.ok_or_else(|| {
        let text = String::from_utf8_lossy(text);
        precondition_failed(format_args!("invalid expiration '{text}'"))
    })
}

/// Packs a time to live in milliseconds into 32 bits: beyond 24 days in whole seconds, rounded up.
fn pack(ttl: u64) -> u32 {
    match u32::try_from(ttl) {
        Ok(ttl) if ttl < SECONDS => ttl,
        _ => SECONDS | u32::try_from(ttl.div_ceil(1000)).unwrap_or(u32::MAX),
    }
}

/// Returns the milliseconds that [`pack`] was given.
fn unpack(packed: u32) -> u64 {
    match packed & SECONDS {
        0 => packed.into(),
        _ => u64::from(packed & !SECONDS) * 1000,
    }
}

/// Returns the milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use amq_protocol::protocol::basic::{AMQPProperties, gen_properties};
    use amq_protocol::types::FieldTable;
    use proptest::prelude::*;

    use super::*;

    fn encode(properties: &AMQPProperties) -> Vec<u8> {
        let (bytes, _) = gen_properties(properties)(Vec::new().into())
            .unwrap()
            .into_inner();
        bytes
    }

    #[test]
    fn properties_that_a_broker_uses_are_found_among_all_properties() {
        let all = AMQPProperties::default()
            .with_content_type("text/plain".into())
            .with_headers(FieldTable::default())
            .with_delivery_mode(2)
            .with_priority(7)
            .with_correlation_id("c".into())
            .with_expiration("1500".into())
            .with_timestamp(1)
            .with_user_id("guest".into())
            .with_app_id("a".into());
        let bytes = encode(&all);
        let found = Properties::scan(&bytes).unwrap();
        let expected = Facts {
            persistent: true,
            priority: 7,
            expiration: Some(1500),
        };
        assert_eq!(found.facts().unwrap(), expected);
        assert_eq!(found.user_id, Some(&b"guest"[..]));
        assert_eq!(found.headers, Some(&[0, 0, 0, 0][..]));
        for length in 0..bytes.len() {
            assert_eq!(Properties::scan(&bytes[..length]).unwrap_err().code, 501);
        }
    }

    #[test]
    fn an_expiration_that_is_not_a_number_is_refused() {
        for text in ["", "-1", "1s", "315360000001", "99999999999999999999"] {
            let bytes = encode(&AMQPProperties::default().with_expiration(text.into()));
            let refused = Properties::scan(&bytes).unwrap().facts().map(|_| text);
            assert!(refused.is_err(), "{text}");
        }
    }

    #[test]
    fn ten_years_fit_into_a_message() {
        for (ttl, kept) in [
            (0, 0),
            (2_147_483_647, 2_147_483_647),
            (2_147_483_648, 2_147_484_000),
            (LONGEST_TTL, LONGEST_TTL),
        ] {
            let text = ttl.to_string();
            assert_eq!(parse_expiration(text.as_bytes()).unwrap(), ttl);
            let facts = Facts {
                expiration: Some(ttl),
                ..Facts::default()
            };
            let message = Message::new(vec![0, 0], 2, 2, facts, &Rc::default());
            assert_eq!(message.facts().expiration, Some(kept));
        }
        assert!(size_of::<Message>() <= 48, "with two counts a cache line");
    }

    #[test]
    fn the_meter_falls_when_the_last_holder_is_dropped() {
        let meter = Rc::default();
        let message = Rc::new(Message::new(vec![0; 100], 2, 20, Facts::default(), &meter));
        let other = Rc::clone(&message);
        drop(message);
        assert_eq!(meter.get(), 100 + OVERHEAD);
        drop(other);
        assert_eq!(meter.get(), 0);
    }

    proptest! {
        #[test]
        fn any_bytes_are_properties_or_an_error(bytes: Vec<u8>) {
            if let Ok(found) = Properties::scan(&bytes) {
                let _ = found.facts();
            }
        }
    }
}
