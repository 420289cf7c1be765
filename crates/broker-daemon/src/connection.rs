//! A connection: how far its negotiation is, its channels, what it was sent and what it has still to be sent.

use std::net::SocketAddr;
use std::rc::Rc;

use amq_protocol::types::{AMQPValue, FieldTable};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::answers::Answers;
use crate::channel::Channel;
use crate::exchange::{Name, QueueId};
use crate::message::{Meter, Share};
use crate::output::Output;

/// Bytes that wait for a client from which on it is delivered no more.
pub(crate) const FULL: usize = 512 * 1024;
/// Bytes from which on its requests wait too: their answers have to go somewhere.
pub(crate) const CHOKED: usize = 2 * FULL;

/// How far a connection is (connection class, AMQP 0-9-1, 2.2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The protocol header is awaited.
    Header,
    /// connection.start-ok is awaited.
    Start,
    /// connection.tune-ok is awaited.
    Tune,
    /// connection.open is awaited.
    Open,
    Running,
    /// connection.close was sent; only its answer is of interest.
    Closing,
    /// Nothing more is read; what is pending is written, then the socket is closed.
    Closed,
}

/// What the client says that it understands (`capabilities` of its properties).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Capabilities {
    pub(crate) authentication_failure_close: bool,
    pub(crate) consumer_cancel_notify: bool,
    pub(crate) connection_blocked: bool,
}

impl Capabilities {
    pub(crate) fn read(properties: &FieldTable) -> Self {
        let table = match properties.inner().get("capabilities") {
            Some(AMQPValue::FieldTable(table)) => table,
            _ => return Self::default(),
        };
        let has = |name| table.inner().get(name) == Some(&AMQPValue::Boolean(true));
        Self {
            authentication_failure_close: has("authentication_failure_close"),
            consumer_cancel_notify: has("consumer_cancel_notify"),
            connection_blocked: has("connection.blocked"),
        }
    }
}

/// A client.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) phase: Phase,
    pub(crate) socket: Option<Rc<TcpStream>>,
    /// Tells its task that what the broker wants of the socket may have changed.
    pub(crate) wake: Rc<Notify>,
    pub(crate) user: Name,
    pub(crate) vhost: usize,
    pub(crate) frame_max: usize,
    pub(crate) channel_max: u16,
    /// Seconds; 0 is none.
    pub(crate) heartbeat: u16,
    pub(crate) capabilities: Capabilities,
    channels: Vec<Option<Box<Channel>>>,
    pub(crate) exclusive: Vec<QueueId>,
    pub(crate) output: Output,
    /// Those that wait for the log, with what is to be sent behind them.
    pub(crate) answers: Answers,
    /// The client asked to close, and is answered when these are.
    pub(crate) is_leaving: bool,
    /// What was read and not processed: the beginning of a frame, or all that came while it was held.
    pub(crate) backlog: Vec<u8>,
    share: Share,
    /// Milliseconds of the broker's clock.
    pub(crate) since: u64,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    /// When it was first seen to have hung up while it was held.
    pub(crate) hung_up: Option<u64>,
    /// Whether it is in the list of those that have something to write.
    pub(crate) is_dirty: bool,
    /// The socket took no more.
    pub(crate) is_stuck: bool,
    /// Its backlog holds whole frames that had to wait.
    pub(crate) holds_frames: bool,
    /// It wants to publish, and memory is short.
    pub(crate) is_blocked: bool,
    pub(crate) was_told_blocked: bool,
    /// It published before: one to warn when memory is short.
    pub(crate) is_publisher: bool,
    /// It publishes to a queue whose consumers do not keep up.
    pub(crate) ahead: Option<QueueId>,
    /// Consumers were passed over because the output was full.
    pub(crate) was_passed_over: bool,
}

impl Connection {
    pub(crate) fn new(
        socket: Option<Rc<TcpStream>>,
        frame_max: usize,
        now: u64,
        memory: &Rc<Meter>,
    ) -> Self {
        Self {
            phase: Phase::Header,
            socket,
            wake: Rc::default(),
            user: "".into(),
            vhost: 0,
            frame_max,
            channel_max: 0,
            heartbeat: 0,
            capabilities: Capabilities::default(),
            channels: Vec::new(),
            exclusive: Vec::new(),
            output: Output::default(),
            answers: Answers::default(),
            is_leaving: false,
            backlog: Vec::new(),
            share: Share::new(0, memory),
            since: now,
            received: now,
            sent: now,
            hung_up: None,
            is_dirty: false,
            is_stuck: false,
            holds_frames: false,
            is_blocked: false,
            was_told_blocked: false,
            is_publisher: false,
            ahead: None,
            was_passed_over: false,
        }
    }

    /// The client's address; `None` where it is gone already.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.socket.as_ref()?.peer_addr().ok()
    }

    /// Counts what it takes of the memory beside its messages: the beginning of a frame, and what its socket does not
    /// take. What it holds back because memory is short does not count, for that goes when there is memory again.
    pub(crate) fn weigh(&mut self) {
        let mut bytes = match self.is_blocked || self.backlog.is_empty() {
            true => 0,
            false => self.backlog.capacity(),
        };
        if self.is_stuck {
            bytes += self.output.own_bytes();
        }
        if !self.answers.is_empty() {
            bytes += self.answers.own_bytes();
        }
        self.share.set(bytes);
    }

    /// Returns the bytes that are to be sent, those included that wait for the log.
    pub(crate) fn pending(&self) -> usize {
        let behind = match self.answers.is_empty() {
            true => 0,
            false => self.answers.pending(),
        };
        self.output.pending() + behind
    }

    /// Returns where a channel writes to: behind its answers that wait, if there are any.
    pub(crate) fn output_of(&mut self, channel: u16) -> &mut Output {
        match self.answers.is_empty() {
            true => &mut self.output,
            false => self.answers.behind(channel).unwrap_or(&mut self.output),
        }
    }

    /// Whether it has to wait before more of it is processed: until memory is free, or until it takes its answers.
    pub(crate) fn is_held(&self) -> bool {
        self.is_blocked || self.pending() > CHOKED
    }

    /// Whether it held frames back that need not wait any more.
    pub(crate) fn may_go_on(&mut self) -> bool {
        self.holds_frames && !self.is_held()
    }

    pub(crate) fn channel(&mut self, number: u16) -> Option<&mut Channel> {
        self.channels.get_mut(usize::from(number))?.as_deref_mut()
    }

    pub(crate) fn channel_ref(&self, number: u16) -> Option<&Channel> {
        self.channels.get(usize::from(number))?.as_deref()
    }

    pub(crate) fn open_channel(&mut self, number: u16) {
        let index = usize::from(number);
        if self.channels.len() <= index {
            self.channels.resize_with(index + 1, || None);
        }
        self.channels[index] = Some(Box::default());
    }

    pub(crate) fn take_channel(&mut self, number: u16) -> Option<Box<Channel>> {
        self.channels.get_mut(usize::from(number))?.take()
    }

    /// The numbers of its open channels.
    pub(crate) fn channel_numbers(&self) -> Vec<u16> {
        let open = self
            .channels
            .iter()
            .enumerate()
            .filter(|(_, channel)| channel.is_some());
        open.filter_map(|(number, _)| u16::try_from(number).ok())
            .collect()
    }

    pub(crate) fn channels(&self) -> impl Iterator<Item = &Channel> {
        self.channels.iter().flatten().map(Box::as_ref)
    }
}
