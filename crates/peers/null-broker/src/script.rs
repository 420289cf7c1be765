//! The script of the null broker: its mode and its deliberate errors.

use std::time::Duration;

/// The broker's handling of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Mode {
    /// Routes messages through queues.
    #[default]
    Queue,
    /// Drops messages.
    Discard,
    /// Sends consumers messages of 1 KB without end.
    Stream,
}

/// Deliberate errors. Messages are counted from 0 over all connections.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// The handling of messages.
    pub mode: Mode,
    /// Queues that exist at the start; they are not durable.
    pub queues: Vec<String>,
    /// Messages that are confirmed but never reach their queue.
    pub drop: Vec<u64>,
    /// Messages that reach their queue twice.
    pub duplicate: Vec<u64>,
    /// Messages that reach their queue twice, the second time marked as redelivered.
    pub redeliver: Vec<u64>,
    /// Messages whose body is truncated by 100 bytes, or to the length of its stamp.
    pub shorten: Vec<u64>,
    /// Messages with one flipped bit in their body.
    pub corrupt: Vec<u64>,
    /// Messages that reach their queue before the preceding one.
    pub swap: Vec<u64>,
    /// Messages that are refused.
    pub nack: Vec<u64>,
    /// Messages at which their connection is closed at once.
    pub cut: Vec<u64>,
    /// Messages at which the connections of all consumers are closed at once.
    pub cut_consumers: Vec<u64>,
    /// Messages that are marked as redelivered, although they were never delivered before.
    pub mark: Vec<u64>,
    /// Messages at which it stops reading and writing, as if the process was stopped.
    pub halt: Vec<u64>,
    /// Does not answer `connection.close`.
    pub keeps_open: bool,
    /// Lets the client close the socket after `connection.close-ok`, as RabbitMQ does.
    pub lingers: bool,
    /// Messages that are confirmed twice.
    pub confirm_twice: Vec<u64>,
    /// Messages that are confirmed together with some that were never published.
    pub confirm_beyond: Vec<u64>,
    /// Confirms messages only while every queue is empty and every delivery is acknowledged.
    pub confirms_consumed: bool,
    /// Messages from which on nothing is confirmed.
    pub withhold: Vec<u64>,
    /// Returns messages after they were confirmed.
    pub returns_late: bool,
    /// Messages at which their channel is closed, with 404.
    pub close_channel: Vec<u64>,
    /// Sends bodies in one frame, however large.
    pub large_frames: bool,
    /// Seconds between two heartbeats that clients are asked for. It sends its own, and counts those that arrive.
    pub heartbeat: u16,
    /// Delay of each connection's opening.
    pub slow_open: Duration,
    /// Delay of each answer to `basic.consume`.
    pub slow_consume: Duration,
    /// Messages at which all queues are deleted with their content, and their connection is closed at once.
    pub forget: Vec<u64>,
    /// Messages at which all connections are told to publish nothing, for 100 ms.
    pub block: Vec<u64>,
    /// Messages that are held for this time, together with all that follow.
    pub hold: Vec<(u64, Duration)>,
    /// Delay before each message may be delivered; the list repeats from its beginning. Messages of a queue stay in
    /// order.
    pub deliver_after: Vec<Duration>,
    /// Delay of each confirm; the list repeats from its beginning. Confirms of a channel stay in order.
    pub confirm_after: Vec<Duration>,
    /// Messages at which the whole broker stalls for this time.
    pub stall: Vec<(u64, Duration)>,
}
