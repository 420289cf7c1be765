//! Rooms that other nodes share, while the store cannot be reached, and after it is back.

use std::sync::Arc;

use super::event::{Event, Kind, Reason};
use super::linked::remote_members;
use super::op::{Op, Stored, Write};
use super::outcome::Outcome;
use super::room::{Inner, Room};
use super::service::{Presence, write_ok};
use super::shared::{RemoteMember, RemoteMembers, SequencedEvent};
use super::sink::Sink;

impl<S: Sink> Presence<S> {
    /// Switches every room to degraded (local) mode. `sent` are the writes in flight when the connection broke.
    pub(crate) fn interrupt(&self, sent: Vec<Op<S>>, now_ms: u64) {
        let Some(queue) = &self.write_queue else {
            return;
        };
        let queued = queue.close();
        let ends_ms = now_ms + self.settings.ttl_ms();
        let mut failed = Vec::new();
        self.rooms.for_each(|room| {
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
        let key = op.slot.key;
        let is_there = inner.member(op.slot).is_some();
        let caller = op.caller.as_ref();
        match (op.write, caller) {
            (Write::Join, Some(caller)) if is_there => {
                inner.members[key].is_visible = true;
                self.publish_stored(&room, &mut inner, op, Kind::Join, now_ms);
                self.answer_join_local(&inner, key, caller, false);
            }
            (Write::Resume { is_changed }, Some(caller)) if is_there => {
                if is_changed {
                    self.publish_stored(&room, &mut inner, op, Kind::Update, now_ms);
                }
                self.answer_join_local(&inner, key, caller, true);
            }
            (Write::Update, _) if is_there => {
                self.publish_stored(&room, &mut inner, op, Kind::Update, now_ms);
            }
            (Write::Leave(reason), _) => self.leave_late(&room, &mut inner, op, reason, now_ms),
            _ => {}
        }
        if let Some(caller) = caller {
            match op.write {
                Write::Update | Write::Touch if is_there => {
                    let is_changed = op.write == Write::Update;
                    self.answer_heartbeat(caller, is_changed, op.epoch, true);
                }
                Write::Leave(_) => caller.answer(write_ok),
                _ if is_there => {}
                _ => self.refuse_lost(caller),
            }
        }
        self.close_if_empty(&room, inner);
    }

    fn leave_late(
        &self,
        room: &Room<S>,
        inner: &mut Inner<S>,
        op: &Op<S>,
        reason: Reason,
        now_ms: u64,
    ) {
        if let Some(queue) = &self.write_queue {
            queue.remember_left(&room.id, &op.conn);
        }
        self.publish_stored(room, inner, op, Kind::Leave(reason), now_ms);
    }

    /// Publishes an event with the state of a write, and not of the member, which has the changes of later writes.
    fn publish_stored(
        &self,
        room: &Room<S>,
        inner: &mut Inner<S>,
        op: &Op<S>,
        kind: Kind,
        now_ms: u64,
    ) {
        if let Some(stored) = Stored::parse(&op.stored) {
            self.publish(inner, about(room, &op.conn, stored, kind, now_ms));
        }
    }

    /// Writes all rooms to the store again, after the connection is back. The queue must be open.
    pub(crate) fn resync(&self, is_intact: bool) {
        let Some(queue) = &self.write_queue else {
            return;
        };
        for (room, conn) in queue.take_left() {
            let room = Arc::new(Room::new(&room, true));
            let leave = Op {
                conn,
                ..Op::about_room(&room, Write::Leave(Reason::Disconnect))
            };
            // If the queue is closed again, the store keeps the member until this node's lease has passed.
            let _ = queue.push([leave]);
        }
        self.rooms.for_each(|room| {
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
            if queue.push(ops).is_ok() {
                shared.is_linked = true;
                shared.holds += 1;
                members
                    .iter_mut()
                    .for_each(|(_, member)| member.is_shared = true);
            }
        });
    }

    /// Takes up what the store knows of a room, and reserves numbers for what its members do not know yet.
    pub(crate) fn rejoin(
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
        let mut actual = remote_members(
            &outcome.snapshot,
            members.iter().map(|(_, member)| &*member.conn),
        );
        let known = std::mem::take(&mut shared.remote);
        if matches!(
            op.write,
            Write::Rejoin {
                is_intact: false,
                ..
            }
        ) {
            let ends_ms = Some(now_ms + self.settings.ttl_ms());
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

    /// Removes members on other nodes that their nodes did not write again.
    pub(crate) fn remove_lost(&self, room: &Arc<Room<S>>, inner: &mut Inner<S>, now_ms: u64) {
        let Some(shared) = &mut inner.shared else {
            return;
        };
        let first = shared.waiting.first_key_value().map(|(seq, _)| *seq);
        if let Some(queue) = self
            .write_queue
            .as_ref()
            .filter(|_| first.is_some() && first == shared.waited_for)
        {
            // It waited for a whole interval: the event before it is lost.
            queue.gap.notify_one();
        }
        shared.waited_for = first;
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
                self.publish(
                    inner,
                    about(room, conn, stored, Kind::Leave(Reason::Expired), now_ms),
                );
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
    pub(crate) fn correct(
        &self,
        room: &Room<S>,
        inner: &mut Inner<S>,
        sequenced: &SequencedEvent<S>,
    ) {
        let Some(shared) = &mut inner.shared else {
            return;
        };
        let Some(announced) = shared.announced.take() else {
            return;
        };
        let differences = differences(&announced, &shared.remote);
        let owned: Vec<_> = differences
            .into_iter()
            .map(|(conn, remote, kind)| (Box::from(conn), remote.clone(), kind))
            .collect();
        let numbers = sequenced.previous + 1..=sequenced.seq;
        for (seq, (conn, remote, kind)) in numbers.zip(owned) {
            if let Some(stored) = Stored::parse(&remote.stored) {
                let event = about(room, &conn, stored, kind, sequenced.ts);
                self.send(inner, Event { seq, ..event });
            }
        }
    }
}

/// Returns the events that turn one list of members into another.
fn differences<'a>(
    known: &'a RemoteMembers,
    actual: &'a RemoteMembers,
) -> Vec<(&'a str, &'a RemoteMember, Kind)> {
    let gone = known.iter().filter(|(conn, _)| !actual.contains_key(*conn));
    let gone = gone.map(|(conn, remote)| (&**conn, remote, Kind::Leave(Reason::Expired)));
    let new = actual
        .iter()
        .filter_map(|(conn, remote)| match known.get(conn) {
            None => Some((&**conn, remote, Kind::Join)),
            Some(old) if old.stored != remote.stored => Some((&**conn, remote, Kind::Update)),
            Some(_) => None,
        });
    gone.chain(new).collect()
}

/// Returns an event about a stored member, without its number.
pub(crate) fn about<'a, S>(
    room: &'a Room<S>,
    conn: &'a str,
    stored: Stored<'a>,
    kind: Kind,
    ts: u64,
) -> Event<'a> {
    Event {
        kind,
        room_json: &room.json,
        user_json: stored.user_json,
        conn,
        state: stored.state,
        ts,
        epoch: stored.epoch,
        seq: 0,
        is_degraded: false,
    }
}
