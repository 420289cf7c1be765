//! Incoming messages: basic.publish, content header, content body (AMQP 0-9-1, 2.3.5).
//!
//! This is the hot path. Each message is assembled in one buffer that is then shared. Nothing of it is decoded except
//! what [`Properties::scan`] walks over.

use std::rc::Rc;

use super::Broker;
use super::methods::unfinished_message;
use super::replies::REPLY_TO;
use crate::carbon_copies::{CarbonCopies, Key};
use crate::channel::{Channel, ChannelId, Expecting};
use crate::failure::{
    Result, frame_error, not_implemented, precondition_failed, resource_error, unexpected_frame,
};
use crate::message::{Facts, HEADER_FIXED, Message, Properties, Share, short_string};
use crate::queue::ConnectionId;

/// The maximum body size, as RabbitMQ's `max_message_size`.
const LARGEST: u64 = 128 * 1024 * 1024;
/// Maximum memory reserved for a body before it arrives.
const TRUSTED: usize = 1024 * 1024;

impl Broker {
    /// Handles basic.publish.
    pub(super) fn begin_publish(&mut self, id: ChannelId, payload: &[u8]) -> Result {
        let Channel {
            incoming, route, ..
        } = self.channel(id)?;
        if incoming.expecting != Expecting::Method {
            return Err(unfinished_message());
        }
        // After class and method comes a ticket, which is ignored.
        let (address, bits) = split_publish(payload.get(6..).unwrap_or_default())
            .ok_or_else(|| frame_error("the arguments of basic.publish cannot be read"))?;
        incoming.address.clear();
        incoming.address.extend_from_slice(address);
        incoming.has_route = route.address == address;
        incoming.mandatory = bits & 1 != 0;
        incoming.immediate = bits & 2 != 0;
        incoming.expecting = Expecting::Header;
        Ok(())
    }

    /// Handles a content header.
    pub(super) fn content_header(&mut self, id: ChannelId, payload: &[u8]) -> Result {
        let user = Rc::clone(&self.connections[id.connection].user);
        let Channel {
            incoming, replies, ..
        } = self.channel(id)?;
        if incoming.expecting != Expecting::Header {
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
        incoming.missing = usize::try_from(size).expect("it is at most 128 MiB");
        // Read here and not from the copy: the copy is in new memory, and reading it would wait for the cache.
        let address = replies.as_ref().map(|replies| &*replies.address);
        incoming.copies.clear();
        let mut changed = None;
        incoming.facts = Some(read_facts(properties, &user).and_then(|(facts, found)| {
            changed = rewrite(properties, &found, address, &mut incoming.copies)?;
            Ok(facts)
        }));
        let properties = changed.as_deref().unwrap_or(properties);
        incoming.head = incoming.address.len() + HEADER_FIXED + properties.len();
        let mut data = Vec::with_capacity(incoming.head + incoming.missing.min(TRUSTED));
        data.extend_from_slice(&incoming.address);
        data.extend_from_slice(fixed);
        data.extend_from_slice(properties);
        incoming.data = data;
        incoming.expecting = Expecting::Body;
        match incoming.missing {
            0 => self.complete(id),
            _ => Ok(()),
        }
    }

    /// Handles a part of a content body.
    pub(super) fn content_body(&mut self, id: ChannelId, payload: &[u8]) -> Result {
        let incoming = &mut self.channel(id)?.incoming;
        if incoming.expecting != Expecting::Body {
            return Err(unexpected_frame(
                "got a content body where none was expected",
            ));
        }
        let Some(missing) = incoming.missing.checked_sub(payload.len()) else {
            return Err(frame_error("more content than the header announced"));
        };
        incoming.missing = missing;
        incoming.data.extend_from_slice(payload);
        if missing == 0 {
            return self.complete(id);
        }
        // An incomplete message may stay so for as long as its client likes.
        let share = Share::new(incoming.data.len(), &self.memory.meter);
        self.channel(id)?.incoming.share = Some(share);
        self.check_unfinished(id.connection)
    }

    /// # Errors
    /// 506 for a client that begins ever more messages on ever more channels while memory is short.
    fn check_unfinished(&self, id: ConnectionId) -> Result {
        if !self.memory.is_short() {
            return Ok(());
        }
        let channels = self.connections[id].channels();
        let unfinished = channels.map(|channel| &channel.incoming.data);
        let bytes: usize = unfinished.map(Vec::len).sum();
        if bytes as u64 > LARGEST {
            return Err(resource_error(format_args!(
                "memory is short, and {bytes} bytes of messages on this connection are not complete"
            )));
        }
        Ok(())
    }

    fn complete(&mut self, id: ChannelId) -> Result {
        self.connections[id.connection].is_publisher = true;
        let incoming = &mut self.channel(id)?.incoming;
        incoming.expecting = Expecting::Method;
        // From here on the message itself is accounted for.
        incoming.share = None;
        let data = std::mem::take(&mut incoming.data);
        let facts = incoming.facts.take().transpose()?.unwrap_or_default();
        let (address, head) = (incoming.address.len(), incoming.head);
        let (mandatory, immediate) = (incoming.mandatory, incoming.immediate);
        let message = Message::new(data, address, head, facts, &self.memory.meter);
        self.counts.messages_published += 1;
        if immediate {
            return Err(not_implemented("immediate=true"));
        }
        self.publish(id, &Rc::new(message), mandatory)
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
