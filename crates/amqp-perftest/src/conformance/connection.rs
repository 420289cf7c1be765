//! A connection: the handshake, and frames sorted by their channels.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};

use amq_protocol::frame::AMQPFrame;
use amq_protocol::frame::parsing::parse_content_header;
use amq_protocol::protocol::{AMQPClass, BasicProperties, basic, connection, parse_class};
use amq_protocol::types::{AMQPValue, FieldTable};
use anyhow::{anyhow, bail, ensure};
use harness::clock;

use super::case::Scope;
use super::channel::Channel;
use super::method::Method;
use super::values::table;
use super::wire::{BODY, Frame, HEADER, HEARTBEAT, METHOD, PATIENCE, Wire, encoded};

pub(super) const PROTOCOL_HEADER: &[u8] = b"AMQP\0\0\x09\x01";
/// What every client of today says of itself.
const CAPABILITIES: [&str; 7] = [
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "per_consumer_qos",
    "authentication_failure_close",
];

/// What a broker sends on a channel: a method, and its content if it has one.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) method: AMQPClass,
    pub(super) content: Option<Content>,
}

/// Properties and body.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    pub(super) properties: BasicProperties,
    /// The property flags and the property list as they came.
    pub(super) raw_properties: Vec<u8>,
    pub(super) body: Vec<u8>,
}

/// One connection to the broker, in whatever state a case has brought it to.
#[derive(Debug)]
pub(super) struct Connection<'s> {
    pub(super) scope: &'s Scope<'s>,
    pub(super) wire: Wire,
    pub(super) start: connection::Start,
    /// What both sides have agreed on, once they have.
    pub(super) tune: RefCell<connection::Tune>,
    inbox: RefCell<BTreeMap<u16, VecDeque<Frame>>>,
    last_channel: Cell<u16>,
}

impl<'s> Connection<'s> {
    /// Up to and with `connection.start`.
    pub(super) fn greet(scope: &'s Scope<'s>) -> anyhow::Result<Self> {
        let wire = Wire::connect(&scope.address())?;
        wire.write(PROTOCOL_HEADER)?;
        let mut connection = Self {
            scope,
            wire,
            start: connection::Start::default(),
            tune: RefCell::default(),
            inbox: RefCell::default(),
            last_channel: Cell::new(0),
        };
        connection.start = connection.receive()?;
        Ok(connection)
    }

    /// Up to and with `connection.tune`.
    pub(super) fn log_in(scope: &'s Scope<'s>) -> anyhow::Result<Self> {
        let connection = Self::greet(scope)?;
        connection.send(0, connection.plain(scope.user(), scope.password()))?;
        let tune = connection.receive()?;
        connection.tune.replace(tune);
        Ok(connection)
    }

    /// The whole handshake, with what the broker suggests.
    pub(super) fn open(scope: &'s Scope<'s>) -> anyhow::Result<Self> {
        Self::open_with(scope, |_| {})
    }

    /// The whole handshake, with another answer to its suggestion.
    pub(super) fn open_with(
        scope: &'s Scope<'s>,
        change: impl Fn(&mut connection::Tune),
    ) -> anyhow::Result<Self> {
        let connection = Self::log_in(scope)?;
        change(&mut connection.tune.borrow_mut());
        connection.send(0, connection.tune_ok())?;
        connection.send(0, connection.open_vhost(scope.vhost()))?;
        connection.receive::<connection::OpenOk>()?;
        Ok(connection)
    }

    /// `connection.start-ok` with mechanism PLAIN.
    pub(super) fn plain(&self, user: &str, password: &str) -> connection::StartOk {
        let capability = |name: &&'static str| (*name, AMQPValue::Boolean(true));
        let capabilities: Vec<_> = CAPABILITIES.iter().map(capability).collect();
        let capabilities = AMQPValue::FieldTable(table(&capabilities));
        connection::StartOk {
            client_properties: table(&[("capabilities", capabilities)]),
            mechanism: "PLAIN".into(),
            response: format!("\0{user}\0{password}").into_bytes().into(),
            locale: "en_US".into(),
        }
    }

    /// The answer to `connection.tune`.
    pub(super) fn tune_ok(&self) -> connection::TuneOk {
        let tune = self.tune.borrow();
        connection::TuneOk {
            channel_max: tune.channel_max,
            frame_max: tune.frame_max,
            heartbeat: tune.heartbeat,
        }
    }

    pub(super) fn open_vhost(&self, vhost: &str) -> connection::Open {
        connection::Open {
            virtual_host: vhost.into(),
        }
    }

    /// What the broker says that it can.
    pub(super) fn capabilities(&self) -> anyhow::Result<FieldTable> {
        match self.start.server_properties.inner().get("capabilities") {
            Some(AMQPValue::FieldTable(table)) => Ok(table.clone()),
            other => Err(anyhow!("its capabilities are {other:?}, no table")),
        }
    }

