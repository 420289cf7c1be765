//! The state of a client without I/O: calls, packets and time go in, frames come out.

mod answers;
mod calls;
mod room;

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::time::Instant;

use crate::error::Error;
use crate::event::{DisconnectCause, Event, RejoinCause};
use crate::message;
use crate::options::Options;
use crate::packet::Packet;
use crate::room_view::Order;
use crate::shared::{Heartbeat, JoinCommand, Reply, Shared, Status};
use room::{Phase, Room};

/// The state of a client.
#[derive(Debug)]
pub(crate) struct Session {
    options: Arc<Options>,
    shared: Arc<Shared>,
    /// Frames to send.
    pub(crate) frames: VecDeque<String>,
    /// Requests that wait for their answer, in the order in which they were sent and expire.
    pending: VecDeque<Pending>,
    /// Heartbeats and updates that wait for a join, in the order of their calls.
    held: VecDeque<Held>,
    room: Option<Box<Room>>,
    /// A join that waits until the previous room is left.
    next_join: Option<(Box<JoinCommand>, Instant)>,
    next_id: u64,
    /// Heartbeats without an answer, one after the other.
    missed: u32,
    next_heartbeat: Option<Instant>,
    /// The time of the server's next ping at the latest. `None` while disconnected.
    ping_deadline: Option<Instant>,
    ping_within: std::time::Duration,
    /// True if the open connection is to be dropped for a new one.
    wants_reconnect: bool,
    /// The caller of a close, if it waits. `Some` once the client was asked to close.
    closing: Option<Option<Reply<()>>>,
}

#[derive(Debug)]
struct Pending {
    id: u64,
    deadline: Instant,
    generation: u64,
    request: Request,
}

#[derive(Debug)]
enum Request {
    Join,
    Heartbeat {
        patch: Option<Box<str>>,
        reply: Option<Reply<Heartbeat>>,
    },
    Leave,
}

#[derive(Debug)]
struct Held {
    /// The id of the request that was not answered, or the next id at the time of the call.
    order: u64,
    deadline: Instant,
    patch: Option<Box<str>>,
    reply: Option<Reply<Heartbeat>>,
}

impl Session {
    pub(crate) fn new(options: Arc<Options>, shared: Arc<Shared>) -> Self {
        Self {
            options,
            shared,
            frames: VecDeque::new(),
            pending: VecDeque::new(),
            held: VecDeque::new(),
            room: None,
            next_join: None,
            next_id: 0,
            missed: 0,
            next_heartbeat: None,
            ping_deadline: None,
            ping_within: std::time::Duration::ZERO,
            wants_reconnect: false,
            closing: None,
        }
    }

    fn is_connected(&self) -> bool {
        self.ping_deadline.is_some()
    }

    /// Returns true once the client was asked to close.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// Returns true, once, if the open connection is to be dropped for a new one.
    pub(crate) fn take_reconnect(&mut self) -> bool {
        std::mem::take(&mut self.wants_reconnect)
    }

    /// Returns the caller that waits for the end of the client.
    pub(crate) fn take_closing(&mut self) -> Option<Reply<()>> {
        self.closing.take().flatten()
    }

    fn report(&self, event: Event) {
        self.shared.lock().log.push(event);
    }

    /// Reports a failed attempt to reconnect.
    pub(crate) fn on_reconnect_failed(&self, attempt: u32, error: Error) {
        self.report(Event::ReconnectFailed { attempt, error });
    }

    /// Begins with an open connection. A room is joined again.
    pub(crate) fn on_connected(
        &mut self,
        ping_within: std::time::Duration,
        is_first: bool,
        now: Instant,
    ) {
        self.ping_within = ping_within;
        self.ping_deadline = Some(now + ping_within);
        self.missed = 0;
        self.frames.clear();
        self.shared.lock().status = Status::Connected;
        let joins_first = self.room.as_ref().is_none_or(|room| room.is_first_join());
        if joins_first && !is_first {
            self.report(Event::Reconnected { resumed: false });
        }
        if self.room.is_some() {
            self.send_join(now);
        }
    }

