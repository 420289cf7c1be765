//! A channel: methods and their answers, messages, and refusals.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use amq_protocol::frame::{AMQPContentHeader, AMQPFrame};
use amq_protocol::protocol::{AMQPClass, BasicProperties, basic, channel};
use amqp_client::frame::encode;
use anyhow::{Context as _, anyhow, ensure};
use load::clock;

use super::case::Scope;
use super::connection::{Connection, Content, Event, names, unexpected};
use super::method::{Call, Method};
use super::request::publishing;
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
}

impl<'c> Channel<'c> {
    pub(super) fn new(connection: &'c Connection<'c>, id: u16) -> Self {
        Self {
            connection,
            id,
            pushed: RefCell::default(),
        }
    }

    pub(super) fn scope(&self) -> &Scope<'_> {
        self.connection.scope
    }

    pub(super) fn open(&self) -> anyhow::Result<()> {
        self.call(channel::Open {}).map(drop)
    }

    pub(super) fn close(&self) -> anyhow::Result<()> {
        let close = channel::Close {
            reply_code: 200,
            reply_text: "done".into(),
            ..channel::Close::default()
        };
        self.call(close).map(drop)
    }

    /// Closes the channel, which requeues what is not acknowledged, and opens it again.
    pub(super) fn reopen(&self) -> anyhow::Result<()> {
        self.close()?;
        self.open()
    }

    pub(super) fn send(&self, method: impl Method) -> anyhow::Result<()> {
        self.connection.send(self.id, method)
    }

    /// Sends a method and returns its answer. Deliveries, returns, confirms and cancellations that come before it are kept.
    pub(super) fn call<M: Call>(&self, method: M) -> anyhow::Result<M::Answer> {
        self.send(method)?;
        self.answer()
    }

    /// Returns the answer to a method that was sent.
    pub(super) fn answer<Answer: Method>(&self) -> anyhow::Result<Answer> {
        loop {
            let event = self
                .connection
                .event(self.id)
                .with_context(|| format!("waiting for {}", Answer::NAME))?;
            match Answer::unwrap(event.method) {
                Ok(answer) => return Ok(answer),
                Err(other) if is_pushed(&other) => {
                    let content = event.content;
                    let event = Event {
                        method: other,
                        content,
                    };
                    self.pushed.borrow_mut().push_back(event);
                }
                Err(other) => return Err(unexpected(Answer::NAME, &other)),
            }
        }
    }

    /// Returns the next event that the broker sends by itself.
    pub(super) fn next_pushed(&self) -> anyhow::Result<Event> {
        let kept = self.pushed.borrow_mut().pop_front();
        kept.map_or_else(|| self.connection.event(self.id), Ok)
    }

    /// Returns the next event that the broker sends by itself, which must be of this type.
    pub(super) fn pushed<M: Method>(&self) -> anyhow::Result<(M, Content)> {
        let event = self
            .next_pushed()
            .with_context(|| format!("waiting for {}", M::NAME))?;
        let method = M::unwrap(event.method).map_err(|other| unexpected(M::NAME, &other))?;
        Ok((method, event.content.unwrap_or_default()))
    }

    /// Sends a method and asserts that the broker closes the channel for it: with this reply code, with the ids of the
    /// method, and without harm to the connection. The channel is open again afterwards.
    pub(super) fn refuses(&self, code: u16, method: impl Method) -> anyhow::Result<()> {
        let ids = method.ids();
        self.send(method)?;
        self.is_closed(code, ids)
    }

    /// Asserts that the broker closes the channel; see [`Channel::refuses`].
    pub(super) fn is_closed(&self, code: u16, ids: (u16, u16)) -> anyhow::Result<()> {
        let (close, _) = self.pushed::<channel::Close>()?;
        let (found, text) = (close.reply_code, &close.reply_text);
        ensure!(
            found == code,
            "the channel was closed with {found} ({text}), expected {code}"
        );
        names(code, (close.class_id, close.method_id), ids)?;
        self.send(channel::CloseOk {})?;
        self.pushed.borrow_mut().clear();
        self.open().context("opening the channel again")
    }

    /// Asserts that the broker sends nothing by itself. Two answers are awaited first, after which asynchronous effects
    /// have happened.
    pub(super) fn is_quiet(&self) -> anyhow::Result<()> {
        for _ in 0..2 {
            self.call(basic::Qos::default())?;
        }
        self.has_nothing()
    }

    /// Asserts that no event has come so far.
    pub(super) fn has_nothing(&self) -> anyhow::Result<()> {
        match self.pushed.borrow().front() {
            None => Ok(()),
            Some(event) => Err(anyhow!(
                "the broker sent an unexpected method: {:?}",
                event.method
            )),
        }
    }

    /// Publishes a message without special properties.
    pub(super) fn publish(&self, exchange: &str, key: &str, body: &str) -> anyhow::Result<()> {
        self.publish_as(exchange, key, &BasicProperties::default(), body)
    }

    pub(super) fn publish_as(
        &self,
        exchange: &str,
        key: &str,
        properties: &BasicProperties,
        body: &str,
    ) -> anyhow::Result<()> {
        self.send_content(publishing(exchange, key), properties, body.as_bytes())
    }

    /// Publishes with the given flags, in as many frames as needed.
    pub(super) fn send_content(
        &self,
        publish: basic::Publish,
        properties: &BasicProperties,
        body: &[u8],
    ) -> anyhow::Result<()> {
        let header = AMQPContentHeader {
            class_id: 60,
            body_size: body.len() as u64,
            properties: properties.clone(),
        };
        let mut bytes = encode(&AMQPFrame::Method(self.id, publish.wrap()));
        bytes.extend(encode(&AMQPFrame::Header(self.id, header)));
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
}

fn is_pushed(class: &AMQPClass) -> bool {
    matches!(
        class,
        AMQPClass::Basic(
            basic::AMQPMethod::Deliver(_)
                | basic::AMQPMethod::Return(_)
                | basic::AMQPMethod::Ack(_)
                | basic::AMQPMethod::Nack(_)
                | basic::AMQPMethod::Cancel(_)
        )
    )
}
