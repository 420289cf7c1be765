//! Calls of handles, and the requests that they become.

use tokio::time::Instant;

use super::room::{Phase, Room};
use super::{Held, Pending, Request, Session};
use crate::error::Error;
use crate::event::{DisconnectCause, Event, RejoinCause};
use crate::message;
use crate::room_view::RoomView;
use crate::session::room::Cause;
use crate::shared::{Command, Heartbeat, JoinCommand, Reply};

impl Session {
    /// Handles a call.
    pub(crate) fn on_command(&mut self, command: Command, now: Instant) {
        if self.is_closing() {
            // Its caller gets `Error::Closed`.
            return;
        }
        match command {
            Command::Join(join) => self.on_join(join, now),
            Command::Heartbeat {
                generation,
                patch,
                reply,
            } => self.on_heartbeat(generation, patch, reply, now),
            Command::Leave { generation, reply } => self.on_leave(generation, reply, now),
            // Without a connection, a new one is being opened anyway.
            Command::Reconnect => self.wants_reconnect = self.is_connected(),
            Command::Close(reply) => self.on_close(reply),
        }
    }

    fn on_join(&mut self, join: Box<JoinCommand>, now: Instant) {
        let is_leaving = self.room.as_ref().is_none_or(|room| room.is_leaving());
        let current = match (&self.room, &self.next_join) {
            (_, Some((next, _))) => Some(&next.room),
            (Some(room), None) if !is_leaving => Some(&room.room),
            _ => None,
        };
        if let Some(room) = current {
            let room = (**room).into();
            let _ = join.reply.send(Err(Error::AlreadyJoined { room }));
            return;
        }
        let deadline = now + self.options.timeout();
        if self.room.is_some() {
            self.next_join = Some((join, deadline));
        } else {
            self.start_room(*join, deadline, now);
        }
    }

    fn start_room(&mut self, join: JoinCommand, deadline: Instant, now: Instant) {
        let view = RoomView::new(
            (*join.room).into(),
            join.generation,
            self.options.tracks_members,
        );
        self.shared.lock().view = Some(Box::new(view));
        self.room = Some(Box::new(Room::new(join, deadline)));
        if self.is_connected() {
            self.send_join(now);
        }
    }

    /// Ends the membership locally, and starts the next one that waits.
    pub(super) fn end_room(&mut self, outcome: &Result<(), Error>) {
        let Some(room) = self.room.take() else { return };
        self.next_heartbeat = None;
        self.shared.lock().view = None;
        for held in self.held.drain(..) {
            answer(held.reply, Err(Error::NotJoined));
        }
        room.end(outcome);
        if let Some((join, deadline)) = self.next_join.take() {
            self.start_room(*join, deadline, Instant::now());
        }
    }

    /// Sends the join, with the state that all calls make.
    pub(super) fn send_join(&mut self, now: Instant) {
        let id = self.next_id;
        let patches = self.unacknowledged_patches();
        let Some(room) = &mut self.room else { return };
        let frame = room.begin_join(id, &patches, self.held.len());
        self.frames.push_back(frame);
        let generation = room.generation;
        self.next_heartbeat = None;
        self.expect_answer(generation, Request::Join, now);
    }

    /// Returns the patches that are not part of the acknowledged state, in the order of their calls: those that wait, and
    /// those in flight. A join replaces the state, so it must not undo an update that the server carries out before.
    fn unacknowledged_patches(&self) -> Vec<Box<str>> {
        let generation = self.room.as_ref().map(|room| room.generation);
        let in_flight = self.pending.iter().filter_map(|pending| {
            let is_current = generation == Some(pending.generation);
            match &pending.request {
                Request::Heartbeat {
                    patch: Some(patch), ..
                } if is_current => Some((pending.id, patch.clone())),
                _ => None,
            }
        });
        let held = self.held.iter();
        let held = held.filter_map(|held| Some((held.order, held.patch.clone()?)));
        let mut patches: Vec<_> = in_flight.chain(held).collect();
        patches.sort_by_key(|(order, _)| *order);
        patches.into_iter().map(|(_, patch)| patch).collect()
    }

    fn expect_answer(&mut self, generation: u64, request: Request, now: Instant) {
        self.pending.push_back(Pending {
            id: self.next_id,
            deadline: now + self.options.timeout(),
            generation,
            request,
        });
        self.next_id += 1;
    }

    fn on_heartbeat(
        &mut self,
        generation: u64,
        patch: Option<Box<str>>,
        reply: Reply<Heartbeat>,
        now: Instant,
    ) {
        let limit = self.options.queue_capacity;
        let room = self.room.as_ref();
        let room = room.filter(|room| room.generation == generation && !room.is_leaving());
        let refusal = match room {
            None => Some(Error::NotJoined),
            Some(_) if self.pending.len() + self.held.len() >= limit => {
                Some(Error::QueueFull { limit })
            }
            Some(_) if patch.is_none() && !self.is_connected() => Some(Error::Disconnected),
            Some(_) => None,
        };
        if let Some(error) = refusal {
            let _ = reply.send(Err(error));
        } else if room.is_some_and(|room| room.phase == Phase::Joined) {
            self.send_heartbeat(patch, Some(reply), now);
        } else {
            self.held.push_back(Held {
                order: self.next_id,
                deadline: now + self.options.timeout(),
                patch,
                reply: Some(reply),
            });
        }
    }

