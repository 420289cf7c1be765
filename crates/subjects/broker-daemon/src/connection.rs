//! A connection: the state of its negotiation, its channels, its input and its pending output. Nothing here knows a queue
//! but by its id: a queue hands over its messages by [`Connection::admit`].

use std::io::{self, IoSlice};
use std::mem;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use amq_protocol::protocol::connection;
use amq_protocol::types::{AMQPValue, FieldTable};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::channel::{Channel, Mode};
use crate::deliveries::{Delivered, Deliveries};
use crate::exchange::{Name, QueueId};
use crate::failure::{Result, channel_error, not_allowed};
use crate::message::{Meter, Share};
use crate::outbox::Outbox;
use crate::output::{Delivery, Output};
use crate::queue::{Consumer, ConsumerId, Entry};

/// Bytes of the backlog's buffer that an idle connection may keep.
const KEPT: usize = 4 * 1024;
/// Milliseconds that a client may take to negotiate, or to answer connection.close.
const NEGOTIATION_TIMEOUT: u64 = 10_000;
/// Milliseconds that a client which has hung up may still be held.
const LAST_WORDS: u64 = 2_000;
/// Milliseconds for which a client may read none of its pending output: as long as RabbitMQ gives a consumer to
/// acknowledge (`consumer_timeout`). Its messages are then requeued.
const STALLED: u64 = 30 * 60 * 1000;

/// The state of a connection (connection class, AMQP 0-9-1, 2.2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Phase {
    /// Awaits the protocol header.
    #[default]
    Header,
    /// Awaits connection.start-ok.
    Start,
    /// Awaits connection.tune-ok.
    Tune,
    /// Awaits connection.open.
    Open,
    Running,
    /// Awaits the answer to connection.close; everything else is ignored.
    Closing,
    /// Reads nothing more; pending output is written, then the socket is closed.
    Closed,
}

/// Features that the client supports (`capabilities` of its properties).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Capabilities {
    pub(crate) authentication_failure_close: bool,
    pub(crate) consumer_cancel_notify: bool,
    pub(crate) connection_blocked: bool,
}

