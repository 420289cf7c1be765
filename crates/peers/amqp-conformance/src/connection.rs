//! A connection: the handshake, and frames sorted by channel.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};

use amq_protocol::frame::AMQPFrame;
use amq_protocol::frame::parsing::parse_content_header;
use amq_protocol::protocol::{AMQPClass, BasicProperties, basic, connection, parse_class};
use amq_protocol::types::{AMQPValue, FieldTable};
use amqp_client::frame::encode;
use anyhow::{anyhow, bail, ensure};
use load::clock;

use super::case::Scope;
use super::channel::Channel;
use super::method::Method;
use super::wire::{BODY, Frame, HEADER, HEARTBEAT, METHOD, REPLY_TIMEOUT, Wire};

pub(super) const PROTOCOL_HEADER: &[u8] = b"AMQP\0\0\x09\x01";
/// The capabilities that current clients announce, and that brokers must have.
pub(super) const CAPABILITIES: [&str; 7] = [
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "per_consumer_qos",
    "authentication_failure_close",
];

/// A method that a broker sends on a channel, with its content if it has one.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) method: AMQPClass,
    pub(super) content: Option<Content>,
}

impl Event {
    /// Returns the body as text, which is empty without content.
    pub(super) fn body(&self) -> String {
        let body = self.content.as_ref().map(|content| &content.body[..]);
        String::from_utf8_lossy(body.unwrap_or_default()).into_owned()
    }
}

/// Properties and body.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    pub(super) properties: BasicProperties,
    /// The property flags and the property list as received.
    pub(super) raw_properties: Vec<u8>,
    pub(super) body: Vec<u8>,
}

/// A connection to the broker, in any state that a case has reached.
#[derive(Debug)]
pub(super) struct Connection<'s> {
    pub(super) scope: &'s Scope<'s>,
    pub(super) wire: Wire,
    pub(super) start: connection::Start,
    /// The negotiated values.
    pub(super) tune: RefCell<connection::Tune>,
    inbox: RefCell<BTreeMap<u16, VecDeque<Frame>>>,
    last_channel: Cell<u16>,
    /// True once a case has ended the connection, or the broker has as expected.
    pub(super) is_over: Cell<bool>,
}

impl<'s> Connection<'s> {
    /// Connects and performs the handshake up to `connection.start`.
    pub(super) fn greet(scope: &'s Scope<'s>) -> anyhow::Result<Self> {
        let wire = Wire::connect(scope.broker)?;
        wire.write(PROTOCOL_HEADER)?;
        let mut connection = Self {
            scope,
            wire,
            start: connection::Start::default(),
            tune: RefCell::default(),
            inbox: RefCell::default(),
            last_channel: Cell::new(0),
            is_over: Cell::new(false),
        };
        connection.start = connection.receive()?;
        Ok(connection)
    }

    /// Connects and performs the handshake up to `connection.tune`.
    pub(super) fn log_in(scope: &'s Scope<'s>) -> anyhow::Result<Self> {
        let connection = Self::greet(scope)?;
        connection.start_with(connection.login())?;
        Ok(connection)
    }

    /// Answers `connection.start` and receives `connection.tune`.
    pub(super) fn start_with(&self, start_ok: connection::StartOk) -> anyhow::Result<()> {
        self.send(0, start_ok)?;
        self.tune.replace(self.receive()?);
        Ok(())
    }

    /// Connects and performs the whole handshake with changed values.
    pub(super) fn open_with(
        scope: &'s Scope<'s>,
        change: impl Fn(&mut connection::Tune),
    ) -> anyhow::Result<Self> {
        let connection = Self::log_in(scope)?;
        change(&mut connection.tune.borrow_mut());
        connection.open_default()?;
        Ok(connection)
    }

    /// Answers `connection.tune` and opens the vhost.
    pub(super) fn open_default(&self) -> anyhow::Result<()> {
        self.send(0, self.tune_ok())?;
        let virtual_host = self.scope.broker.uri.vhost.as_str().into();
        self.send(0, connection::Open { virtual_host })?;
        self.receive::<connection::OpenOk>().map(drop)
    }

    /// Returns `connection.start-ok` with the case's user.
    pub(super) fn login(&self) -> connection::StartOk {
        let user = &self.scope.broker.uri.authority.userinfo;
        self.plain(&user.username, &user.password)
    }

    /// Returns `connection.start-ok` with mechanism PLAIN.
    pub(super) fn plain(&self, user: &str, password: &str) -> connection::StartOk {
        let mut capabilities = FieldTable::default();
        for name in CAPABILITIES {
            capabilities.insert(name.into(), AMQPValue::Boolean(true));
        }
        let mut client_properties = FieldTable::default();
        client_properties.insert("capabilities".into(), AMQPValue::FieldTable(capabilities));
        connection::StartOk {
            client_properties,
            mechanism: "PLAIN".into(),
            response: format!("\0{user}\0{password}").into_bytes().into(),
            locale: "en_US".into(),
        }
    }

    /// Returns the answer to `connection.tune`.
    pub(super) fn tune_ok(&self) -> connection::TuneOk {
        let tune = self.tune.borrow();
        connection::TuneOk {
            channel_max: tune.channel_max,
            frame_max: tune.frame_max,
            heartbeat: tune.heartbeat,
        }
    }

