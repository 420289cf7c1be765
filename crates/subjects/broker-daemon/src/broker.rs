//! The broker: all of its state, owned by one thread, without sockets.
//!
//! Input goes in through [`Broker::receive`], and output leaves through the connections' outputs. The data of one read
//! is a batch: all of its frames are processed, then queues are dispatched, confirms are combined, and connections with
//! pending output are listed once.
//!
//! Each part of the state has an owner with private fields: [`Topology`] has exchanges, queues, bindings and consumers,
//! [`Scheduler`] what waits for its turn, [`Store`] the log and what waits for it, [`Memory`] the limit of memory.
//! [`Broker`] has the connections, and handles their frames.

mod acks;
mod answers;
mod basic;
mod bindings;
mod consumers;
mod dead_letters;
mod delivery;
pub(crate) mod describe;
pub(crate) mod direct;
mod exchanges;
mod expiry;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod handshake;
mod life;
mod memory;
mod methods;
mod publish;
mod queues;
mod replies;
mod scheduler;
mod store;
mod topology;
mod tx;

use std::fmt::Display;
use std::rc::Rc;

use daemon_kit::RateLimitedLog;

use crate::arena::Arena;
use crate::channel::{Channel, ChannelId, Mode};
use crate::connection::{Connection, Phase};
use crate::counts::Counts;
use crate::deliveries::Delivered;
use crate::exchange::QueueId;
use crate::failure::{
    Result, channel_error, command_invalid, frame_error, unexpected_frame, unknown_id,
};
use crate::frame::{AckRun, BODY, Frame, FrameError, HEADER, HEARTBEAT, METHOD, split};
use crate::options::Config;
use crate::queue::{ConnectionId, Queue};

use self::memory::Memory;
use self::methods::ids;
use self::scheduler::{Scheduler, Work};
use self::store::Store;
use self::topology::Topology;

/// Maximum lines per second of the log on stderr.
const LOG_LINES: u64 = 10;

/// Messages delivered in one turn, which takes some 10 ms; then other connections are read and outputs are written.
const TURN: usize = 64 * 1024;
/// Weight of a dead letter in a turn, in messages: it is decoded and reassembled.
const DEAD_LETTER: usize = 64;

/// The state of the broker.
#[derive(Debug)]
pub(crate) struct Broker {
    config: Rc<Config>,
    /// Milliseconds since some time in the past, set before each turn.
    pub(crate) now: u64,
    pub(crate) connections: Arena<'c', Connection>,
    pub(crate) topology: Topology,
    pub(crate) scheduler: Scheduler,
    confirming: Vec<ChannelId>,
    pub(crate) memory: Memory,
    pub(crate) counts: Counts,
    /// The log on stderr for the operator.
    operator_log: RateLimitedLog,
    scratch: Vec<Delivered>,
    /// Spare empty buffers for outputs: allocating them for each burst costs more than filling them.
    spares: Vec<Vec<u8>>,
    store: Store,
}

impl Broker {
    pub(crate) fn new(config: Rc<Config>) -> Self {
        Self {
            now: 0,
            connections: Arena::default(),
            topology: Topology::new(&config.vhosts),
            scheduler: Scheduler::default(),
            store: Store::default(),
            memory: Memory::new(config.memory_limit),
            confirming: Vec::new(),
            counts: Counts::default(),
            operator_log: RateLimitedLog::new("broker-daemon", LOG_LINES),
            scratch: Vec::new(),
            spares: Vec::new(),
            config,
        }
    }

    /// Reports that clients wait because a connection could not be accepted.
    pub(crate) fn cannot_accept(&mut self, reason: impl Display) {
        self.counts.accepting_paused += 1;
        self.operator_log
            .warn(format_args!("cannot accept a connection: {reason}"));
    }

