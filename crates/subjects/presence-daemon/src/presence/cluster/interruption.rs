//! Rooms that other nodes share, while the store cannot be reached, and after it is back.

use std::sync::Arc;

use super::store::Stored;
use super::{
    Cluster, Op, Outcome, RemoteMember, RemoteMembers, SequencedEvent, Write, remote_members,
};
use crate::presence::event::{Event, Kind, Reason};
use crate::presence::room::{Inner, Room};
use crate::presence::service::write_ok;
use crate::presence::sink::Sink;

impl<S: Sink> Cluster<'_, S> {
    /// Switches every room to degraded (local) mode. `sent` are the writes in flight when the connection broke.
    pub(crate) fn interrupt(&self, sent: Vec<Op<S>>, now_ms: u64) {
        let queued = self.queue.close();
        let ends_ms = now_ms + self.presence.settings.ttl_ms();
        let mut failed = Vec::new();
        self.presence.rooms.for_each(|room| {
            let mut inner = room.lock();
            let Some(shared) = &mut inner.shared else {
                return;
            };
            shared.is_linked = false;
            shared.is_synced = false;
            shared.holds = 0;
            let waiting = std::mem::take(&mut shared.waiting).into_values();
            failed.extend(
                waiting
                    .filter_map(|sequenced| sequenced.own_write)
                    .map(|own_write| own_write.op),
            );
            // The clients of this node know no others.
            if let Some(announced) = shared.announced.take() {
                shared.remote = announced;
            }
            for remote in shared.remote.values_mut() {
                remote.ends_ms.get_or_insert(ends_ms);
            }
        });
        for op in failed.into_iter().chain(sent).chain(queued) {
            self.fail(&op, now_ms);
        }
    }

    /// Performs a write on this node only.
    fn fail(&self, op: &Op<S>, now_ms: u64) {
        let room = Arc::clone(&op.room);
        let mut inner = room.lock();
        let is_there = inner.member(op.slot).is_some();
        let kind = match op.write {
            Write::Leave(reason) => Some(Kind::Leave(reason)),
            Write::Join if is_there => Some(Kind::Join),
            Write::Update | Write::Resume { is_changed: true } if is_there => Some(Kind::Update),
            _ => None,
        };
        match kind {
            Some(Kind::Join) => inner.members[op.slot.key].is_visible = true,
            Some(Kind::Leave(_)) => self.queue.remember_left(&room.id, &op.conn),
            _ => {}
        }
        // The state is the one of the write: the member has the changes of later writes already.
        if let (Some(kind), Some(stored)) = (kind, Stored::parse(&op.stored)) {
            let event = stored.event(&room.json, &op.conn, kind, now_ms);
            self.presence.publish(&mut inner, event);
        }
        if let Some(caller) = &op.caller {
            let (presence, write) = (self.presence, op.write);
            match write {
                Write::Leave(_) => caller.answer(write_ok),
                _ if !is_there => self.refuse_lost(caller),
                Write::Update | Write::Touch => {
                    let is_changed = write == Write::Update;
                    presence.answer_heartbeat(caller, is_changed, Some(op.epoch), true);
                }
                _ => {
                    let is_resumed = write != Write::Join;
                    presence.answer_join_local(&inner, op.slot.key, caller, is_resumed);
                }
            }
        }
        self.presence.close_if_empty(&room, inner);
    }

    /// Writes all rooms to the store again, after the connection is back.
    pub(crate) fn resync(&self, is_intact: bool) {
        self.queue.open();
        for (room, conn) in self.queue.take_left() {
            // The room may be gone, and nobody waits for the answer.
            let room = Arc::new(Room::new(&room, true));
            let leave = Op {
                conn,
                ..Op::about_room(&room, Write::Leave(Reason::Disconnect))
            };
            // If the queue is closed again, the store keeps the member until this node's lease has passed.
            let _ = self.queue.push([leave]);
        }
        self.presence.rooms.for_each(|room| {
            let mut inner = room.lock();
            let floor = inner.seq;
            let Inner {
                members,
                shared: Some(shared),
                ..
            } = &mut *inner
            else {
                return;
            };
            if shared.is_linked {
                return;
            }
            let rejoin = Op::about_room(room, Write::Rejoin { floor, is_intact });
            let restore = members
                .iter()
                .map(|(key, member)| Op::about(room, Write::Restore, key, member, None));
            let ops: Vec<_> = [rejoin].into_iter().chain(restore).collect();
            if self.queue.push(ops).is_ok() {
                shared.is_linked = true;
                shared.holds += 1;
                members
                    .iter_mut()
                    .for_each(|(_, member)| member.is_shared = true);
            }
        });
    }

    /// Takes up what the store knows of a room, and reserves numbers for what its members do not know yet.
    pub(super) fn rejoin(
        &self,
        room: &Arc<Room<S>>,
        inner: &mut Inner<S>,
        op: &Op<S>,
        outcome: &Outcome,
        now_ms: u64,
    ) {
        let Inner {
            members,
            shared: Some(shared),
            seq,
            ..
        } = inner
        else {
            return;
        };
        if !shared.is_linked {
            return;
        }
        *seq = outcome.seq;
        shared.is_synced = true;
        shared.waiting = shared.waiting.split_off(&(outcome.seq + 1));
        let mut actual = remote_members(&outcome.snapshot, members);
        let known = std::mem::take(&mut shared.remote);
        if let Write::Rejoin {
            is_intact: false, ..
        } = op.write
        {
            let ends_ms = Some(now_ms + self.presence.settings.ttl_ms());
            for (conn, remote) in &known {
                let unconfirmed = RemoteMember {
                    ends_ms,
                    ..remote.clone()
                };
                actual.entry(conn.clone()).or_insert(unconfirmed);
            }
        }
        shared.remote = actual;
        self.begin_correction(room, inner, known);
    }

    /// Notes the event that waits in a room. Only the maintenance calls it: joins come one after the other, and the
    /// earlier event may be one of the writes that are under way.
    pub(crate) fn check_gap(&self, inner: &mut Inner<S>) {
        let Some(shared) = &mut inner.shared else {
            return;
        };
        let seq = inner.seq;
        let first = shared
            .waiting
            .first_key_value()
            .map(|(first, _)| (*first, seq));
        if first.is_some() && first == shared.waited_for {
            // It waited for a whole interval, in which no other event came: the one before it is lost.
            self.queue.gap.notify_one();
        }
        shared.waited_for = first;
    }

    /// Removes members on other nodes that their nodes did not write again.
    pub(crate) fn remove_lost(&self, room: &Arc<Room<S>>, inner: &mut Inner<S>, now_ms: u64) {
        let Some(shared) = &mut inner.shared else {
            return;
        };
        let is_lost = |remote: &RemoteMember| remote.ends_ms.is_some_and(|ends| now_ms >= ends);
        if shared.announced.is_some() || !shared.remote.values().any(is_lost) {
            return;
        }
        let is_linked = shared.is_linked;
        let known = shared.remote.clone();
        shared.remote.retain(|_, remote| !is_lost(remote));
        if is_linked {
            self.begin_correction(room, inner, known);
            return;
        }
        for (conn, remote) in known.iter().filter(|(_, remote)| is_lost(remote)) {
            if let Some(stored) = Stored::parse(&remote.stored) {
                let kind = Kind::Leave(Reason::Expired);
                let event = stored.event(&room.json, conn, kind, now_ms);
                self.presence.publish(inner, event);
            }
        }
    }

    /// Reserves numbers to tell the members of this node the differences to what they know.
    fn begin_correction(&self, room: &Arc<Room<S>>, inner: &mut Inner<S>, known: RemoteMembers) {
        let Some(shared) = &mut inner.shared else {
            return;
        };
        let count = differences(&known, &shared.remote).len() as u64;
        if count == 0 {
            return;
        }
        shared.announced = Some(known);
        // If the queue is closed again, what was announced counts.
        self.share(inner.shared.as_mut(), || {
            Op::about_room(room, Write::Correct { count })
        });
    }

    /// Tells the members of this node what they missed, in the numbers that were reserved.
    pub(super) fn correct(
        &self,
        room: &Room<S>,
        inner: &mut Inner<S>,
        sequenced: &SequencedEvent<S>,
    ) {
        let announced = inner
            .shared
            .as_mut()
            .and_then(|shared| shared.announced.take());
        let (Some(shared), Some(announced)) = (&inner.shared, announced) else {
            return;
        };
        let numbers = sequenced.previous + 1..=sequenced.seq;
        for (seq, (conn, remote, kind)) in numbers.zip(differences(&announced, &shared.remote)) {
            if let Some(stored) = Stored::parse(&remote.stored) {
                let event = stored.event(&room.json, conn, kind, sequenced.time_us / 1_000);
                self.presence.send(inner, Event { seq, ..event });
            }
        }
    }
}

/// Returns the events that turn one list of members into another.
fn differences<'a>(
    known: &'a RemoteMembers,
    actual: &'a RemoteMembers,
) -> Vec<(&'a str, &'a RemoteMember, Kind)> {
    let left = known.iter().filter(|(conn, _)| !actual.contains_key(*conn));
    let left = left.map(|(conn, remote)| (&**conn, remote, Kind::Leave(Reason::Expired)));
    let new = actual
        .iter()
        .filter_map(|(conn, remote)| match known.get(conn) {
            None => Some((&**conn, remote, Kind::Join)),
            Some(old) if old.stored != remote.stored => Some((&**conn, remote, Kind::Update)),
            Some(_) => None,
        });
    left.chain(new).collect()
}
