//! What the null broker does with messages, and what it does wrong.

use std::str::FromStr;
use std::time::Duration;

/// What the broker does with messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// They go through queues.
    #[default]
    Queue,
    /// They are forgotten.
    Discard,
    /// Consumers are given messages without end, of 1 KB.
    Stream,
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "queue" => Ok(Self::Queue),
            "discard" => Ok(Self::Discard),
            "stream" => Ok(Self::Stream),
            _ => Err("write queue, discard or stream".to_owned()),
        }
    }
}

/// What it does wrong, on purpose. Messages are counted from 0 over all connections.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// What it does with messages.
    pub mode: Mode,
    /// Queues that are there from the beginning, not durable.
    pub queues: Vec<String>,
    /// Messages that never reach their queue, though they are confirmed.
    pub drop: Vec<u64>,
    /// Messages that reach it twice.
    pub duplicate: Vec<u64>,
    /// Messages that reach it twice, the second time marked as redelivered.
    pub redeliver: Vec<u64>,
    /// Messages whose body is cut by 100 bytes, or to that of its stamp.
    pub shorten: Vec<u64>,
    /// Messages of whose body one bit is another.
    pub corrupt: Vec<u64>,
    /// Messages that reach it before the one before them.
    pub swap: Vec<u64>,
    /// Messages that are refused.
    pub nack: Vec<u64>,
    /// Messages upon which their connection is closed at once.
    pub cut: Vec<u64>,
    /// Messages upon which the connections of all consumers are closed at once.
    pub cut_consumers: Vec<u64>,
    /// Messages that are marked as redelivered, though nobody was given them before.
    pub mark: Vec<u64>,
    /// Messages upon which it neither reads nor writes any more, as if it was stopped.
    pub halt: Vec<u64>,
    /// Whether it answers no `connection.close`.
    pub keeps_open: bool,
    /// Whether it leaves it to the client to close the socket after `connection.close-ok`, as RabbitMQ does.
    pub lingers: bool,
    /// Messages that are confirmed twice.
    pub confirm_twice: Vec<u64>,
    /// Messages with which some are confirmed that were never published.
    pub confirm_beyond: Vec<u64>,
    /// Messages from which on nothing is confirmed.
    pub withhold: Vec<u64>,
    /// Whether messages are returned after they were confirmed.
    pub returns_late: bool,
    /// Messages upon which their channel is closed, with 404.
    pub close_channel: Vec<u64>,
    /// Whether bodies come in one frame, however large.
    pub large_frames: bool,
    /// Seconds between two heartbeats: a connection that is silent for twice as long is closed.
    pub heartbeat: u16,
    /// How long it takes for each connection.
    pub slow_open: Duration,
    /// Messages upon which all queues are gone with what is in them, and their connection is closed at once.
    pub forget: Vec<u64>,
    /// Messages upon which all connections are told to publish nothing, for 100 ms.
    pub block: Vec<u64>,
    /// Messages that are held for so long, and all that follow with them.
    pub hold: Vec<(u64, Duration)>,
    /// How long each message is kept before it may be delivered, in turn, from the first one on again at the end. Those
    /// of a queue stay in order.
    pub deliver_after: Vec<Duration>,
    /// How long its confirm is, in the same way. Those of a channel stay in order.
    pub confirm_after: Vec<Duration>,
    /// Messages upon which the whole broker does nothing for so long.
    pub stall: Vec<(u64, Duration)>,
}
