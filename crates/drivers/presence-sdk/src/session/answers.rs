//! Answers of the server.

use tokio::time::Instant;

use super::calls::answer;
use super::room::Cause;
use super::{Held, Request, Session};
use crate::error::{Code, Error};
use crate::event::{DisconnectCause, Event, RejoinCause};
use crate::message::Answer;
use crate::room_view::Order;
use crate::shared::Heartbeat;

impl Session {
    /// Handles an answer. Answers to requests that were given up are left out.
    pub(super) fn on_answer(
        &mut self,
        id: u64,
        message: &Answer<'_>,
        now: Instant,
    ) -> Result<(), DisconnectCause> {
        // Almost always the first.
        let index = self.pending.iter().position(|pending| pending.id == id);
        let Some(pending) = index.and_then(|index| self.pending.remove(index)) else {
            return Ok(());
        };
        let is_current = self
            .room
            .as_ref()
            .is_some_and(|room| room.generation == pending.generation);
        match pending.request {
            Request::Heartbeat { patch, reply } => {
                self.missed = 0;
                let held = Held {
                    order: id,
                    deadline: pending.deadline,
                    patch,
                    reply,
                };
                self.on_heartbeat_answer(held, is_current, message, now);
            }
            Request::Leave if is_current => {
                self.end_room(&if message.ok {
                    Ok(())
                } else {
                    Err(rejection(message))
                });
            }
            Request::Join if is_current => self.on_join_answer(message, now)?,
            Request::Join | Request::Leave => {}
        }
        Ok(())
    }

    fn on_heartbeat_answer(
        &mut self,
        request: Held,
        is_current: bool,
        message: &Answer<'_>,
        now: Instant,
    ) {
        if message.ok {
            if let (true, Some(patch), Some(room)) = (is_current, &request.patch, &mut self.room) {
                room.acknowledge(patch);
            }
            answer(request.reply, Ok(heartbeat(message)));
            return;
        }
        let error = rejection(message);
        let cause = error.code().and_then(RejoinCause::from_code);
        let is_leaving = self.room.as_ref().is_none_or(|room| room.is_leaving());
        let Some(cause) = cause.filter(|_| is_current && !is_leaving) else {
            answer(request.reply, Err(error));
            return;
        };
        if request.patch.is_some() {
            // The join carries the patch, so the call succeeds with it.
            self.hold(request);
        } else {
            answer(request.reply, Err(error));
        }
        self.rejoin(cause, now);
    }

    /// Holds an update until the next join, in the order of the calls. The join in flight does not carry it.
    fn hold(&mut self, held: Held) {
        let carried = self.room.as_ref().map_or(0, |room| room.carried());
        let index = self.held.partition_point(|other| other.order <= held.order);
        self.held.insert(index.max(carried), held);
    }

    /// Keeps updates that were not answered when the connection broke, and ends the other requests.
    pub(super) fn hold_pending(&mut self) {
        let generation = self.room.as_ref().map(|room| room.generation);
        for pending in std::mem::take(&mut self.pending) {
            let is_current = generation == Some(pending.generation);
            match pending.request {
                Request::Heartbeat { patch, reply } if is_current => self.held.push_back(Held {
                    order: pending.id,
                    deadline: pending.deadline,
                    patch,
                    reply,
                }),
                Request::Heartbeat { reply, .. } => answer(reply, Err(Error::Disconnected)),
                Request::Join | Request::Leave => {}
            }
        }
        let held = std::mem::take(&mut self.held).into_iter();
        let (mut updates, heartbeats): (Vec<Held>, Vec<Held>) =
            held.partition(|held| held.patch.is_some());
        updates.sort_by_key(|held| held.order);
        self.held = updates.into();
        for held in heartbeats {
            answer(held.reply, Err(Error::Disconnected));
        }
    }

    fn on_join_answer(
        &mut self,
        message: &Answer<'_>,
        now: Instant,
    ) -> Result<(), DisconnectCause> {
        if message.ok {
            self.on_joined(message, now)
        } else {
            self.on_join_rejected(rejection(message), now);
            Ok(())
        }
    }

    fn on_joined(&mut self, message: &Answer<'_>, now: Instant) -> Result<(), DisconnectCause> {
        let Some(own) = &message.own else {
            let reason = "the answer to a join has no `self`".to_owned();
            return Err(DisconnectCause::Protocol(reason));
        };
        let Some(room) = &mut self.room else {
            return Ok(());
        };
        let early = room.joined(own.epoch, message.resume.clone());
        let lost = {
            let mut inner = self.shared.lock();
            let lost = inner
                .view
                .as_mut()
                .and_then(|view| view.joined(message, &early));
            match room.cause {
                Cause::First => {}
                Cause::Reconnect => inner.log.push(Event::Reconnected {
                    resumed: message.resumed,
                }),
                Cause::Rejoin(cause) => inner.log.push(Event::Rejoined(cause)),
            }
            lost
        };
        // From now on a join is an automatic one.
        room.cause = Cause::Reconnect;
        answer(room.reply.take(), Ok(()));
        if room.is_leaving() {
            self.send_leave(now);
            return Ok(());
        }
        self.next_heartbeat = self
            .options
            .heartbeat_interval
            .map(|interval| now + interval);
        self.release_held(message, now);
        if let Some(Order::Gap { .. }) = lost {
            self.rejoin(RejoinCause::Gap, now);
        }
        Ok(())
    }

    /// Answers the calls whose patches the join carried, and sends the others.
    fn release_held(&mut self, message: &Answer<'_>, now: Instant) {
        let room = self.room.as_mut().expect("the room was joined");
        let carried = room.take_carried().min(self.held.len());
        let epoch = room.epoch;
        for held in self.held.drain(..carried) {
            let outcome = Heartbeat {
                changed: held.patch.is_some(),
                epoch,
                is_degraded: message.degraded,
            };
            answer(held.reply, Ok(outcome));
        }
        for held in std::mem::take(&mut self.held) {
            self.send_heartbeat(held.patch, held.reply, now);
        }
    }

    fn on_join_rejected(&mut self, error: Error, now: Instant) {
        let reconnect = &self.options.reconnect;
        let Some(room) = &mut self.room else { return };
        if room.is_first_join() {
            answer(room.reply.take(), Err(error));
            self.end_room(&Ok(()));
            return;
        }
        for held in self.held.drain(..room.take_carried().min(self.held.len())) {
            answer(held.reply, Err(error.clone()));
        }
        if room.is_leaving() {
            self.send_leave(now);
            return;
        }
        // At least the first bound: the server would be asked at once otherwise.
        let delay = room.rejoin_delay(reconnect, now).max(reconnect.least());
        room.wait_until(now + delay);
        if let Error::Rejected { code, message } = error {
            self.report(Event::RejoinRejected { code, message });
        }
    }
}

fn heartbeat(message: &Answer<'_>) -> Heartbeat {
    Heartbeat {
        changed: message.changed,
        epoch: message.epoch,
        is_degraded: message.degraded,
    }
}

fn rejection(message: &Answer<'_>) -> Error {
    Error::Rejected {
        code: Code::from_wire(message.code.as_deref()),
        message: message
            .error
            .clone()
            .unwrap_or_else(|| "the server gave no reason".to_owned()),
    }
}