    /// Processes the data of one read from a client, as a turn of its own. Data that cannot be processed yet is kept as
    /// its backlog.
    pub(crate) fn receive(&mut self, id: ConnectionId, input: &[u8]) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.begin_read(self.now);
        // Only this client is slowed down for what it publishes now.
        self.scheduler.lagging = None;
        let consumed = self.process(id, input);
        self.connections[id].end_read(input, consumed);
        self.finish_turn();
        // Checked again, because consumers have had their turn meanwhile.
        let is_lagging = |id: &QueueId| self.topology.queue(*id).is_some_and(Queue::is_lagging);
        self.connections[id].ahead = self.scheduler.lagging.filter(is_lagging);
    }

    /// Returns a connection for its task; `None` if it was removed.
    pub(crate) fn connection(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let connection = self.connections.get_mut(id);
        if connection.is_none() {
            self.operator_log
                .warn("a connection is closed: its state does not exist any more");
        }
        connection
    }

    /// Returns how many messages a queue has delivered to consumers.
    pub(crate) fn delivered(&self, id: QueueId) -> u64 {
        let queue = self.topology.queue(id);
        queue.map_or(u64::MAX, |queue| queue.counts().delivered)
    }

    /// Processes frames until the input ends or the client must wait. Returns the number of processed bytes.
    fn process(&mut self, id: ConnectionId, input: &[u8]) -> usize {
        let mut done = 0;
        // Where the last run of acknowledgements ends that cannot be handled as one.
        let mut single = 0;
        loop {
            let connection = &mut self.connections[id];
            let rest = &input[done..];
            match connection.phase() {
                Phase::Closed => return input.len(),
                Phase::Header => match self.protocol_header(id, rest) {
                    0 => return done,
                    length => {
                        done += length;
                        continue;
                    }
                },
                _ if connection.holds_input() => return done,
                Phase::Running if done >= single => {
                    // Many clients acknowledge each delivery: most of their frames are these.
                    if let Some((run, length)) = AckRun::split(rest) {
                        single = done + length;
                        if self.ack_run(id, run) {
                            done = single;
                            continue;
                        }
                    }
                }
                _ => {}
            }
            let connection = &mut self.connections[id];
            // RabbitMQ, too, accepts eight bytes more than agreed.
            match split(rest, connection.frame_max) {
                Ok(None) => return done,
                Ok(Some((frame, length))) => {
                    if self.must_wait(id, frame) {
                        return done;
                    }
                    self.frame(id, frame);
                    done += length;
                }
                Err(error) => {
                    self.unreadable(id, error);
                    return input.len();
                }
            }
        }
    }

    fn unreadable(&mut self, id: ConnectionId, error: FrameError) {
        let failure = match error {
            FrameError::TooLarge(size) => {
                let most = self.connections[id].frame_max;
                frame_error(format_args!(
                    "frame of {size} bytes is larger than frame_max {most}"
                ))
            }
            FrameError::NoEnd => frame_error("no frame-end octet where it should be"),
        };
        self.close_connection(id, (0, 0), &failure);
        // Frame boundaries are unknown from here on, so no close-ok can be awaited.
        self.close_when_written(id);
    }

    fn frame(&mut self, id: ConnectionId, frame: Frame<'_>) {
        let Err(failure) = self.try_frame(id, frame) else {
            return;
        };
        let method = match frame.kind {
            METHOD => ids(frame.payload).unwrap_or_default(),
            HEADER | BODY => (60, 40),
            _ => (0, 0),
        };
        if failure.code == 541 {
            self.operator_log.warn(&failure.text);
        }
        self.fail(ChannelId::new(id, frame.channel), method, &failure);
    }

    fn try_frame(&mut self, id: ConnectionId, frame: Frame<'_>) -> Result {
        let connection = &mut self.connections[id];
        if connection.phase() != Phase::Running {
            return self.negotiate(id, frame);
        }
        let Frame {
            kind,
            channel: number,
            payload,
        } = frame;
        let unknown = || frame_error(format_args!("frames of type {kind} are not known"));
        if number == 0 {
            return match kind {
                METHOD => self.connection_method(id, payload),
                HEARTBEAT if payload.is_empty() => Ok(()),
                HEARTBEAT => Err(frame_error("a heartbeat with a payload")),
                HEADER | BODY => Err(unexpected_frame("content on channel 0")),
                _ => Err(unknown()),
            };
        }
        let channel = connection.channel(number);
        let is_closing = channel.map(|channel| matches!(channel.mode, Mode::Closing));
        let id = ChannelId::new(id, number);
        match (kind, payload, is_closing) {
            (METHOD, [0, 20, 0, 10, ..], _) => self.open_channel(id, payload),
            (METHOD, _, None) => Err(channel_error("expected 'channel.open'")),
            (HEADER | BODY | HEARTBEAT, _, None) => {
                Err(unexpected_frame("the channel is not open"))
            }
            (METHOD, [0, 20, 0, 40, ..], Some(crosses)) => {
                self.client_closes_channel(id, crosses);
                Ok(())
            }
            (METHOD, [0, 20, 0, 41, ..], Some(true)) => {
                self.end_channel(id);
                Ok(())
            }
            (METHOD, [0, 20, 0, 41, ..], Some(false)) => {
                Err(command_invalid("unexpected channel.close-ok"))
            }
            (HEARTBEAT, ..) => Err(unexpected_frame("heartbeat on a channel other than 0")),
            // Input on a channel that is being closed need not even be readable.
            (METHOD | HEADER | BODY, _, Some(true)) => Ok(()),
            (METHOD, [0, 60, 0, 40, ..], _) => self.begin_publish(id, payload),
            (METHOD, [0, 60, 0, 80, ..], _) => self.ack(id, payload),
            (METHOD, ..) => self.channel_method(id, payload),
            (HEADER, ..) => self.content_header(id, payload),
            (BODY, ..) => self.content_body(id, payload),
            _ => Err(unknown()),
        }
    }

    /// Returns a channel; `None` if it is closed, or its client is gone.
    fn find_channel(&mut self, id: ChannelId) -> Option<&mut Channel> {
        self.connections.get_mut(id.connection)?.channel(id.number)
    }

    /// Returns the channel of the method that is handled.
    ///
    /// # Errors
    /// 541 if it is closed; methods are handled while their channel is open.
    fn channel(&mut self, id: ChannelId) -> Result<&mut Channel> {
        self.find_channel(id).ok_or_else(unknown_id)
    }

    /// Performs the work that processed frames led to: dead letters, deliveries, confirms. Work that would take too
    /// long is left for another turn.
    pub(crate) fn finish_turn(&mut self) {
        let mut left = TURN;
        while left > 0
            && let Some(work) = self.scheduler.next_work()
        {
            let took = match work {
                Work::DeadLetter(dead) => {
                    self.dead_letter(dead);
                    DEAD_LETTER
                }
                Work::Dispatch(queue) => 1 + self.dispatch(queue),
                Work::Wake(channel) => {
                    self.wake_channel(channel);
                    1
                }
            };
            left = left.saturating_sub(took);
        }
        self.store.watch();
        if let Some(news) = self.store.take_news() {
            self.operator_log.warn(news);
        }
        if self.store.take_progress() {
            self.send_answers();
            self.confirming.append(&mut self.store.confirming);
        }
        self.send_confirms();
        self.watch_memory();
        if self.scheduler.has_outputs() || self.store.has_records() || self.scheduler.has_more() {
            self.scheduler.wake.notify_one();
        }
    }

    /// Lists a connection as one with pending output.
    fn add_output(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id) {
            self.scheduler.add_output(id, &mut connection.outbox);
        }
    }
}

#[cfg(test)]
mod tests;
