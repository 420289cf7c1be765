//! A channel: methods and their answers, messages, and refusals.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use amq_protocol::frame::{AMQPContentHeader, AMQPFrame};
use amq_protocol::protocol::{BasicProperties, basic, channel, queue};
use amqp_client::frame::encode;
use anyhow::{Context as _, bail, ensure};
use harness::verify::conformance::expect_eq;
use load::clock;

use super::case::Scope;
use super::connection::{Connection, Event};
use super::method::{Method as _, fields, ids, unexpected};
use super::wire::{BODY, Frame, REPLY_TIMEOUT};

/// The pause between two checks of a condition.
const PAUSE: Duration = Duration::from_millis(5);

/// A channel of a connection.
#[derive(Debug)]
pub(super) struct Channel<'c> {
    pub(super) connection: &'c Connection<'c>,
    pub(super) id: u16,
    /// Events received while an answer was awaited.
    pushed: RefCell<VecDeque<Event>>,
    /// The last message that was fetched or delivered.
    pub(super) message: RefCell<Option<Event>>,
}

impl<'c> Channel<'c> {
    pub(super) fn new(connection: &'c Connection<'c>, id: u16) -> Self {
        Self {
            connection,
            id,
            pushed: RefCell::default(),
            message: RefCell::default(),
        }
    }

