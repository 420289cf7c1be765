//! A message being received: basic.publish, content header, content body (AMQP 0-9-1, 2.3.5).
//!
//! This is the hot path. Each message is assembled in one buffer that is then shared. Nothing of it is decoded except
//! what [`Properties::scan`] walks over.

use std::mem;
use std::rc::Rc;

use crate::carbon_copies::{CarbonCopies, Key};
use crate::channel::Pending;
use crate::failure::{Result, frame_error, not_implemented, precondition_failed, unexpected_frame};
use crate::message::{Facts, HEADER_FIXED, Message, Meter, Properties, Share, short_string};

/// The maximum body size, as RabbitMQ's `max_message_size`.
pub(crate) const LARGEST: u64 = 128 * 1024 * 1024;
/// Maximum memory reserved for a body before it arrives.
const TRUSTED: usize = 1024 * 1024;
/// The name of the pseudo-queue for direct replies.
pub(crate) const REPLY_TO: &str = "amq.rabbitmq.reply-to";

/// The kind of frame expected next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Expecting {
    #[default]
    Method,
    Header,
    Body,
}

/// A message being received.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    expecting: Expecting,
    address: Vec<u8>,
    mandatory: bool,
    immediate: bool,
    /// Address, header, and the body as far as received.
    data: Vec<u8>,
    /// Offset of the body.
    head: usize,
    /// The facts in its properties, or the error in them.
    facts: Option<Result<Facts>>,
    missing: usize,
    /// The routing keys in its headers.
    copies: Vec<Key>,
    /// Its share of the memory, if it is incomplete.
    share: Option<Share>,
}

impl Incoming {
    /// Returns how many bytes of an incomplete message are there.
    pub(crate) fn len(&self) -> usize {
        self.data.len()
    }

    /// # Errors
    /// 505 if a message is not complete.
    pub(crate) fn expect_method(&self) -> Result {
        if self.expecting == Expecting::Method {
            return Ok(());
        }
        Err(unexpected_frame(
            "expected content header or body, got method",
        ))
    }

    /// Begins a message with the payload of basic.publish. Returns its address.
    pub(crate) fn begin(&mut self, payload: &[u8]) -> Result<&[u8]> {
        self.expect_method()?;
        // After class and method comes a ticket, which is ignored.
        let (address, bits) = split_publish(payload.get(6..).unwrap_or_default())
            .ok_or_else(|| frame_error("the arguments of basic.publish cannot be read"))?;
        self.address.clear();
        self.address.extend_from_slice(address);
        self.mandatory = bits & 1 != 0;
        self.immediate = bits & 2 != 0;
        self.expecting = Expecting::Header;
        Ok(&self.address)
    }

    /// Adds the content header of a message that this user publishes; `replies` is the address of the channel for direct
    /// replies. Returns true if the message is complete.
    pub(crate) fn add_header(
        &mut self,
        payload: &[u8],
        user: &str,
        replies: Option<&str>,
    ) -> Result<bool> {
        if self.expecting != Expecting::Header {
            return Err(unexpected_frame(
                "got a content header where none was expected",
            ));
        }
        let Some((fixed, properties)) = payload.split_first_chunk::<HEADER_FIXED>() else {
            return Err(frame_error("a content header that is too short"));
        };
        let [c0, c1, w0, w1, size @ ..] = *fixed;
        // The weight is unused and must be 0 (AMQP 0-9-1, 2.3.5.2).
        if [c0, c1, w0, w1] != [0, 60, 0, 0] {
            return Err(unexpected_frame("expected a content header for class 60"));
        }
        let size = u64::from_be_bytes(size);
        if size > LARGEST {
            return Err(precondition_failed(format_args!(
                "message size {size} is larger than configured max size {LARGEST}"
            )));
        }
        self.missing = usize::try_from(size).expect("it is at most 128 MiB");
        // Read here and not from the copy: the copy is in new memory, and reading it would wait for the cache.
        self.copies.clear();
        let mut changed = None;
        self.facts = Some(read_facts(properties, user).and_then(|(facts, found)| {
            changed = rewrite(properties, &found, replies, &mut self.copies)?;
            Ok(facts)
        }));
        let properties = changed.as_deref().unwrap_or(properties);
        self.head = self.address.len() + HEADER_FIXED + properties.len();
        let mut data = Vec::with_capacity(self.head + self.missing.min(TRUSTED));
        data.extend_from_slice(&self.address);
        data.extend_from_slice(fixed);
        data.extend_from_slice(properties);
        self.data = data;
        self.expecting = Expecting::Body;
        Ok(self.missing == 0)
    }