impl Capabilities {
    pub(crate) fn read(properties: &FieldTable) -> Self {
        let table = properties.inner().get("capabilities");
        let table = table.and_then(AMQPValue::as_field_table);
        let value = |name| table?.inner().get(name);
        let has = |name| value(name) == Some(&AMQPValue::Boolean(true));
        Self {
            authentication_failure_close: has("authentication_failure_close"),
            consumer_cancel_notify: has("consumer_cancel_notify"),
            connection_blocked: has("connection.blocked"),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Connection {
    pub(crate) user: Name,
    pub(crate) vhost: usize,
    pub(crate) frame_max: usize,
    pub(crate) exclusive: Vec<QueueId>,
    /// The queue to which it publishes faster than consumers read.
    pub(crate) ahead: Option<QueueId>,
    pub(crate) outbox: Outbox,
    phase: Phase,
    /// The time of the last change to a phase that must not last, in milliseconds of the broker's clock.
    since: u64,
    socket: Option<Rc<TcpStream>>,
    /// Wakes its task when the broker's interest in the socket may have changed.
    wake: Rc<Notify>,
    channel_max: u16,
    /// Milliseconds; 0 means none.
    heartbeat: u64,
    capabilities: Capabilities,
    channels: Vec<Option<Box<Channel>>>,
    /// Unprocessed input: the beginning of a frame, or everything received while the connection was held.
    backlog: Vec<u8>,
    share: Share,
    /// The time of the last read.
    received: u64,
    /// Time at which it was first seen to have hung up while it was held.
    hung_up: Option<u64>,
    /// True if its backlog holds whole frames that had to wait.
    holds_frames: bool,
    /// True if it wants to publish while memory is short.
    is_blocked: bool,
    was_sent_blocked: bool,
    /// True if it has published before: it is warned when memory is short.
    is_publisher: bool,
}

impl Connection {
    pub(crate) fn new(
        socket: Option<Rc<TcpStream>>,
        frame_max: usize,
        now: u64,
        memory: &Rc<Meter>,
    ) -> Self {
        Self {
            socket,
            frame_max,
            share: Share::new(0, memory),
            since: now,
            received: now,
            outbox: Outbox::new(now),
            ..Self::default()
        }
    }

    /// Returns the notification that wakes its task.
    pub(crate) fn wake(&self) -> &Rc<Notify> {
        &self.wake
    }

    #[inline]
    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Returns the client's address; `None` if the client is gone.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.socket.as_ref()?.peer_addr().ok()
    }

    /// Reads the features that the client supports from its properties.
    pub(crate) fn introduce(&mut self, properties: &FieldTable) {
        self.capabilities = Capabilities::read(properties);
    }

    pub(crate) fn tune(&mut self, tune: &connection::TuneOk) {
        self.frame_max = tune.frame_max as usize;
        self.channel_max = tune.channel_max;
        self.heartbeat = u64::from(tune.heartbeat) * 1000;
        self.phase = Phase::Open;
    }

    /// Goes on to another phase.
    pub(crate) fn enter(&mut self, phase: Phase, now: u64) {
        self.phase = phase;
        if matches!(phase, Phase::Closing | Phase::Closed) {
            self.since = now;
            // The rest of its input must be read even if it was held.
            self.is_blocked = false;
            self.wake.notify_one();
        }
    }

    /// Returns true if nothing is left to read or to write.
    pub(crate) fn is_over(&self) -> bool {
        self.phase == Phase::Closed && self.outbox.pending() == 0
    }

    /// Returns the events that it waits for on its socket; `None` if the broker wakes it.
    pub(crate) fn interest(&self) -> Option<Interest> {
        let reads = self.phase != Phase::Closed && !self.is_held();
        match (reads, self.outbox.is_stuck()) {
            (true, true) => Some(Interest::READABLE | Interest::WRITABLE),
            (true, false) => Some(Interest::READABLE),
            (false, true) => Some(Interest::WRITABLE),
            (false, false) => None,
        }
    }

    /// Begins the processing of a read, which includes the backlog.
    pub(crate) fn begin_read(&mut self, now: u64) {
        self.received = now;
        self.holds_frames = false;
    }

    /// Ends the processing of a read. What is not consumed becomes the backlog.
    pub(crate) fn end_read(&mut self, input: &[u8], consumed: usize) {
        self.backlog.clear();
        if consumed == input.len() && self.backlog.capacity() > KEPT {
            self.backlog = Vec::new();
        }
        self.backlog.extend_from_slice(&input[consumed..]);
        self.account_memory();
    }

    pub(crate) fn backlog(&self) -> &[u8] {
        &self.backlog
    }

    /// Takes the backlog if it holds frames that need not wait any more.
    pub(crate) fn take_held_frames(&mut self) -> Option<Vec<u8>> {
        let may_go_on = self.holds_frames && !self.is_held();
        may_go_on.then(|| mem::take(&mut self.backlog))
    }

    /// Accounts for its memory besides messages: the beginning of a frame, and output that its socket does not accept.
    /// Input held back because memory is short does not count, since it is processed when memory is free again.
    fn account_memory(&mut self) {
        let input = if self.is_blocked || self.backlog.is_empty() {
            0
        } else {
            self.backlog.capacity()
        };
        self.share.set(input + self.outbox.own_bytes());
    }

    /// Returns true if its input must wait: until memory is free, or until it reads its answers.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.is_blocked || self.outbox.is_choked()
    }

    /// Returns true if its input must wait, which then consists of whole frames.
    #[inline]
    pub(crate) fn holds_input(&mut self) -> bool {
        let is_held = self.is_held();
        if is_held {
            self.holds_frames = true;
        }
        is_held
    }

    /// Makes its publishes and everything behind them wait for memory. Returns false if they wait already.
    pub(crate) fn block(&mut self) -> bool {
        self.holds_frames = true;
        self.is_publisher = true;
        !mem::replace(&mut self.is_blocked, true)
    }

    /// Continues after memory was short. The time in which it was not read does not count as silence.
    pub(crate) fn unblock(&mut self, now: u64) {
        self.is_blocked = false;
        self.received = now;
        self.wake.notify_one();
    }

    /// Returns true if the client must be warned now that publishers wait.
    pub(crate) fn needs_warning(&mut self) -> bool {
        self.phase == Phase::Running
            && self.is_publisher
            && self.capabilities.connection_blocked
            && !mem::replace(&mut self.was_sent_blocked, true)
    }

    /// Returns true if the client was warned, as the warning ends.
    pub(crate) fn end_warning(&mut self) -> bool {
        // The output of one that is closed may end within a frame.
        mem::take(&mut self.was_sent_blocked) && self.phase == Phase::Running
    }

    /// Returns true if the client has not negotiated, answered, read or proven to be alive in time.
    pub(crate) fn is_late(&mut self, now: u64) -> bool {
        if self.phase != Phase::Running {
            return now.saturating_sub(self.since) > NEGOTIATION_TIMEOUT;
        }
        if self.outbox.is_stuck() && self.outbox.silence(now) > STALLED {
            return true;
        }
        if self.is_held() {
            // It is not read, so nothing it sends can prove that it is alive. What it sent before it hung up is still
            // processed, if its turn comes soon.
            let has_hung_up = self.socket.as_deref().is_some_and(has_hung_up);
            if !has_hung_up {
                self.hung_up = None;
                return false;
            }
            return now.saturating_sub(*self.hung_up.get_or_insert(now)) > LAST_WORDS;
        }
        let silence = now.saturating_sub(self.received);
        self.heartbeat > 0 && silence > 2 * self.heartbeat + 1000
    }

    /// Adds a heartbeat to the output if nothing else was sent for a while.
    pub(crate) fn beat(&mut self, now: u64) -> bool {
        self.phase == Phase::Running
            && self.heartbeat > 0
            && self.outbox.beat(now, self.heartbeat / 2)
    }

    /// Begins a write. Returns its socket, unless that must become writable first.
    pub(crate) fn begin_write(&mut self, is_writable: bool) -> Option<Rc<TcpStream>> {
        if self.outbox.unlist(is_writable) {
            return self.socket.clone();
        }
        // More output has come since the socket was full.
        self.account_memory();
        None
    }

    /// Writes output with `write`, until that would block. Returns the number of bytes.
    pub(crate) fn write(
        &mut self,
        now: u64,
        spares: &mut Vec<Vec<u8>>,
        write: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> usize {
        let before = (self.is_held(), self.outbox.is_stuck());
        let (count, is_sound) = self.outbox.write(now, spares, write);
        if !is_sound {
            self.phase = Phase::Closed;
        }
        self.account_memory();
        let after = (self.is_held(), self.outbox.is_stuck());
        if before != after || self.phase == Phase::Closed {
            self.wake.notify_one();
        }
        count
    }

    #[inline]
    pub(crate) fn channel(&mut self, number: u16) -> Option<&mut Channel> {
        self.channels.get_mut(usize::from(number))?.as_deref_mut()
    }

    /// Returns the client's user and one of its channels.
    #[inline]
    pub(crate) fn user_and_channel(&mut self, number: u16) -> (&str, Option<&mut Channel>) {
        let channel = self.channels.get_mut(usize::from(number));
        let channel = channel.and_then(|channel| channel.as_deref_mut());
        (&self.user, channel)
    }

    /// Returns a channel on which the client publishes.
    #[inline]
    pub(crate) fn publishing_channel(&mut self, number: u16) -> Option<&mut Channel> {
        self.is_publisher = true;
        self.channel(number)
    }

    #[inline]
    pub(crate) fn channel_and_output(
        &mut self,
        number: u16,
    ) -> Option<(&mut Channel, &mut Output)> {
        let channel = self.channels.get_mut(usize::from(number))?;
        Some((channel.as_deref_mut()?, self.outbox.of_channel(number)))
    }

    /// Opens a channel.
    ///
    /// # Errors
    /// 504 for a channel that is already open, 530 for one above channel_max.
    pub(crate) fn open_channel(&mut self, number: u16) -> Result {
        if self.channel(number).is_some() {
            return Err(channel_error("second 'channel.open' seen"));
        }
        let most = self.channel_max;
        if number > most {
            return Err(not_allowed(format_args!(
                "channel {number} is beyond the negotiated channel_max ({most})"
            )));
        }
        self.insert_channel(number, Mode::Plain);
        Ok(())
    }

    /// Adds a channel, instead of one that has ended.
    pub(crate) fn insert_channel(&mut self, number: u16, mode: Mode) {
        let index = usize::from(number);
        if self.channels.len() <= index {
            self.channels.resize_with(index + 1, || None);
        }
        let channel = self.channels[index].insert(Box::default());
        channel.mode = mode;
    }

    /// Takes a channel that ends.
    pub(crate) fn take_channel(&mut self, number: u16) -> Option<Box<Channel>> {
        let channel = self.channels.get_mut(usize::from(number))?.take()?;
        self.outbox.orphan_answers(number);
        Some(channel)
    }

    /// Returns the numbers of its open channels.
    pub(crate) fn channel_numbers(&self) -> Vec<u16> {
        let numbered = self.channels.iter().zip(0..=u16::MAX);
        let open = numbered.filter(|(channel, _)| channel.is_some());
        open.map(|(_, number)| number).collect()
    }

    pub(crate) fn channels(&self) -> impl Iterator<Item = &Channel> {
        self.channels.iter().flatten().map(Box::as_ref)
    }

    /// Answers a queue that has a message for a consumer on one of the channels.
    #[inline]
    pub(crate) fn admit(&mut self, number: u16, consumer: ConsumerId) -> Admission<'_> {
        if !self.outbox.takes_delivery() {
            return Admission::Skipped;
        }
        let frame_max = self.frame_max;
        let Some((Channel { deliveries, .. }, output)) = self.channel_and_output(number) else {
            return Admission::Skipped;
        };
        // This also holds back consumers without acknowledgements, which take no room (as RabbitMQ).
        if deliveries.room() == 0 {
            deliveries.hold_back(consumer);
            return Admission::HeldBack;
        }
        Admission::Granted(Opening {
            number,
            frame_max,
            deliveries,
            output,
        })
    }
}

/// The answer of a connection to a queue that has a message for one of its consumers.
#[derive(Debug)]
pub(crate) enum Admission<'a> {
    Granted(Opening<'a>),
    /// The channel has no room. It wakes the consumer when it has.
    HeldBack,
    /// The output is full, and the connection wakes its consumers when it is not; or the channel is gone.
    Skipped,
}

/// Room for a delivery on a channel.
#[derive(Debug)]
pub(crate) struct Opening<'a> {
    number: u16,
    frame_max: usize,
    deliveries: &'a mut Deliveries,
    output: &'a mut Output,
}

