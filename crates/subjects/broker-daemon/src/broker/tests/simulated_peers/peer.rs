//! A simulated AMQP client: sends requests without waiting for answers, and checks all that it receives.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::mem;

use amq_protocol::frame::{AMQPContentHeader, AMQPFrame, gen_frame, parse_frame};
use amq_protocol::protocol::basic::{self, AMQPMethod as Basic, AMQPProperties};
use amq_protocol::protocol::channel::{self, AMQPMethod as ChannelMethod};
use amq_protocol::protocol::connection::{self, AMQPMethod as ConnectionMethod};
use amq_protocol::protocol::queue::{self, AMQPMethod as QueueMethod};
use amq_protocol::protocol::{AMQPClass, confirm, tx};
use amq_protocol::types::{AMQPValue, FieldTable};

/// The longest body.
pub(crate) const LONGEST: usize = 100_000;
/// Bodies repeat this byte after the number of their message.
static FILLING: [u8; LONGEST] = [b'x'; LONGEST];
const FRAME_MAX: usize = 16_384;
/// Bytes of a frame besides its payload.
const OVERHEAD: usize = 8;
/// The messages that `Queue::Full` takes.
const ROOM: i32 = 5;
/// The exchange of messages for several queues.
const EXCHANGE: &str = "amq.fanout";
/// The parts of a greeting.
const PARTS: usize = 4;

/// A queue, which is declared in the same way each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Queue {
    /// Durable, never deleted or purged: nothing of it may be lost.
    Kept,
    Plain,
    Auto,
    /// Exclusive: others that use it are refused.
    Own,
    /// Its messages expire, and go to `Dead`.
    Brief,
    Single,
    /// Refuses messages when it is full.
    Full,
    /// Drops the oldest messages when it is full.
    Short,
    Dead,
}

pub(crate) const QUEUES: [Queue; 9] = [
    Queue::Kept,
    Queue::Plain,
    Queue::Auto,
    Queue::Own,
    Queue::Brief,
    Queue::Single,
    Queue::Full,
    Queue::Short,
    Queue::Dead,
];

impl Queue {
    fn name(self) -> String {
        format!("{self:?}")
    }

    fn declare(self) -> queue::Declare {
        let number = |name: &str, value| (name.to_owned(), AMQPValue::LongInt(value));
        let text =
            |name: &str, value: String| (name.to_owned(), AMQPValue::LongString(value.into()));
        let arguments = match self {
            Self::Brief => vec![
                number("x-message-ttl", 1000),
                text("x-dead-letter-exchange", String::new()),
                text("x-dead-letter-routing-key", Self::Dead.name()),
            ],
            Self::Single => vec![(
                "x-single-active-consumer".to_owned(),
                AMQPValue::Boolean(true),
            )],
            Self::Full => vec![
                number("x-max-length", ROOM),
                text("x-overflow", "reject-publish".to_owned()),
            ],
            Self::Short => vec![number("x-max-length", ROOM)],
            _ => Vec::new(),
        };
        let mut table = FieldTable::default();
        for (name, value) in arguments {
            table.insert(name.into(), value);
        }
        queue::Declare {
            queue: self.name().into(),
            durable: self == Self::Kept,
            exclusive: self == Self::Own,
            auto_delete: self == Self::Auto,
            arguments: table,
            ..queue::Declare::default()
        }
    }
}

/// The way in which a client settles deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settlement {
    Ack,
    Requeue,
    Reject,
}

/// A request of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    Heartbeat,
    /// A part of the greeting, in whatever order.
    Greet(usize),
    Goodbye,
    Open,
    Close,
    Declare(Queue),
    /// Declares the queue as one that differs.
    Redeclare(Queue),
    Delete(Queue),
    Purge(Queue),
    Bind(Queue),
    /// A message of this length.
    Publish(Queue, usize),
    PublishToAll(usize),
    /// A message whose body does not follow.
    Begin(Queue),
    /// A body that belongs to no message.
    StrayBody,
    SelectConfirms,
    SelectTx,
    Commit,
    RollBack,
    Qos(u16),
    /// True: without acknowledgements.
    Consume(Queue, bool),
    Cancel,
    Get(Queue, bool),
    /// Settles one of the deliveries, or all up to it.
    Settle(usize, bool, Settlement),
    SettleUnknown,
    Recover,
}