    /// Opens the next channel.
    pub(super) fn channel(&self) -> anyhow::Result<Channel<'_>> {
        self.last_channel.set(self.last_channel.get() + 1);
        self.channel_of(self.last_channel.get())
    }

    /// Opens a channel by its number.
    pub(super) fn channel_of(&self, id: u16) -> anyhow::Result<Channel<'_>> {
        let channel = self.unopened(id);
        channel.open()?;
        Ok(channel)
    }

    /// A channel that the broker knows nothing of.
    pub(super) fn unopened(&self, id: u16) -> Channel<'_> {
        Channel::new(self, id)
    }

    pub(super) fn send(&self, channel: u16, method: impl Method) -> anyhow::Result<()> {
        let frame = AMQPFrame::Method(channel, method.wrap());
        self.wire.write(&encoded(&frame))
    }

    /// The next method for the connection itself, which must be of this type.
    pub(super) fn receive<M: Method>(&self) -> anyhow::Result<M> {
        let event = self.event(0)?;
        M::unwrap(event.method).map_err(|other| unexpected(M::NAME, &other))
    }

    /// The next method of a channel, with its content. The end of the connection is an error, unless it is waited for.
    pub(super) fn event(&self, channel: u16) -> anyhow::Result<Event> {
        let frame = self.frame(channel)?;
        ensure!(
            frame.kind == METHOD,
            "in place of a method came a frame of type {}",
            frame.kind
        );
        let method = parsed(&frame)?;
        let content = if carries_content(&method) {
            Some(self.content(channel)?)
        } else {
            None
        };
        Ok(Event { method, content })
    }

    fn content(&self, channel: u16) -> anyhow::Result<Content> {
        let header = self.frame(channel)?;
        ensure!(
            header.kind == HEADER,
            "in place of a content header came a frame of type {}",
            header.kind
        );
        let (_, parsed) = parse_content_header(&header.payload[..])
            .map_err(|error| anyhow!("a content header is malformed: {error:?}"))?;
        let mut content = Content {
            properties: parsed.properties,
            raw_properties: header.payload[12..].to_vec(),
            body: Vec::new(),
        };
        while (content.body.len() as u64) < parsed.body_size {
            let frame = self.frame(channel)?;
            ensure!(
                frame.kind == BODY,
                "in place of a body came a frame of type {}",
                frame.kind
            );
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

    /// The next frame of a channel; those of others wait for their turn. Heartbeats are passed over.
    fn frame(&self, channel: u16) -> anyhow::Result<Frame> {
        let limit = clock::now() + u64::try_from(PATIENCE.as_nanos())?;
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
            ensure!(clock::now() < limit, "no answer within {PATIENCE:?}");
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

    /// Asserts that the broker closes the connection with this reply code, and then the socket. Returns what it says.
    pub(super) fn breaks(&self, code: u16) -> anyhow::Result<connection::Close> {
        let close: connection::Close = self.receive()?;
        ensure!(
            close.reply_code == code,
            "the connection is closed with {} ({}) in place of {code}",
            close.reply_code,
            close.reply_text
        );
        self.send(0, connection::CloseOk {})?;
        self.wire.ends()?;
        Ok(close)
    }

    /// Asserts that the broker ends the connection, with `connection.close` or without.
    pub(super) fn is_given_up(&self) -> anyhow::Result<()> {
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

    /// Sends a method on a channel and asserts that the connection is closed with this reply code and the method's ids.
    pub(super) fn breaks_on(
        &self,
        channel: u16,
        code: u16,
        method: impl Method,
    ) -> anyhow::Result<()> {
        let ids = method.ids();
        self.send(channel, method)?;
        let close = self.breaks(code)?;
        let named = (close.class_id, close.method_id);
        ensure!(
            named == ids,
            "{code} names the method {named:?} in place of {ids:?}"
        );
        Ok(())
    }

    /// Closes it in good order. Who closes the socket first is left open: RabbitMQ waits for the client.
    pub(super) fn close(&self) -> anyhow::Result<()> {
        let close = connection::Close {
            reply_code: 200,
            reply_text: "done".into(),
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

/// What came in place of what should have.
pub(super) fn unexpected(expected: &str, other: &AMQPClass) -> anyhow::Error {
    use amq_protocol::protocol::channel;
    match other {
        AMQPClass::Connection(connection::AMQPMethod::Close(close)) => anyhow!(
            "in place of {expected} the connection is closed: {} {}",
            close.reply_code,
            close.reply_text
        ),
        AMQPClass::Channel(channel::AMQPMethod::Close(close)) => anyhow!(
            "in place of {expected} the channel is closed: {} {}",
            close.reply_code,
            close.reply_text
        ),
        other => anyhow!("in place of {expected} came {other:?}"),
    }
}
