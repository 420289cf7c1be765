//! The script of the null broker: its mode and its deliberate errors.

use std::time::Duration;

use super::Delays;

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

/// A deliberate error at one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The message is confirmed but never reaches its queue.
    Drop,
    /// The message reaches its queue twice.
    Duplicate,
    /// The message reaches its queue twice, the second time marked as redelivered.
    Redeliver,
    /// Its body is truncated by 100 bytes, or to the length of its stamp.
    Shorten,
    /// One bit in its body is flipped.
    Corrupt,
    /// The message reaches its queue before the preceding one.
    Swap,
    /// The message is refused.
    Nack,
    /// Its connection is closed at once.
    Cut,
    /// The connections of all consumers are closed at once.
    CutConsumers,
    /// The message is marked as redelivered, although it was never delivered before.
    Mark,
    /// The broker stops reading and writing, as if the process was stopped.
    Halt,
    /// The message is confirmed twice.
    ConfirmTwice,
    /// The message is confirmed together with some that were never published.
    ConfirmBeyond,
    /// Nothing is confirmed from it on.
    Withhold,
    /// Its channel is closed, with 404.
    CloseChannel,
    /// All queues are deleted with their content, and its connection is closed at once.
    Forget,
    /// All connections are told to publish nothing, for 100 ms.
    Block,
}

/// The behaviour of a broker. Messages are counted from 0 over all connections.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// The handling of messages.
    pub mode: Mode,
    /// Queues that exist at the start; they are not durable.
    pub queues: Vec<String>,
    /// Messages with deliberate errors.
    pub faults: Vec<(u64, Fault)>,
    /// Does not answer `connection.close`.
    pub keeps_open: bool,
    /// Lets the client close the socket after `connection.close-ok`, as RabbitMQ does.
    pub lingers: bool,
    /// Confirms messages only while every queue is empty and every delivery is acknowledged.
    pub confirms_consumed: bool,
    /// Returns messages after they were confirmed.
    pub returns_late: bool,
    /// Sends bodies in one frame, however large.
    pub large_frames: bool,
    /// Seconds between two heartbeats that clients are asked for. It sends its own, and counts those that arrive.
    pub heartbeat: u16,
    /// Delay of each connection's opening.
    pub slow_open: Duration,
    /// Delay of each answer to `basic.consume`.
    pub slow_consume: Duration,
    /// Messages that are held for this time, together with all that follow.
    pub hold: Vec<(u64, Duration)>,
    /// Delay before each message may be delivered; the list repeats from its beginning. Messages of a queue stay in
    /// order.
    pub deliver_after: Vec<Duration>,
    /// Delay of each confirm; the list repeats from its beginning. Confirms of a channel stay in order.
    pub confirm_after: Vec<Duration>,
    /// Delay of each message: its confirm and its delivery are due at the same time. With it, the two lists above have no
    /// effect.
    pub delays: Delays,
    /// Messages at which the whole broker stalls for this time.
    pub stall: Vec<(u64, Duration)>,
}

impl Script {
    /// Returns the script of a broker with these faults.
    #[must_use]
    pub fn with_faults<const N: usize>(faults: [(u64, Fault); N]) -> Self {
        Self {
            faults: faults.into(),
            ..Self::default()
        }
    }

    /// Returns the script of a broker that has this queue at the start.
    #[must_use]
    pub fn with_queue(name: &str) -> Self {
        Self {
            queues: vec![name.to_owned()],
            ..Self::default()
        }
    }

    /// Returns true if a message has a fault.
    pub(crate) fn has(&self, message: u64, fault: Fault) -> bool {
        self.faults.contains(&(message, fault))
    }
}