    /// Notes that the connection broke. Calls fail or are held, as their documentation says.
    pub(crate) fn on_disconnected(&mut self, cause: DisconnectCause) {
        self.ping_deadline = None;
        self.next_heartbeat = None;
        self.frames.clear();
        self.hold_pending();
        {
            let mut inner = self.shared.lock();
            inner.status = Status::Reconnecting;
            if let Some(view) = &mut inner.view {
                view.suspend(true);
            }
            inner.log.push(Event::Disconnected(cause.clone()));
        }
        let Some(room) = &mut self.room else { return };
        if room.is_leaving() {
            // A disconnection is a leave.
            self.end_room(&Ok(()));
            return;
        }
        if let (Phase::Joining, DisconnectCause::TooLarge { bytes, limit }) = (room.phase, cause) {
            // The next join would have the same answer, and each is a join and a leave for the others.
            let error = Error::TooLarge { bytes, limit };
            match room.reply.take() {
                Some(reply) => calls::answer(Some(reply), Err(error)),
                None => self.report(Event::RejoinFailed(error)),
            }
            self.end_room(&Ok(()));
            return;
        }
        room.disconnect();
    }

    /// Handles a text message of the server.
    pub(crate) fn on_text(&mut self, text: &str, now: Instant) -> Result<(), DisconnectCause> {
        let protocol = |error: &dyn std::error::Error| DisconnectCause::Protocol(error.to_string());
        match Packet::parse(text).map_err(|error| protocol(&error))? {
            Packet::Ping(content) => {
                self.frames.push_back(format!("3{content}"));
                self.ping_deadline = Some(now + self.ping_within);
            }
            Packet::Close => return Err(DisconnectCause::ClosedByServer),
            Packet::Event(payload) => {
                let event = message::parse_event(payload).map_err(|error| protocol(&error))?;
                if let Some(event) = event {
                    self.on_event(&event, now);
                }
            }
            Packet::Ack(id, payload) => {
                let answer = message::parse_answer(payload).map_err(|error| protocol(&error))?;
                self.on_answer(id, &answer, now)?;
            }
            Packet::Open(_) | Packet::Connected(_) | Packet::Refused(_) | Packet::Ignored => {}
        }
        Ok(())
    }

    fn on_event(&mut self, wire: &message::WireEvent<'_>, now: Instant) {
        let Some(room) = &mut self.room else { return };
        let mut inner = self.shared.lock();
        let Some(view) = inner.view.as_mut() else {
            return;
        };
        if *view.room != *wire.room_id {
            return;
        }
        let Some(change) = view.change(wire) else {
            return;
        };
        room.keep_early(&change);
        let order = view.apply(&change);
        let ends_own = view.ends_own(&change);
        if let Order::Gap { expected, got } = order {
            inner.log.push(Event::Gap { expected, got });
        }
        if order != Order::Duplicate {
            inner.log.push(change.into_event());
        }
        drop(inner);
        if matches!(order, Order::Gap { .. }) {
            self.rejoin(RejoinCause::Gap, now);
        } else if ends_own && order == Order::Next {
            self.rejoin(RejoinCause::Expired, now);
        }
    }

    /// Handles what is due. An error ends the connection.
    pub(crate) fn on_time(&mut self, now: Instant) -> Result<(), DisconnectCause> {
        self.expire_waiting(now);
        if !self.is_connected() {
            return Ok(());
        }
        self.expire_pending(now)?;
        if self.ping_deadline.is_some_and(|deadline| deadline <= now) {
            return Err(DisconnectCause::PingTimeout);
        }
        if self.room.as_ref().is_some_and(|room| room.is_join_due(now)) {
            self.send_join(now);
        }
        if self.next_heartbeat.is_some_and(|due| due <= now) {
            self.send_heartbeat(None, None, now);
        }
        Ok(())
    }

    /// Returns the time at which something is due next.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let room = self.room.as_ref().and_then(|room| room.due());
        [
            self.ping_deadline,
            self.next_heartbeat,
            self.pending.front().map(|pending| pending.deadline),
            self.held.front().map(|held| held.deadline),
            self.next_join.as_ref().map(|(_, deadline)| *deadline),
            room,
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.close();
    }
}
