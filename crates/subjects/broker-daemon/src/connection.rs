//! A connection: the state of its negotiation, its channels, its input and its pending output.

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

/// Bytes of pending output above which a client gets no more deliveries.
pub(crate) const FULL: usize = 512 * 1024;
/// Bytes of pending output above which its requests wait too, because their answers need room.
pub(crate) const CHOKED: usize = 2 * FULL;

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
    pub(crate) phase: Phase,
    pub(crate) socket: Option<Rc<TcpStream>>,
    /// Wakes its task when the broker's interest in the socket may have changed.
    pub(crate) wake: Rc<Notify>,
    pub(crate) user: Name,
    pub(crate) vhost: usize,
    pub(crate) frame_max: usize,
    pub(crate) channel_max: u16,
    /// Seconds; 0 means none.
    pub(crate) heartbeat: u16,
    pub(crate) capabilities: Capabilities,
    channels: Vec<Option<Box<Channel>>>,
    pub(crate) exclusive: Vec<QueueId>,
    pub(crate) output: Output,
    /// Answers that wait for the log, with the output behind them.
    pub(crate) answers: Answers,
    /// Set if the client asked to close; it is answered after these.
    pub(crate) is_leaving: bool,
    /// Unprocessed input: the beginning of a frame, or everything received while the connection was held.
    pub(crate) backlog: Vec<u8>,
    share: Share,
    /// Milliseconds of the broker's clock.
    pub(crate) since: u64,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    /// Time at which it was first seen to have hung up while it was held.
    pub(crate) hung_up: Option<u64>,
    /// True if it is listed as one with pending output.
    pub(crate) has_output: bool,
    /// True if the socket accepted no more.
    pub(crate) is_stuck: bool,
    /// True if its backlog holds whole frames that had to wait.
    pub(crate) holds_frames: bool,
    /// True if it wants to publish while memory is short.
    pub(crate) is_blocked: bool,
    pub(crate) was_sent_blocked: bool,
    /// True if it has published before: it is warned when memory is short.
    pub(crate) is_publisher: bool,
    /// The queue to which it publishes faster than consumers read.
    pub(crate) ahead: Option<QueueId>,
    /// True if consumers were skipped because the output was full.
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
            socket,
            frame_max,
            share: Share::new(0, memory),
            since: now,
            received: now,
            sent: now,
            ..Self::default()
        }
    }

    /// Returns the client's address; `None` if the client is gone.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.socket.as_ref()?.peer_addr().ok()
    }

    /// Accounts for its memory besides messages: the beginning of a frame, and output that its socket does not accept.
    /// Input held back because memory is short does not count, since it is processed when memory is free again.
    pub(crate) fn account_memory(&mut self) {
        let mut bytes = if self.is_blocked || self.backlog.is_empty() {
            0
        } else {
            self.backlog.capacity()
        };
        if self.is_stuck {
            bytes += self.output.own_bytes();
        }
        if !self.answers.is_empty() {
            bytes += self.answers.own_bytes();
        }
        self.share.set(bytes);
    }

    /// Returns the bytes of pending output, including the part that waits for the log.
    pub(crate) fn pending(&self) -> usize {
        let behind = if self.answers.is_empty() {
            0
        } else {
            self.answers.pending()
        };
        self.output.pending() + behind
    }

    /// Returns the output of a channel: behind its waiting answers, if there are any.
    pub(crate) fn output_of(&mut self, channel: u16) -> &mut Output {
        if self.answers.is_empty() {
            &mut self.output
        } else {
            self.answers.behind(channel).unwrap_or(&mut self.output)
        }
    }

    /// Returns true if its input must wait: until memory is free, or until it reads its answers.
    pub(crate) fn is_held(&self) -> bool {
        self.is_blocked || self.pending() > CHOKED
    }

    /// Returns true if it held back frames that need not wait any more.
    pub(crate) fn may_go_on(&mut self) -> bool {
        self.holds_frames && !self.is_held()
    }

    pub(crate) fn channel(&mut self, number: u16) -> Option<&mut Channel> {
        self.channels.get_mut(usize::from(number))?.as_deref_mut()
    }

    pub(crate) fn open_channel(&mut self, number: u16) -> &mut Channel {
        let index = usize::from(number);
        if self.channels.len() <= index {
            self.channels.resize_with(index + 1, || None);
        }
        self.channels[index].insert(Box::default())
    }

    pub(crate) fn take_channel(&mut self, number: u16) -> Option<Box<Channel>> {
        self.channels.get_mut(usize::from(number))?.take()
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
}
