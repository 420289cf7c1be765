//! A simulated AMQP client: sends requests without waiting for answers, and checks all that it receives.

use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::mem;

use amq_protocol::frame::{AMQPContentHeader, AMQPFrame, gen_frame, parse_frame};
use amq_protocol::protocol::AMQPClass;
use amq_protocol::protocol::basic::{self, AMQPMethod as Basic, AMQPProperties};
use amq_protocol::protocol::channel::{self, AMQPMethod as ChannelMethod};
use amq_protocol::protocol::connection::{self, AMQPMethod as ConnectionMethod};
use amq_protocol::types::{AMQPValue, FieldTable};

use super::ask::{Ask, EXCHANGE, Queue, Settlement};
use super::channel::{Channel, FILLING, Mode, Pending};
use super::ledger::{Ledger, Published};

const FRAME_MAX: usize = 16_384;
/// Bytes of a frame besides its payload.
const OVERHEAD: usize = 8;
/// The parts of a greeting.
const PARTS: usize = 4;

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
            Ask::Cancel => {
                let oldest = self.channel(number).consumers.keys().next().cloned();
                let method = ask.method(&oldest.unwrap_or_default());
                self.request(number, ask, method);
            }
            _ => {
                self.next_consumer += 1;
                let method = ask.method(&format!("c{}", self.next_consumer));
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
            Ask::SettleAll => channel.settles_all = true,
            Ask::SelectConfirms if channel.mode == Mode::Plain => channel.mode = Mode::Confirm,
            Ask::SelectTx if channel.mode == Mode::Plain => channel.mode = Mode::Tx,
            _ => {}
        }
        if !matches!(ask, Ask::SettleUnknown | Ask::SettleAll) {
            channel.pending.push_back(Pending {
                ask,
                ids,
                settled: channel.settled.len(),
                published: channel.published.len(),
            });
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

    /// Ends all transactions. What the client has not settled, or not for good, is settled then.
    pub(crate) fn commit_all(&mut self, ledger: &mut Ledger) {
        let channels = self.channels.iter();
        let open = channels.filter_map(|(number, all)| Some((*number, all.back()?)));
        let in_tx = open.filter(|(_, channel)| !channel.is_closing && channel.mode == Mode::Tx);
        let in_tx: Vec<u16> = in_tx.map(|(number, _)| number).collect();
        for number in in_tx {
            self.ask(number, Ask::SettleAll, ledger);
            self.ask(number, Ask::Commit, ledger);
        }
    }

    /// Sends what its socket takes, but not the last bytes that it wants to keep. Returns true if it was something.
    pub(crate) fn write(&mut self, kept: usize) -> bool {
        let mut sent = 0;
        let end = self.unsent.len().saturating_sub(kept);
        while sent < end && !self.is_over {
            match self.socket.write(&self.unsent[sent..end]) {
                Ok(written) => sent += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.is_over = true,
            }
        }
        self.unsent.drain(..sent);
        sent > 0
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
        channel.refuse();
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

/// Returns the length of the first frame if it is complete.
fn frame_length(bytes: &[u8]) -> Option<usize> {
    let length = match bytes {
        [b'A', ..] => OVERHEAD,
        [_, _, _, a, b, c, d, ..] => u32::from_be_bytes([*a, *b, *c, *d]) as usize + OVERHEAD,
        _ => return None,
    };
    (bytes.len() >= length).then_some(length)
}