/// A message that was published.
#[derive(Debug)]
struct Published {
    length: usize,
    /// Tells the channel that published it from others.
    publisher: usize,
    /// Its queue; `None` for all that are bound.
    to: Option<Queue>,
}

/// All messages of all clients.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    published: Vec<Published>,
    /// Messages delivered as if for the first time.
    first: HashSet<(Queue, u32)>,
    /// Messages in `Queue::Kept` that the broker has confirmed or committed.
    confirmed: BTreeSet<u32>,
    /// Messages of `Queue::Kept` for which some client has sent a settlement.
    settled: BTreeSet<u32>,
    /// Messages of `Queue::Kept` whose settlement is certain: the broker has answered what came after it.
    pub(crate) over: BTreeSet<u32>,
    /// Messages of `Queue::Kept` that were taken at the end.
    found: BTreeSet<u32>,
    /// Nothing was left there.
    pub(crate) is_complete: bool,
}

impl Ledger {
    /// Checks what was taken from `Queue::Kept` by [`Ask::Get`] after all others had left.
    pub(crate) fn check(&self) -> Result<(), String> {
        let lost = |number: &&u32| !self.settled.contains(number) && !self.found.contains(number);
        if let Some(number) = self.confirmed.iter().find(lost) {
            return Err(format!("lost: message {number}, which was confirmed"));
        }
        match self.over.intersection(&self.found).next() {
            Some(number) => Err(format!(
                "returned: message {number}, which was acknowledged"
            )),
            None => Ok(()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Mode {
    #[default]
    Plain,
    Confirm,
    Tx,
}

/// A request that is not answered.
#[derive(Debug)]
struct Pending {
    ask: Ask,
    ids: (u16, u16),
    /// The settlements and the publishes of the channel before it.
    settled: usize,
    published: usize,
}

/// The begin of a message that is being received.
#[derive(Debug)]
enum Head {
    Delivery {
        queue: Queue,
        no_ack: bool,
        tag: u64,
        redelivered: bool,
    },
    Return,
}

#[derive(Debug)]
struct Content {
    head: Head,
    missing: Option<u64>,
    body: Vec<u8>,
}

/// A channel from its request to open to the answer to its end. One that ends and the next one with its number may exist
/// at the same time.
#[derive(Debug, Default)]
struct Channel {
    is_closing: bool,
    pending: VecDeque<Pending>,
    /// Consumers by tag: their queues, and true if they do not acknowledge.
    consumers: BTreeMap<String, (Queue, bool)>,
    last_tag: u64,
    held: BTreeMap<u64, (Queue, u32)>,
    /// Messages of `Queue::Kept` that were settled, and that were published, in order. Those before `certain` and
    /// `stored` are dealt with.
    settled: Vec<u32>,
    certain: usize,
    published: Vec<u32>,
    stored: usize,
    mode: Mode,
    last_confirm: u64,
    unconfirmed: BTreeMap<u64, u32>,
    returned: HashSet<u32>,
    /// The last message from each queue and publisher.
    last: HashMap<(Queue, usize), u32>,
    content: Option<Content>,
}

/// A client that is connected.
#[derive(Debug)]
pub(crate) struct Peer<S> {
    socket: S,
    /// Its number among all sessions.
    number: usize,
    heartbeat: u16,
    greeted: usize,
    unsent: Vec<u8>,
    unread: Vec<u8>,
    channels: BTreeMap<u16, VecDeque<Channel>>,
    next_consumer: usize,
    /// The connection is closed, or about to be.
    pub(crate) is_over: bool,
}

impl<S: Read + Write> Peer<S> {
    pub(crate) fn new(socket: S, number: usize) -> Self {
        Self {
            socket,
            number,
            // Every third one promises to be alive.
            heartbeat: if number % 3 == 2 { 2 } else { 0 },
            greeted: 0,
            unsent: Vec::new(),
            unread: Vec::new(),
            channels: BTreeMap::new(),
            next_consumer: 0,
            is_over: false,
        }
    }

    /// Sends the rest of the greeting.
    pub(crate) fn log_in(&mut self) {
        while self.greeted < PARTS {
            self.greet(self.greeted);
        }
    }

    /// Returns true if it awaits no answer and no confirm.
    pub(crate) fn is_answered(&self) -> bool {
        let all = self.channels.values().flatten();
        let mut waiting =
            all.filter(|channel| !channel.pending.is_empty() || !channel.unconfirmed.is_empty());
        self.is_over || waiting.next().is_none()
    }

    fn greet(&mut self, part: usize) {
        let method = match part {
            0 => {
                self.unsent.extend_from_slice(b"AMQP\x00\x00\x09\x01");
                self.greeted = self.greeted.max(1);
                return;
            }
            1 => {
                let mut capabilities = FieldTable::default();
                for name in ["consumer_cancel_notify", "connection.blocked"] {
                    capabilities.insert(name.into(), AMQPValue::Boolean(true));
                }
                let mut client_properties = FieldTable::default();
                client_properties
                    .insert("capabilities".into(), AMQPValue::FieldTable(capabilities));
                ConnectionMethod::StartOk(connection::StartOk {
                    client_properties,
                    mechanism: "PLAIN".into(),
                    response: "\0guest\0guest".into(),
                    locale: "en_US".into(),
                })
            }
            2 => ConnectionMethod::TuneOk(connection::TuneOk {
                channel_max: 10,
                frame_max: FRAME_MAX as u32,
                heartbeat: self.heartbeat,
            }),
            _ => ConnectionMethod::Open(connection::Open {
                virtual_host: "/".into(),
            }),
        };
        self.greeted = self.greeted.max(part + 1);
        self.method(0, AMQPClass::Connection(method));
    }

    fn method(&mut self, channel: u16, method: AMQPClass) {
        self.frame(&AMQPFrame::Method(channel, method));
    }

    fn frame(&mut self, frame: &AMQPFrame) {
        let bytes = mem::take(&mut self.unsent);
        let written = gen_frame(frame)(bytes.into()).expect("a vector takes every frame");
        self.unsent = written.into_inner().0;
    }

    /// Adds a request to what it sends. One that needs a channel opens it.
    pub(crate) fn ask(&mut self, number: u16, ask: Ask, ledger: &mut Ledger) {
        match ask {
            Ask::Greet(part) => return self.greet(part),
            _ if self.greeted < PARTS => return self.greet(self.greeted),
            Ask::Heartbeat => return self.frame(&AMQPFrame::Heartbeat),
            Ask::Goodbye => {
                let close = ConnectionMethod::Close(connection::Close::default());
                return self.method(0, AMQPClass::Connection(close));
            }
            Ask::StrayBody => return self.frame(&AMQPFrame::Body(number, b"x".to_vec())),
            _ => {}
        }
        let open = self.channels.get(&number).and_then(VecDeque::back);
        if open.is_none_or(|channel| channel.is_closing) {
            self.channels
                .entry(number)
                .or_default()
                .push_back(Channel::default());
            let open = ChannelMethod::Open(channel::Open {});
            self.request(number, Ask::Open, AMQPClass::Channel(open));
        }
        match ask {
            Ask::Open => {}
            Ask::Publish(queue, length) => self.publish(number, Some(queue), length, ledger),
            Ask::PublishToAll(length) => self.publish(number, None, length, ledger),
            Ask::Begin(queue) => self.begin_message(number, Some(queue), 10),
            Ask::Settle(which, multiple, how) => self.settle(number, which, multiple, how, ledger),
            _ => {
                let method = self.simple(number, ask);
                self.request(number, ask, method);
            }
        }
    }

    /// Returns the channel that it sends to.
    fn channel(&mut self, number: u16) -> &mut Channel {
        let all = self.channels.get_mut(&number);
        all.and_then(VecDeque::back_mut).expect("it was opened")
    }

    fn request(&mut self, number: u16, ask: Ask, method: AMQPClass) {
        let ids = (method.get_amqp_class_id(), method.get_amqp_method_id());
        self.method(number, method);
        let channel = self.channel(number);
        match ask {
            Ask::Close => channel.is_closing = true,
            Ask::SelectConfirms if channel.mode == Mode::Plain => channel.mode = Mode::Confirm,
            Ask::SelectTx if channel.mode == Mode::Plain => channel.mode = Mode::Tx,
            _ => {}
        }
        if ask != Ask::SettleUnknown {
            channel.pending.push_back(Pending {
                ask,
                ids,
                settled: channel.settled.len(),
                published: channel.published.len(),
            });
        }
    }

    /// Returns the method of a request that is nothing else.
    fn simple(&mut self, number: u16, ask: Ask) -> AMQPClass {
        let of_queue = |queue: Queue| queue.name().into();
        match ask {
            Ask::Declare(queue) => AMQPClass::Queue(QueueMethod::Declare(queue.declare())),
            Ask::Redeclare(queue) => {
                let mut declare = queue.declare();
                declare.durable = !declare.durable;
                AMQPClass::Queue(QueueMethod::Declare(declare))
            }
            Ask::Delete(queue) => AMQPClass::Queue(QueueMethod::Delete(queue::Delete {
                queue: of_queue(queue),
                ..queue::Delete::default()
            })),
            Ask::Purge(queue) => AMQPClass::Queue(QueueMethod::Purge(queue::Purge {
                queue: of_queue(queue),
                nowait: false,
            })),
            Ask::Bind(queue) => AMQPClass::Queue(QueueMethod::Bind(queue::Bind {
                queue: of_queue(queue),
                exchange: EXCHANGE.into(),
                ..queue::Bind::default()
            })),
            Ask::SelectConfirms => {
                AMQPClass::Confirm(confirm::AMQPMethod::Select(confirm::Select {
                    nowait: false,
                }))
            }
            Ask::SelectTx => AMQPClass::Tx(tx::AMQPMethod::Select(tx::Select {})),
            Ask::Commit => AMQPClass::Tx(tx::AMQPMethod::Commit(tx::Commit {})),
            Ask::RollBack => AMQPClass::Tx(tx::AMQPMethod::Rollback(tx::Rollback {})),
            Ask::Close => AMQPClass::Channel(ChannelMethod::Close(channel::Close::default())),
            _ => AMQPClass::Basic(self.basic(number, ask)),
        }
    }

    fn basic(&mut self, number: u16, ask: Ask) -> Basic {
        match ask {
            Ask::Qos(prefetch_count) => Basic::Qos(basic::Qos {
                prefetch_count,
                global: prefetch_count % 2 == 0,
            }),
            Ask::Consume(queue, no_ack) => {
                self.next_consumer += 1;
                Basic::Consume(basic::Consume {
                    queue: queue.name().into(),
                    consumer_tag: format!("c{}", self.next_consumer).into(),
                    no_ack,
                    ..basic::Consume::default()
                })
            }
            Ask::Cancel => {
                let oldest = self.channel(number).consumers.keys().next();
                Basic::Cancel(basic::Cancel {
                    consumer_tag: oldest.map_or("unknown", String::as_str).into(),
                    nowait: false,
                })
            }
            Ask::Get(queue, no_ack) => Basic::Get(basic::Get {
                queue: queue.name().into(),
                no_ack,
            }),
            Ask::Recover => Basic::Recover(basic::Recover { requeue: true }),
            _ => Basic::Ack(basic::Ack {
                delivery_tag: u64::MAX,
                multiple: false,
            }),
        }
    }

    fn begin_message(&mut self, number: u16, to: Option<Queue>, length: usize) {
        let publish = Basic::Publish(basic::Publish {
            exchange: to.map_or(EXCHANGE, |_| "").into(),
            routing_key: to.map_or_else(String::new, Queue::name).into(),
            mandatory: true,
            immediate: false,
        });
        self.method(number, AMQPClass::Basic(publish));
        let header = AMQPContentHeader {
            class_id: 60,
            body_size: length as u64,
            properties: AMQPProperties::default().with_delivery_mode(2),
        };
        self.frame(&AMQPFrame::Header(number, header));
    }

    fn publish(&mut self, number: u16, to: Option<Queue>, length: usize, ledger: &mut Ledger) {
        self.begin_message(number, to, length);
        let message = ledger.published.len() as u32;
        let publisher = 16 * self.number + usize::from(number);
        ledger.published.push(Published {
            length,
            publisher,
            to,
        });
        let mut body = message.to_be_bytes().to_vec();
        body.extend_from_slice(&FILLING[4..length]);
        for part in body.chunks(FRAME_MAX - OVERHEAD) {
            self.frame(&AMQPFrame::Body(number, part.to_vec()));
        }
        let channel = self.channel(number);
        if channel.mode == Mode::Confirm {
            channel.last_confirm += 1;
            channel.unconfirmed.insert(channel.last_confirm, message);
        }
        if to == Some(Queue::Kept) {
            channel.published.push(message);
        }
    }

    fn settle(
        &mut self,
        number: u16,
        which: usize,
        multiple: bool,
        how: Settlement,
        ledger: &mut Ledger,
    ) {
        let channel = self.channel(number);
        let count = channel.held.len();
        let Some(tag) = channel.held.keys().nth(which % count.max(1)).copied() else {
            return;
        };
        let mut taken = if multiple {
            let rest = channel.held.split_off(&(tag + 1));
            mem::replace(&mut channel.held, rest)
        } else {
            BTreeMap::from_iter(channel.held.remove_entry(&tag))
        };
        taken.retain(|_, (queue, _)| *queue == Queue::Kept && how != Settlement::Requeue);
        for (_, message) in taken.into_values() {
            ledger.settled.insert(message);
            channel.settled.push(message);
        }
        let requeue = how == Settlement::Requeue;
        let method = match (how, multiple) {
            (Settlement::Ack, _) => Basic::Ack(basic::Ack {
                delivery_tag: tag,
                multiple,
            }),
            (_, true) => Basic::Nack(basic::Nack {
                delivery_tag: tag,
                multiple,
                requeue,
            }),
            (_, false) => Basic::Reject(basic::Reject {
                delivery_tag: tag,
                requeue,
            }),
        };
        self.method(number, AMQPClass::Basic(method));
    }

    /// Settles all deliveries.
    pub(crate) fn settle_all(&mut self, ledger: &mut Ledger) {
        let open = |channels: &VecDeque<Channel>| {
            let channel = channels.back().filter(|channel| !channel.is_closing)?;
            Some((channel.held.len(), channel.mode)).filter(|(count, _)| *count > 0)
        };
        let held = self.channels.iter();
        let held: Vec<_> = held
            .filter_map(|(number, all)| Some((*number, open(all)?)))
            .collect();
        for (number, (count, mode)) in held {
            self.ask(
                number,
                Ask::Settle(count - 1, true, Settlement::Ack),
                ledger,
            );
            if mode == Mode::Tx {
                self.ask(number, Ask::Commit, ledger);
            }
        }
    }

    /// Sends what its socket takes, but not the last bytes that it wants to keep.
    pub(crate) fn write(&mut self, kept: usize) {
        let mut end = self.unsent.len().saturating_sub(kept);
        while end > 0 && !self.is_over {
            match self.socket.write(&self.unsent[..end]) {
                Ok(written) => {
                    self.unsent.drain(..written);
                    end -= written;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.is_over = true,
            }
        }
    }

    /// Receives all that has arrived. Returns true if it was something.
    pub(crate) fn receive(&mut self, ledger: &mut Ledger) -> Result<bool, String> {
        let mut is_progress = false;
        let mut bytes = [0; 64 << 10];
        loop {
            match self.socket.read(&mut bytes) {
                Ok(length @ 1..) => self.unread.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(is_progress),
                Ok(0) | Err(_) => {
                    self.is_over = true;
                    return Ok(is_progress);
                }
            }
            is_progress = true;
            let unread = mem::take(&mut self.unread);
            let mut rest = &unread[..];
            while !self.is_over
                && let Some(length) = frame_length(rest)
            {
                let (frame, next) = rest.split_at(length);
                if self.greeted >= PARTS && length > FRAME_MAX {
                    return Err(format!("a frame of {length} bytes"));
                }
                let (_, frame) =
                    parse_frame(frame).map_err(|error| format!("unreadable: {error:?}"))?;
                self.received(frame, ledger)?;
                rest = next;
            }
            self.unread = rest.to_vec();
        }
    }

    fn received(&mut self, frame: AMQPFrame, ledger: &mut Ledger) -> Result<(), String> {
        match frame {
            AMQPFrame::Heartbeat => Ok(()),
            AMQPFrame::InvalidHeartbeat(_) => {
                Err("unexpected: a heartbeat of a channel".to_owned())
            }
            AMQPFrame::ProtocolHeader(_) => {
                self.is_over = true;
                Ok(())
            }
            AMQPFrame::Method(0, AMQPClass::Connection(method)) => {
                if let ConnectionMethod::Close(_) = method {
                    let ok = ConnectionMethod::CloseOk(connection::CloseOk {});
                    self.method(0, AMQPClass::Connection(ok));
                    self.write(0);
                }
                self.is_over |= matches!(
                    method,
                    ConnectionMethod::Close(_) | ConnectionMethod::CloseOk(_)
                );
                Ok(())
            }
            AMQPFrame::Method(number, AMQPClass::Channel(ChannelMethod::Close(_))) => {
                self.closed_by_broker(number)
            }
            AMQPFrame::Method(number, method) => {
                let channel = self.open_channel(number)?;
                let is_over = channel.method(method, ledger)?;
                if is_over && let Some(all) = self.channels.get_mut(&number) {
                    all.pop_front();
                }
                Ok(())
            }
            AMQPFrame::Header(number, header) => {
                let channel = self.open_channel(number)?;
                match &mut channel.content {
                    Some(content) if content.missing.is_none() => {
                        content.missing = Some(header.body_size)
                    }
                    _ => return Err("unexpected: a content header".to_owned()),
                }
                Ok(())
            }
            AMQPFrame::Body(number, body) => self.open_channel(number)?.body(&body, ledger),
        }
    }

    /// Returns the channel that it receives from.
    fn open_channel(&mut self, number: u16) -> Result<&mut Channel, String> {
        let all = self.channels.get_mut(&number);
        let channel = all.and_then(VecDeque::front_mut);
        channel.ok_or_else(|| format!("unexpected: a frame on channel {number}, which is not open"))
    }

    fn closed_by_broker(&mut self, number: u16) -> Result<(), String> {
        let channel = self.open_channel(number)?;
        // Nothing that it has sent before is answered, but that it closes the channel too.
        *channel = Channel {
            is_closing: true,
            pending: mem::take(&mut channel.pending)
                .into_iter()
                .filter(|pending| pending.ask == Ask::Close)
                .collect(),
            ..Channel::default()
        };
        if channel.pending.is_empty()
            && let Some(all) = self.channels.get_mut(&number)
        {
            all.pop_front();
        }
        let ok = ChannelMethod::CloseOk(channel::CloseOk {});
        self.method(number, AMQPClass::Channel(ok));
        Ok(())
    }
}

impl Channel {
    /// Handles a method. Returns true if it is the end of the channel.
    fn method(&mut self, method: AMQPClass, ledger: &mut Ledger) -> Result<bool, String> {
        if self.content.is_some() {
            return Err(format!("unexpected: {method:?} within a message"));
        }
        match method {
            AMQPClass::Basic(Basic::Deliver(deliver)) => {
                let (tag, consumer) = (deliver.delivery_tag, deliver.consumer_tag.as_str());
                let Some((queue, no_ack)) = self.consumers.get(consumer).copied() else {
                    return Err(format!(
                        "stranger: a delivery to {consumer}, which is no consumer"
                    ));
                };
                self.begin(Head::Delivery {
                    queue,
                    no_ack,
                    tag,
                    redelivered: deliver.redelivered,
                });
            }
            AMQPClass::Basic(Basic::GetOk(ok)) => {
                let Some(Pending {
                    ask: Ask::Get(queue, no_ack),
                    ..
                }) = self.pending.pop_front()
                else {
                    return Err("unexpected: basic.get-ok".to_owned());
                };
                self.begin(Head::Delivery {
                    queue,
                    no_ack,
                    tag: ok.delivery_tag,
                    redelivered: ok.redelivered,
                });
            }
            AMQPClass::Basic(Basic::Return(_)) => self.begin(Head::Return),
            AMQPClass::Basic(Basic::Ack(ack)) => {
                for message in self.take_confirmed(ack.delivery_tag, ack.multiple)? {
                    if ledger.published[message as usize].to == Some(Queue::Kept)
                        && !self.returned.contains(&message)
                    {
                        ledger.confirmed.insert(message);
                    }
                }
            }
            AMQPClass::Basic(Basic::Nack(nack)) => {
                for message in self.take_confirmed(nack.delivery_tag, nack.multiple)? {
                    let to = ledger.published[message as usize].to;
                    if to.is_some_and(|queue| queue != Queue::Full) {
                        return Err(format!("refused: a message for {to:?}"));
                    }
                }
            }
            AMQPClass::Basic(Basic::Cancel(cancel)) => {
                let tag = cancel.consumer_tag.as_str();
                if self.consumers.remove(tag).is_none() {
                    return Err(format!(
                        "stranger: {tag} is cancelled, which is no consumer"
                    ));
                }
            }
            other => return self.answered(&other, ledger),
        }
        Ok(false)
    }

    fn begin(&mut self, head: Head) {
        self.content = Some(Content {
            head,
            missing: None,
            body: Vec::new(),
        });
    }

    /// Takes the messages that a confirm is about.
    fn take_confirmed(&mut self, tag: u64, multiple: bool) -> Result<Vec<u32>, String> {
        let rest = self.unconfirmed.split_off(&(tag + 1));
        let mut taken = mem::replace(&mut self.unconfirmed, rest);
        let last = taken.remove(&tag);
        if !multiple {
            self.unconfirmed.append(&mut taken);
        }
        let last =
            last.ok_or_else(|| format!("stranger: confirm {tag} of a message that awaits none"))?;
        Ok(taken.into_values().chain([last]).collect())
    }

    /// Handles the answer to a request. Returns true if it is the end of the channel.
    fn answered(&mut self, method: &AMQPClass, ledger: &mut Ledger) -> Result<bool, String> {
        let ids = (method.get_amqp_class_id(), method.get_amqp_method_id());
        let pending = self.pending.pop_front();
        let Some(pending) = pending.filter(|pending| is_answer(ids, pending.ids)) else {
            return Err(format!("unexpected: {method:?}"));
        };
        match (pending.ask, method) {
            (Ask::Consume(queue, no_ack), AMQPClass::Basic(Basic::ConsumeOk(ok))) => {
                self.consumers
                    .insert(ok.consumer_tag.to_string(), (queue, no_ack));
            }
            (_, AMQPClass::Basic(Basic::CancelOk(ok))) => {
                self.consumers.remove(ok.consumer_tag.as_str());
            }
            (Ask::Recover, _) => self.held.clear(),
            (Ask::Get(Queue::Kept, true), _) => ledger.is_complete = true,
            (Ask::Commit, _) => {
                let stored = self
                    .published
                    .get(self.stored..pending.published)
                    .unwrap_or_default();
                let kept = stored
                    .iter()
                    .filter(|message| !self.returned.contains(message));
                ledger.confirmed.extend(kept);
            }
            _ => {}
        }
        if self.mode != Mode::Tx || pending.ask == Ask::Commit {
            let certain = self
                .settled
                .get(self.certain..pending.settled)
                .unwrap_or_default();
            ledger.over.extend(certain);
        }
        if self.mode != Mode::Tx || matches!(pending.ask, Ask::Commit | Ask::RollBack) {
            self.certain = pending.settled;
            self.stored = pending.published;
        }
        Ok(pending.ask == Ask::Close)
    }

    fn body(&mut self, part: &[u8], ledger: &mut Ledger) -> Result<(), String> {
        let Some(Content {
            missing: Some(missing),
            body,
            ..
        }) = &mut self.content
        else {
            return Err("unexpected: a content body".to_owned());
        };
        body.extend_from_slice(part);
        *missing = missing
            .checked_sub(part.len() as u64)
            .ok_or("a body that is too long")?;
        if *missing > 0 {
            return Ok(());
        }
        let Some(Content { head, body, .. }) = self.content.take() else {
            return Ok(());
        };
        let (number, rest) = body.split_first_chunk().ok_or("a body that is too short")?;
        let number = u32::from_be_bytes(*number);
        let message = ledger.published.get(number as usize);
        let message = message
            .filter(|message| message.length == body.len() && *rest == FILLING[4..body.len()]);
        let Some(message) = message else {
            return Err(format!(
                "stranger: a message {number} that nobody has published"
            ));
        };
        match head {
            Head::Return => {
                self.returned.insert(number);
                Ok(())
            }
            Head::Delivery {
                queue,
                no_ack,
                tag,
                redelivered,
            } => {
                if tag != self.last_tag + 1 {
                    return Err(format!("delivery {tag} after {}", self.last_tag));
                }
                self.last_tag = tag;
                if message.to.is_some_and(|to| to != queue) && queue != Queue::Dead {
                    return Err(format!(
                        "stranger: message {number} of {:?} in {queue:?}",
                        message.to
                    ));
                }
                let is_first = !redelivered && queue != Queue::Dead;
                if is_first && !ledger.first.insert((queue, number)) {
                    return Err(format!(
                        "twice: message {number} of {queue:?}, not marked as redelivered"
                    ));
                }
                // What was requeued has returned to its position, which shows if one client takes all.
                if is_first || (queue, no_ack) == (Queue::Kept, true) {
                    let last = self.last.insert((queue, message.publisher), number);
                    if last.is_some_and(|last| last > number) {
                        return Err(format!(
                            "order: message {number} of {queue:?} after {last:?}"
                        ));
                    }
                }
                if !no_ack {
                    self.held.insert(tag, (queue, number));
                } else if queue == Queue::Kept && !ledger.found.insert(number) {
                    return Err(format!("twice: message {number} at the end"));
                }
                Ok(())
            }
        }
    }
}

/// Returns true if a method answers the request with these ids.
fn is_answer(ids: (u16, u16), request: (u16, u16)) -> bool {
    // basic.get has two answers.
    ids == (request.0, request.1 + 1) || (ids, request) == ((60, 72), (60, 70))
}

/// Returns the length of the first frame if it is complete.
fn frame_length(bytes: &[u8]) -> Option<usize> {
    let length = match bytes {
        [b'A', ..] => OVERHEAD,
        [_, _, _, a, b, c, d, ..] => u32::from_be_bytes([*a, *b, *c, *d]) as usize + OVERHEAD,
        _ => return None,
    };
    (bytes.len() >= length).then_some(length)
}
