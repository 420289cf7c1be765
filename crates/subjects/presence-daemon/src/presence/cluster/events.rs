//! Events of rooms that other nodes share: applied in the order of their numbers.

use std::sync::Arc;

use super::store::Stored;
use super::{
    Cluster, Completed, Op, Outcome, Record, RemoteMember, RemoteMembers, SequencedEvent, Write,
    remote_members, write_members,
};
use crate::presence::answer::JoinAnswer;
use crate::presence::event::{Event, Kind, Reason};
use crate::presence::member::Member;
use crate::presence::refusal::Refusal;
use crate::presence::room::{Inner, Room};
use crate::presence::service::write_ok;
use crate::presence::sink::{Caller, Sink};

impl<S: Sink> Cluster<'_, S> {
    /// Handles an event of another node.
    pub(crate) fn receive(&self, record: &Record<'_>) {
        let Some(room) = self.presence.rooms.find(record.room) else {
            return;
        };
        let mut inner = room.lock();
        let sequenced = SequencedEvent {
            previous: record.previous,
            seq: record.seq,
            kind: record.kind,
            time_us: record.time_us,
            conn: record.conn.into(),
            stored: record.stored.into(),
            own_write: None,
        };
        self.insert(&room, &mut inner, sequenced);
        self.presence.close_if_empty(&room, inner);
    }

    /// Handles the answer to a write of this node. `time_us` is the store's time in microseconds.
    pub(crate) fn complete(&self, op: Op<S>, outcome: Outcome, time_us: u64) {
        let room = Arc::clone(&op.room);
        let mut inner = room.lock();
        if let Some(shared) = inner.shared.as_mut().filter(|_| op.write.is_hold()) {
            shared.holds = shared.holds.saturating_sub(1);
        }
        if !outcome.is_known {
            self.on_unknown_member(&mut inner, &op);
        } else if matches!(op.write, Write::Rejoin { .. }) {
            self.rejoin(&room, &mut inner, &op, &outcome, time_us / 1_000);
            self.drain(&room, &mut inner, None);
        } else if outcome.kind.is_some() || matches!(op.write, Write::Correct { .. }) {
            self.begin_sync(&mut inner, &op, &outcome, time_us);
            let sequenced = SequencedEvent {
                previous: outcome.previous,
                seq: outcome.seq,
                kind: outcome.kind,
                time_us,
                conn: op.conn.clone(),
                stored: op.stored.clone(),
                own_write: Some(Completed {
                    op,
                    snapshot: outcome.snapshot,
                }),
            };
            self.insert(&room, &mut inner, sequenced);
        } else {
            // A snapshot without an event follows the events up to its number, and comes before the next one.
            self.drain(&room, &mut inner, Some(outcome.seq));
            self.answer_write(&mut inner, &op, outcome.seq, None, &outcome.snapshot);
            self.drain(&room, &mut inner, None);
        }
        self.presence.close_if_empty(&room, inner);
    }

    /// Takes the number of the last event from the first join of a room.
    fn begin_sync(&self, inner: &mut Inner<S>, op: &Op<S>, outcome: &Outcome, time_us: u64) {
        let Some(shared) = &mut inner.shared else {
            return;
        };
        if shared.is_synced || op.write != Write::Join || !shared.is_linked {
            return;
        }
        shared.is_synced = true;
        shared.remote = remote_members(&outcome.snapshot, &inner.members);
        // The snapshot has the earlier ones. If the room was empty meanwhile, their numbers may be larger.
        let previous = outcome.previous;
        let is_later = |event: &SequencedEvent<S>| event.seq > previous && event.time_us >= time_us;
        shared.waiting.retain(|_, event| is_later(event));
        inner.seq = outcome.previous;
    }

    /// Inserts an event by its number, and applies those that have no gap before them.
    fn insert(&self, room: &Arc<Room<S>>, inner: &mut Inner<S>, sequenced: SequencedEvent<S>) {
        let seq = inner.seq;
        let is_empty = inner.members.is_empty();
        let Some(shared) = &mut inner.shared else {
            return;
        };
        // It is known already, or of a time before the last interruption, or there is nobody to tell.
        if is_empty || !shared.is_linked || (shared.is_synced && sequenced.seq <= seq) {
            self.answer_completed(inner, sequenced);
            return;
        }
        shared.waiting.insert(sequenced.seq, sequenced);
        self.drain(room, inner, None);
    }

    /// Answers the writes whose events wait for earlier ones. A room without members gets no events of other nodes any
    /// more, so the earlier ones would never come.
    pub(crate) fn answer_waiting(&self, inner: &mut Inner<S>) {
        let Some(shared) = &mut inner.shared else {
            return;
        };
        for (_, sequenced) in std::mem::take(&mut shared.waiting) {
            self.answer_completed(inner, sequenced);
        }
    }

    /// Answers the write of this node that an event belongs to, if there is one.
    fn answer_completed(&self, inner: &mut Inner<S>, sequenced: SequencedEvent<S>) {
        if let Some(Completed { op, snapshot }) = sequenced.own_write {
            self.answer_write(inner, &op, sequenced.seq, sequenced.kind, &snapshot);
        }
    }

    /// Applies the events that have no gap before them; if writes hold them back, only those up to the limit.
    fn drain(&self, room: &Arc<Room<S>>, inner: &mut Inner<S>, limit: Option<u64>) {
        loop {
            let seq = inner.seq;
            let Some(shared) = inner.shared.as_mut().filter(|shared| shared.is_synced) else {
                return;
            };
            let Some(first) = shared.waiting.first_entry() else {
                return;
            };
            let is_next = first.get().previous <= seq;
            let is_held = shared.holds > 0 && limit.is_none();
            if !is_next || is_held || limit.is_some_and(|limit| *first.key() > limit) {
                return;
            }
            let sequenced = first.remove();
            self.apply(room, inner, sequenced);
        }
    }

    fn apply(&self, room: &Room<S>, inner: &mut Inner<S>, sequenced: SequencedEvent<S>) {
        let own_write = sequenced.own_write.as_ref();
        if let Some(Write::Correct { .. }) = own_write.map(|own_write| own_write.op.write) {
            self.correct(room, inner, &sequenced);
        }
        inner.seq = inner.seq.max(sequenced.seq);
        let seq = inner.seq;
        if let (Some(kind), Some(stored)) = (sequenced.kind, Stored::parse(&sequenced.stored)) {
            let kind = match own_write {
                Some(own_write) => {
                    if let Some(member) = inner.member(own_write.op.slot) {
                        member.is_visible = true;
                    }
                    // The members of this node know one that the store had lost.
                    (own_write.op.write != Write::Restore).then_some(kind)
                }
                None => {
                    let event_kind = event_kind(inner, kind, &sequenced);
                    self.track_remote(inner, kind, &sequenced, stored.epoch);
                    event_kind
                }
            };
            if let Some(kind) = kind {
                let event =
                    stored.event(&room.json, &sequenced.conn, kind, sequenced.time_us / 1_000);
                self.presence.send(inner, Event { seq, ..event });
            }
        }
        if let Some(Completed { op, snapshot }) = sequenced.own_write {
            self.answer_write(inner, &op, seq, sequenced.kind, &snapshot);
        }
    }

    /// Updates the members of other nodes by an event of one of them.
    fn track_remote(
        &self,
        inner: &mut Inner<S>,
        kind: Kind,
        sequenced: &SequencedEvent<S>,
        epoch: u64,
    ) {
        if let Kind::Leave(reason) = kind {
            // Another node may remove a member of this one that is past its TTL. One that has joined again since stays.
            let mut members = inner.members.iter();
            let is_it = |member: &Member<S>| member.conn == sequenced.conn && member.epoch == epoch;
            if let Some((key, _)) = members.find(|(_, member)| is_it(member)) {
                inner.members.remove(key);
                self.presence.counts.left(reason);
            }
        }
        let Some(shared) = &mut inner.shared else {
            return;
        };
        let lists = [Some(&mut shared.remote), shared.announced.as_mut()];
        for list in lists.into_iter().flatten() {
            match kind {
                Kind::Leave(_) => {
                    list.remove(&sequenced.conn);
                }
                Kind::Join | Kind::Update => {
                    let remote = RemoteMember {
                        stored: sequenced.stored.clone(),
                        last_seen_ms: sequenced.time_us / 1_000,
                        ends_ms: None,
                    };
                    list.insert(sequenced.conn.clone(), remote);
                }
            }
        }
    }

    /// Answers the client that waits for a write.
    fn answer_write(
        &self,
        inner: &mut Inner<S>,
        op: &Op<S>,
        seq: u64,
        kind: Option<Kind>,
        snapshot: &RemoteMembers,
    ) {
        let Some(caller) = &op.caller else {
            return;
        };
        match op.write {
            Write::Join | Write::Resume { .. } => {
                let is_resumed = op.write != Write::Join && kind != Some(Kind::Join);
                let answer = JoinAnswer {
                    conn: &op.conn,
                    epoch: op.epoch,
                    seq,
                    token: inner.member(op.slot).and_then(|member| member.token),
                    is_resumed,
                    is_degraded: false,
                };
                self.presence
                    .answer_join(caller, &answer, |out| write_members(snapshot, out));
            }
            Write::Update | Write::Touch => {
                let is_changed = op.write == Write::Update;
                self.presence
                    .answer_heartbeat(caller, is_changed, Some(op.epoch), false);
            }
            _ => caller.answer(write_ok),
        }
    }

    /// Handles a write about a member that another node has removed from the store.
    fn on_unknown_member(&self, inner: &mut Inner<S>, op: &Op<S>) {
        let is_heartbeat = matches!(op.write, Write::Update | Write::Touch);
        if let Some(caller) = op.caller.as_ref().filter(|_| is_heartbeat) {
            self.refuse_lost(caller);
            if inner
                .member(op.slot)
                .is_some_and(|member| member.epoch == op.epoch)
            {
                inner.members.remove(op.slot.key);
                self.presence.counts.left(Reason::Expired);
            }
        } else {
            self.answer_write(inner, op, 0, None, &RemoteMembers::new());
        }
    }

    /// Refuses a heartbeat of a member that is gone.
    pub(crate) fn refuse_lost(&self, caller: &Caller<S>) {
        if let Err(refusal) = self.presence.answer_unknown(caller, Refusal::Expired) {
            self.presence.refuse(caller, &refusal);
        }
    }
}

/// Returns the kind of event to send to the members of this node; `None` for no event. A node that writes its members
/// again after the store has lost them adds them to the store, but they have not joined again.
fn event_kind<S>(inner: &Inner<S>, kind: Kind, sequenced: &SequencedEvent<S>) -> Option<Kind> {
    let shared = inner.shared.as_ref();
    let known = shared.map(|shared| shared.announced.as_ref().unwrap_or(&shared.remote));
    match known.and_then(|known| known.get(&sequenced.conn)) {
        Some(known) if kind == Kind::Join => {
            (known.stored != sequenced.stored).then_some(Kind::Update)
        }
        _ => Some(kind),
    }
}