    pub(super) fn scope(&self) -> &Scope<'_> {
        self.connection.scope
    }

    pub(super) fn open(&self) -> anyhow::Result<()> {
        self.run("channel.open")
    }

    pub(super) fn close(&self) -> anyhow::Result<()> {
        self.run("channel.close 200 done")
    }

    /// Returns the answer with these ids. Deliveries, returns, confirms and cancellations that come before it are kept.
    pub(super) fn answer(&self, expected: (u16, u16)) -> anyhow::Result<Event> {
        loop {
            let event = self.connection.event(self.id)?;
            match ids(&event.method) {
                found if found == expected => return Ok(event),
                // cancel, return, deliver, ack, nack.
                (60, 30 | 50 | 60 | 80 | 120) => self.pushed.borrow_mut().push_back(event),
                _ => return Err(unexpected("the answer", &event.method)),
            }
        }
    }

    /// Returns the next event that the broker sends by itself.
    pub(super) fn next_pushed(&self) -> anyhow::Result<Event> {
        let kept = self.pushed.borrow_mut().pop_front();
        kept.map_or_else(|| self.connection.event(self.id), Ok)
    }

    /// Returns the next event that the broker sends by itself, which must have this name.
    pub(super) fn pushed(&self, name: &str) -> anyhow::Result<Event> {
        let event = self
            .next_pushed()
            .with_context(|| format!("waiting for {name}"))?;
        if fields(&event.method).0 == name {
            Ok(event)
        } else {
            Err(unexpected(name, &event.method))
        }
    }

    /// Asserts that the broker closes the channel for a soft error, with a reply code below 500, or the connection for a
    /// hard one, and names the method with these ids. A channel is open again afterwards.
    pub(super) fn is_closed(&self, code: u16, method: Option<(u16, u16)>) -> anyhow::Result<()> {
        let what = "the method that the reply code is about";
        if code >= 500 {
            let close = self.connection.breaks(code)?;
            // An error of content has no method of its own.
            return match method.filter(|ids| code != 505 && *ids != PUBLISH) {
                Some(ids) => expect_eq(what, (close.class_id, close.method_id), ids),
                None => Ok(()),
            };
        }
        let close = channel::Close::unwrap(self.next_pushed()?.method)?;
        let (found, text) = (close.reply_code, &close.reply_text);
        ensure!(
            found == code,
            "the channel was closed with {found} ({text}), expected {code}"
        );
        if let Some(ids) = method {
            expect_eq(what, (close.class_id, close.method_id), ids)?;
        }
        self.connection.send(self.id, channel::CloseOk {})?;
        self.pushed.borrow_mut().clear();
        self.open().context("opening the channel again")
    }

    /// Asserts that the broker sends nothing by itself. Two answers are awaited first, after which asynchronous effects
    /// have happened; the method of these changes nothing.
    pub(super) fn is_quiet(&self) -> anyhow::Result<()> {
        self.run("basic.cancel conformance-nobody; basic.cancel conformance-nobody")?;
        match self.pushed.borrow().front() {
            None => Ok(()),
            Some(event) => bail!("the broker sent an unexpected method: {:?}", event.method),
        }
    }

    /// Publishes in as many frames as needed.
    pub(super) fn publish(
        &self,
        publish: basic::Publish,
        properties: &BasicProperties,
        body: &[u8],
    ) -> anyhow::Result<()> {
        let mut bytes = encode(&AMQPFrame::Method(self.id, publish.wrap()));
        bytes.extend(content_header(self.id, 60, body.len() as u64, properties));
        let largest = match self.connection.tune.borrow().frame_max as usize {
            0 => body.len().max(1),
            largest => largest - 8,
        };
        for part in body.chunks(largest) {
            bytes.extend(Frame::new(BODY, self.id, part).bytes());
        }
        self.connection.wire.write(&bytes)
    }

    /// Writes a frame on this channel.
    pub(super) fn send_raw(&self, kind: u8, payload: &[u8]) -> anyhow::Result<()> {
        self.connection.wire.send(kind, self.id, payload)
    }

    /// Repeats a check until it returns a value.
    pub(super) fn eventually<T>(
        &self,
        what: &str,
        look: impl Fn() -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<T> {
        let limit = clock::now() + u64::try_from(REPLY_TIMEOUT.as_nanos())?;
        loop {
            if let Some(seen) = look()? {
                return Ok(seen);
            }
            ensure!(clock::now() < limit, "{what}: not within {REPLY_TIMEOUT:?}");
            std::thread::sleep(PAUSE);
        }
    }

    /// Fetches one message, if one is ready by now.
    pub(super) fn fetch(&self, queue: &str, no_ack: bool) -> anyhow::Result<Option<Event>> {
        let queue = queue.into();
        self.connection
            .send(self.id, basic::Get { queue, no_ack })?;
        let event = self.connection.event(self.id)?;
        match fields(&event.method).0 {
            basic::GetEmpty::NAME => Ok(None),
            basic::GetOk::NAME => Ok(Some(event)),
            _ => Err(unexpected("basic.get-ok", &event.method)),
        }
    }

    /// Fetches one message, which must come and needs no acknowledgement.
    pub(super) fn take(&self, queue: &str) -> anyhow::Result<Event> {
        self.eventually("a message", || self.fetch(queue, true))
    }

    /// Asserts that a queue has exactly these messages, and fetches them. RabbitMQ requeues the messages of a channel
    /// that it closed asynchronously: as many as expected are waited for.
    pub(super) fn yields(&self, queue: &str, bodies: &[String]) -> anyhow::Result<()> {
        let mut found = Vec::new();
        while found.len() < bodies.len() {
            let message = self.take(queue);
            found.push(message.with_context(|| format!("after {found:?}"))?.body());
        }
        while let Some(message) = self.fetch(queue, true)? {
            found.push(message.body());
        }
        expect_eq("the messages", found, bodies)
    }

    /// Waits until a queue has this many ready messages, and consumers if given. RabbitMQ counts asynchronously: an
    /// answer may be outdated.
    pub(super) fn holds(
        &self,
        queue: &str,
        messages: u32,
        consumers: Option<u32>,
    ) -> anyhow::Result<()> {
        let declare = queue::Declare {
            queue: queue.into(),
            passive: true,
            ..queue::Declare::default()
        };
        self.eventually(&format!("{messages} messages in the queue"), || {
            self.connection.send(self.id, declare.clone())?;
            let found = queue::DeclareOk::unwrap(self.answer((50, 11))?.method)?;
            let is_so = found.message_count == messages
                && consumers.is_none_or(|expected| found.consumer_count == expected);
            Ok(is_so.then_some(()))
        })
    }

    /// Waits until a queue does not exist any more. It is checked on separate channels, which the answer may close.
    pub(super) fn loses(&self, queue: &str) -> anyhow::Result<()> {
        let step = format!("queue.declare {queue:?} passive -> 404");
        self.eventually("the queue is deleted", || {
            Ok(self.connection.channel()?.run(&step).ok())
        })
    }
}

/// Returns the frame of a content header.
pub(super) fn content_header(
    channel: u16,
    class_id: u16,
    body_size: u64,
    properties: &BasicProperties,
) -> Vec<u8> {
    let header = AMQPContentHeader {
        class_id,
        body_size,
        properties: properties.clone(),
    };
    encode(&AMQPFrame::Header(channel, header))
}

/// The ids of basic.publish.
pub(super) const PUBLISH: (u16, u16) = (60, 40);