    /// Sends a heartbeat of a joined member.
    pub(super) fn send_heartbeat(
        &mut self,
        patch: Option<Box<str>>,
        reply: Option<Reply<Heartbeat>>,
        now: Instant,
    ) {
        let Some(room) = &self.room else { return };
        let frame = message::heartbeat_frame(self.next_id, patch.as_deref(), room.epoch);
        let generation = room.generation;
        self.frames.push_back(frame);
        self.expect_answer(generation, Request::Heartbeat { patch, reply }, now);
        self.next_heartbeat = self
            .options
            .heartbeat_interval
            .map(|interval| now + interval);
    }

    fn on_leave(&mut self, generation: u64, reply: Option<Reply<()>>, now: Instant) {
        let is_connected = self.is_connected();
        if self
            .next_join
            .as_ref()
            .is_some_and(|(next, _)| next.generation == generation)
        {
            self.next_join = None;
        }
        let Some(room) = self
            .room
            .as_mut()
            .filter(|room| room.generation == generation)
        else {
            // It was left before.
            answer(reply, Ok(()));
            return;
        };
        let was_leaving = room.is_leaving();
        room.want_leave(reply);
        if !is_connected {
            self.end_room(&Ok(()));
        } else if !was_leaving && room.phase != Phase::Joining {
            self.send_leave(now);
        }
        // A join in flight is answered first: some servers carry out requests at the same time.
    }

    pub(super) fn send_leave(&mut self, now: Instant) {
        let Some(room) = &mut self.room else { return };
        room.want_leave(None);
        room.phase = Phase::Leaving;
        let generation = room.generation;
        self.next_heartbeat = None;
        self.frames.push_back(message::leave_frame(self.next_id));
        self.expect_answer(generation, Request::Leave, now);
    }

    fn on_close(&mut self, reply: Option<Reply<()>>) {
        if self.is_connected() {
            // Not only the disconnection: a server with a grace time would keep the member.
            if self.room.is_some() {
                self.frames.push_back(message::leave_frame(self.next_id));
                self.next_id += 1;
            }
            self.frames.push_back("41".to_owned());
        }
        self.closing = Some(reply);
    }

    /// Joins again over an open connection, unless a join is under way.
    pub(super) fn rejoin(&mut self, cause: RejoinCause, now: Instant) {
        let reconnect = &self.options.reconnect;
        let Some(room) = &mut self.room else { return };
        if room.phase != Phase::Joined || room.is_leaving() {
            return;
        }
        room.cause = Cause::Rejoin(cause);
        {
            let mut inner = self.shared.lock();
            // A member that the server had removed missed events in between: that is no loss.
            let was_removed = cause != RejoinCause::Gap;
            if let Some(view) = &mut inner.view {
                view.suspend(was_removed);
            }
            if was_removed {
                inner.log.push(Event::MembershipLost(cause));
            }
        }
        let delay = room.rejoin_delay(reconnect, now);
        self.next_heartbeat = None;
        if delay.is_zero() {
            self.send_join(now);
        } else {
            room.wait_until(now + delay);
        }
    }

    /// Ends calls that have waited too long for a connection or a join.
    pub(super) fn expire_waiting(&mut self, now: Instant) {
        let after = self.options.timeout();
        while self.held.front().is_some_and(|held| held.deadline <= now) {
            let held = self.held.pop_front().expect("there is a held call");
            if let Some(room) = &mut self.room {
                room.expire_held();
            }
            let request = message::HEARTBEAT;
            answer(held.reply, Err(Error::Timeout { request, after }));
        }
        let request = message::JOIN;
        if let Some((join, _)) = self.next_join.take_if(|(_, deadline)| *deadline <= now) {
            let _ = join.reply.send(Err(Error::Timeout { request, after }));
        }
        if let Some(room) = self.room.as_mut().filter(|room| room.is_overdue(now)) {
            answer(room.reply.take(), Err(Error::Timeout { request, after }));
            self.end_room(&Ok(()));
        }
    }

    /// Ends requests without an answer. An error ends the connection.
    pub(super) fn expire_pending(&mut self, now: Instant) -> Result<(), DisconnectCause> {
        while self
            .pending
            .front()
            .is_some_and(|pending| pending.deadline <= now)
        {
            let pending = self.pending.pop_front().expect("there is a request");
            self.on_timeout(pending, now)?;
        }
        Ok(())
    }

    fn on_timeout(&mut self, pending: Pending, now: Instant) -> Result<(), DisconnectCause> {
        let after = self.options.timeout();
        let timeout = |request| Error::Timeout { request, after };
        let is_current = self
            .room
            .as_ref()
            .is_some_and(|room| room.generation == pending.generation);
        match pending.request {
            Request::Heartbeat { reply, .. } => {
                answer(reply, Err(timeout(message::HEARTBEAT)));
                self.missed += 1;
                if self.missed >= self.options.missed_heartbeats {
                    return Err(DisconnectCause::HeartbeatTimeout);
                }
            }
            Request::Leave if is_current => self.end_room(&Err(timeout(message::LEAVE))),
            Request::Join if is_current => {
                let room = self.room.as_mut().expect("there is a room");
                if !room.is_first_join() {
                    return Err(DisconnectCause::HeartbeatTimeout);
                }
                answer(room.reply.take(), Err(timeout(message::JOIN)));
                // The server may still carry out the join.
                self.send_leave(now);
            }
            Request::Join | Request::Leave => {}
        }
        Ok(())
    }
}

/// Answers a call, if somebody waits for it.
pub(super) fn answer<T>(reply: Option<Reply<T>>, outcome: Result<T, Error>) {
    if let Some(reply) = reply {
        // The caller may have dropped its future.
        let _ = reply.send(outcome);
    }
}