    /// Opens the next channel.
    pub(super) fn channel(&self) -> anyhow::Result<Channel<'_>> {
        self.last_channel.set(self.last_channel.get() + 1);
        let channel = self.unopened(self.last_channel.get());
        channel.open()?;
        Ok(channel)
    }

    /// Returns a channel that was not opened.
    pub(super) fn unopened(&self, id: u16) -> Channel<'_> {
        Channel::new(self, id)
    }

    pub(super) fn send(&self, channel: u16, method: impl Method) -> anyhow::Result<()> {
        self.send_class(channel, method.wrap())
    }

    pub(super) fn send_class(&self, channel: u16, method: AMQPClass) -> anyhow::Result<()> {
        let frame = AMQPFrame::Method(channel, method);
        self.wire.write(&encode(&frame))
    }

    /// Returns the next method for the connection itself, which must be of this type.
    pub(super) fn receive<M: Method>(&self) -> anyhow::Result<M> {
        M::unwrap(self.event(0)?.method)
    }

    /// Returns the next method of a channel, with its content. The end of the connection is an error, unless it is
    /// awaited.
    pub(super) fn event(&self, channel: u16) -> anyhow::Result<Event> {
        let frame = self.frame(channel, METHOD, "method frame")?;
        let method = parsed(&frame)?;
        let content = if carries_content(&method) {
            Some(self.content(channel)?)
        } else {
            None
        };
        Ok(Event { method, content })
    }

    fn content(&self, channel: u16) -> anyhow::Result<Content> {
        let header = self.frame(channel, HEADER, "content header")?;
        let (_, parsed) = parse_content_header(&header.payload[..])
            .map_err(|error| anyhow!("a content header is malformed: {error:?}"))?;
        let mut content = Content {
            properties: parsed.properties,
            raw_properties: header.payload[12..].to_vec(),
            body: Vec::new(),
        };
        while (content.body.len() as u64) < parsed.body_size {
            let frame = self.frame(channel, BODY, "body frame")?;
            let largest = self.tune.borrow().frame_max as usize;
            ensure!(
                largest == 0 || frame.payload.len() + 8 <= largest,
                "a body frame is larger than frame_max"
            );
            content.body.extend(frame.payload);
        }
        ensure!(
            content.body.len() as u64 == parsed.body_size,
            "a body is longer than its header says"
        );
        Ok(content)
    }

    /// Returns the next frame of a channel, which must be of this kind.
    fn frame(&self, channel: u16, kind: u8, what: &str) -> anyhow::Result<Frame> {
        let frame = self.next_frame(channel)?;
        let found = frame.kind;
        ensure!(
            found == kind,
            "expected a {what}, got a frame of type {found}"
        );
        Ok(frame)
    }

    /// Returns the next frame of a channel; frames of other channels are kept. Heartbeats are skipped.
    fn next_frame(&self, channel: u16) -> anyhow::Result<Frame> {
        let limit = clock::now() + u64::try_from(REPLY_TIMEOUT.as_nanos())?;
        loop {
            let waiting = self
                .inbox
                .borrow_mut()
                .get_mut(&channel)
                .and_then(VecDeque::pop_front);
            if let Some(frame) = waiting {
                return Ok(frame);
            }
            // Heartbeats are no answer.
            ensure!(clock::now() < limit, "no answer within {REPLY_TIMEOUT:?}");
            let frame = self.wire.frame()?;
            if frame.kind == HEARTBEAT {
                continue;
            }
            if frame.channel == 0
                && channel != 0
                && let Ok(close) = connection::Close::unwrap(parsed(&frame)?)
            {
                bail!(
                    "the broker closed the connection: {} {}",
                    close.reply_code,
                    close.reply_text
                );
            }
            let mut inbox = self.inbox.borrow_mut();
            inbox.entry(frame.channel).or_default().push_back(frame);
        }
    }

    /// Asserts that the broker closes the connection with this reply code, and then the socket. Returns its
    /// connection.close.
    pub(super) fn breaks(&self, code: u16) -> anyhow::Result<connection::Close> {
        self.is_over.set(true);
        let close: connection::Close = self.receive()?;
        let (found, text) = (close.reply_code, &close.reply_text);
        ensure!(
            found == code,
            "the connection was closed with {found} ({text}), expected {code}"
        );
        self.send(0, connection::CloseOk {})?;
        self.wire.ends()?;
        Ok(close)
    }

    /// Asserts that the broker ends the connection, with or without `connection.close`.
    pub(super) fn is_given_up(&self) -> anyhow::Result<()> {
        self.is_over.set(true);
        while let Ok(frame) = self.wire.frame() {
            if frame.channel == 0
                && frame.kind == METHOD
                && connection::Close::unwrap(parsed(&frame)?).is_ok()
            {
                self.send(0, connection::CloseOk {})?;
                break;
            }
        }
        self.wire.ends()
    }

    /// Closes the connection regularly. Either side may close the socket first: RabbitMQ waits for the client.
    pub(super) fn close(&self) -> anyhow::Result<()> {
        self.close_with(200, "done")
    }

    pub(super) fn close_with(&self, code: u16, text: &str) -> anyhow::Result<()> {
        self.is_over.set(true);
        let close = connection::Close {
            reply_code: code,
            reply_text: text.into(),
            ..connection::Close::default()
        };
        self.send(0, close)?;
        self.receive::<connection::CloseOk>().map(drop)
    }
}

fn parsed(frame: &Frame) -> anyhow::Result<AMQPClass> {
    match parse_class(&frame.payload[..]) {
        Ok(([], class)) => Ok(class),
        _ => Err(anyhow!(
            "the broker sent a malformed method: {:?}",
            frame.payload
        )),
    }
}

fn carries_content(class: &AMQPClass) -> bool {
    matches!(
        class,
        AMQPClass::Basic(
            basic::AMQPMethod::Deliver(_)
                | basic::AMQPMethod::GetOk(_)
                | basic::AMQPMethod::Return(_)
        )
    )
}