impl Opening<'_> {
    /// Delivers a message to a consumer. Returns the tag of the delivery, and true if the consumer must now wait for its
    /// channel.
    #[inline]
    pub(crate) fn deliver(
        self,
        id: ConsumerId,
        consumer: &Consumer,
        entry: Entry,
        spares: &mut Vec<Vec<u8>>,
    ) -> (u64, bool) {
        let tag = self.deliveries.next_tag();
        let message = Rc::clone(&entry.message);
        let delivery = Delivery {
            channel: self.number,
            tag,
            is_redelivered: entry.redelivered,
            message: &message,
        };
        let mut is_held_back = false;
        if consumer.no_ack {
            // It takes no room, so it would continue for as long as its queue has messages while other consumers wait.
            is_held_back = self.deliveries.give_way(id);
        } else {
            self.deliveries.push(Delivered {
                tag,
                queue: consumer.queue,
                consumer: Some(id),
                entry,
            });
        }
        if self.output.pending() == 0
            && let Some(buffer) = spares.pop()
        {
            self.output.reuse(buffer);
        }
        self.output
            .deliver(delivery, &consumer.short_tag, self.frame_max);
        (tag, is_held_back)
    }
}

/// Returns true if the client has closed its side, as far as the runtime knows; unread input may precede that.
fn has_hung_up(socket: &TcpStream) -> bool {
    let ready = pin!(socket.ready(Interest::READABLE));
    let polled = ready.poll(&mut Context::from_waker(Waker::noop()));
    matches!(polled, Poll::Ready(Ok(ready)) if ready.is_read_closed())
}