    /// Adds a part of the content body. Returns true if the message is complete.
    pub(crate) fn add_body(&mut self, payload: &[u8]) -> Result<bool> {
        if self.expecting != Expecting::Body {
            return Err(unexpected_frame(
                "got a content body where none was expected",
            ));
        }
        let Some(missing) = self.missing.checked_sub(payload.len()) else {
            return Err(frame_error("more content than the header announced"));
        };
        self.missing = missing;
        self.data.extend_from_slice(payload);
        Ok(missing == 0)
    }

    /// Accounts for the memory of an incomplete message, which may stay so for as long as its client likes.
    pub(crate) fn account_memory(&mut self, meter: &Rc<Meter>) {
        self.share = Some(Share::new(self.data.len(), meter));
    }

    /// Takes the complete message.
    ///
    /// # Errors
    /// The error in its properties; 540 for `immediate`.
    pub(crate) fn finish(&mut self, meter: &Rc<Meter>) -> Result<Pending> {
        self.expecting = Expecting::Method;
        // From here on the message itself is accounted for.
        self.share = None;
        let data = mem::take(&mut self.data);
        let facts = self.facts.take().transpose()?.unwrap_or_default();
        if self.immediate {
            return Err(not_implemented("immediate=true"));
        }
        let message = Message::new(data, self.address.len(), self.head, facts, meter);
        Ok(Pending {
            message: Rc::new(message),
            mandatory: self.mandatory,
            copies: mem::take(&mut self.copies),
        })
    }
}

/// Returns the facts in the properties of a message that this user publishes.
fn read_facts<'a>(properties: &'a [u8], user: &str) -> Result<(Facts, Properties<'a>)> {
    let properties = Properties::scan(properties)?;
    if let Some(claimed) = properties.user_id
        && claimed != user.as_bytes()
    {
        let claimed = String::from_utf8_lossy(claimed);
        return Err(precondition_failed(format_args!(
            "user_id property set to '{claimed}' but authenticated user was '{user}'"
        )));
    }
    Ok((properties.facts()?, properties))
}

/// Reads the routing keys among the headers. Returns the properties for consumers if they differ: without `BCC`, and
/// with the address of this channel if replies are to come directly.
///
/// # Errors
/// 406 for keys that are not an array, and for direct replies that no consumer awaits.
fn rewrite(
    properties: &[u8],
    found: &Properties<'_>,
    address: Option<&str>,
    copies: &mut Vec<Key>,
) -> Result<Option<Vec<u8>>> {
    let mut changed: Option<Vec<u8>> = None;
    let offset = |part: &[u8]| part.as_ptr() as usize - properties.as_ptr() as usize;
    // Replaced first: it stands behind the headers, so the offsets found in them stay valid.
    if let Some(reply_to) = found.reply_to
        && reply_to == REPLY_TO.as_bytes()
    {
        let address =
            address.ok_or_else(|| precondition_failed("fast reply consumer does not exist"))?;
        let start = offset(reply_to) - 1;
        let end = start + 1 + reply_to.len();
        let bytes = changed.get_or_insert_with(|| properties.to_vec());
        bytes.splice(start..end, short_string(address));
    }
    if let Some(headers) = found.headers {
        let CarbonCopies { keys, hidden } = CarbonCopies::read(headers)?;
        *copies = keys;
        if let Some(hidden) = hidden {
            let start = offset(headers);
            let length = u32::try_from(headers.len() - 4 - hidden.len());
            let length = length.expect("headers are shorter than a frame");
            let bytes = changed.get_or_insert_with(|| properties.to_vec());
            bytes.drain(start + hidden.start..start + hidden.end);
            bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
        }
    }
    Ok(changed)
}

/// Splits the arguments after the ticket into the two short strings, which stay together, and the bits.
fn split_publish(arguments: &[u8]) -> Option<(&[u8], u8)> {
    let exchange = 1 + usize::from(*arguments.first()?);
    let key = 1 + usize::from(*arguments.get(exchange)?);
    match arguments.split_at_checked(exchange + key)? {
        (address, [bits]) => Some((address, *bits)),
        _ => None,
    }
}
