//! Events of rooms that other nodes share: applied in the order of their numbers.

use std::sync::Arc;

use super::answer::JoinAnswer;
use super::event::{Event, Kind, Reason};
use super::op::{Op, Stored, Write};
use super::outcome::{Outcome, Record};
use super::refusal::Refusal;
use super::room::{Inner, Room};
use super::service::{Presence, write_ok};
use super::shared::{Completed, Elsewhere, Numbered, Remote};
use super::sink::{Caller, Sink};

impl<S: Sink> Presence<S> {
    /// Handles an event of another node.
    pub(crate) fn receive(&self, record: &Record<'_>) {
        let Some(room) = self.rooms.find(record.room) else {
            return;
        };
        let mut inner = room.lock();
        let numbered = Numbered {
            previous: record.previous,
            seq: record.seq,
            kind: record.kind,
            ts: record.ts,
            conn: record.conn.into(),
            stored: record.stored.into(),
            cause: None,
        };
        self.queue(&room, &mut inner, numbered);
        self.close_if_empty(&room, inner);
    }

    /// Handles the answer to a write of this node. `ts` is the store's time.
    pub(crate) fn complete(&self, op: Op<S>, outcome: Outcome, ts: u64) {
        let room = Arc::clone(&op.room);
        let mut inner = room.lock();
        if let Some(shared) = inner.shared.as_mut().filter(|_| op.write.is_hold()) {
            shared.holds = shared.holds.saturating_sub(1);
        }
        if !outcome.is_known {
            self.miss(&mut inner, &op);
        } else if matches!(op.write, Write::Rejoin { .. }) {
            self.rejoin(&room, &mut inner, &op, &outcome, ts);
            self.drain(&room, &mut inner, None);
        } else if outcome.kind.is_some() || matches!(op.write, Write::Correct { .. }) {
            self.begin_sync(&mut inner, &op, &outcome);
            let numbered = Numbered {
                previous: outcome.previous,
                seq: outcome.seq,
                kind: outcome.kind,
                ts,
                conn: op.conn.clone(),
                stored: op.stored.clone(),
                cause: Some(Completed {
                    op,
                    snapshot: outcome.snapshot,
                }),
            };
            self.queue(&room, &mut inner, numbered);
        } else {
            // A snapshot without an event follows the events up to its number, and comes before the next one.
            self.drain(&room, &mut inner, Some(outcome.seq));
            self.answer_write(&mut inner, &op, outcome.seq, None, &outcome.snapshot);
            self.drain(&room, &mut inner, None);
        }
        self.close_if_empty(&room, inner);
    }

    /// Takes the number of the last event from the first join of a room.
    fn begin_sync(&self, inner: &mut Inner<S>, op: &Op<S>, outcome: &Outcome) {
        let Some(shared) = &mut inner.shared else {
            return;
        };
        if shared.is_synced || op.write != Write::Join || !shared.is_linked {
            return;
        }
        shared.is_synced = true;
        shared.elsewhere = remote_members(
            &outcome.snapshot,
            inner.members.iter().map(|(_, member)| &*member.conn),
        );
        shared.waiting = shared.waiting.split_off(&(outcome.previous + 1));
        inner.seq = outcome.previous;
    }

    /// Puts an event in its place, and applies those that have no gap before them.
    fn queue(&self, room: &Arc<Room<S>>, inner: &mut Inner<S>, numbered: Numbered<S>) {
        let seq = inner.seq;
        let is_empty = inner.members.is_empty();
        let Some(shared) = &mut inner.shared else {
            return;
        };
        // It is known already, or of a time before the last interruption, or there is nobody to tell.
        if is_empty || !shared.is_linked || (shared.is_synced && numbered.seq <= seq) {
            self.answer_completed(inner, numbered);
            return;
        }
        shared.waiting.insert(numbered.seq, numbered);
        self.drain(room, inner, None);
    }

    /// Answers the writes whose events wait for earlier ones. A room without members gets no events of other nodes any
    /// more, so the earlier ones would never come.
    pub(crate) fn answer_waiting(&self, inner: &mut Inner<S>) {
        let Some(shared) = &mut inner.shared else {
            return;
        };
        for (_, numbered) in std::mem::take(&mut shared.waiting) {
            self.answer_completed(inner, numbered);
        }
    }

    /// Answers the write that caused an event, if it is one of this node.
    fn answer_completed(&self, inner: &mut Inner<S>, numbered: Numbered<S>) {
        if let Some(Completed { op, snapshot }) = numbered.cause {
            self.answer_write(inner, &op, numbered.seq, numbered.kind, &snapshot);
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
            let numbered = first.remove();
            self.apply(room, inner, numbered);
        }
    }

    fn apply(&self, room: &Room<S>, inner: &mut Inner<S>, numbered: Numbered<S>) {
        if numbered
            .cause
            .as_ref()
            .is_some_and(|cause| matches!(cause.op.write, Write::Correct { .. }))
        {
            self.correct(room, inner, &numbered);
        }
        inner.seq = inner.seq.max(numbered.seq);
        let seq = inner.seq;
        if let (Some(kind), Some(stored)) = (numbered.kind, Stored::parse(&numbered.stored)) {
            let kind = match &numbered.cause {
                Some(cause) => {
                    let (key, holder) = cause.op.slot;
                    if let Some(member) = inner.member(key, holder) {
                        member.is_visible = true;
                    }
                    // The members of this node know one that the store had lost.
                    (cause.op.write != Write::Restore).then_some(kind)
                }
                None => {
                    let news = news(inner, kind, &numbered);
                    self.note(inner, kind, &numbered, stored.epoch);
                    news
                }
            };
            if let Some(kind) = kind {
                self.send(inner, shown(room, &numbered, kind, stored, seq));
            }
        }
        if let Some(Completed { op, snapshot }) = numbered.cause {
            self.answer_write(inner, &op, seq, numbered.kind, &snapshot);
        }
    }

    /// Notes what an event of another node tells about a member.
    fn note(&self, inner: &mut Inner<S>, kind: Kind, numbered: &Numbered<S>, epoch: u64) {
        if let Kind::Leave(reason) = kind {
            // Another node may remove a member of this one that is past its TTL. One that has joined again since stays.
            let is_it = |conn: &str, own: u64| conn == &*numbered.conn && own == epoch;
            let found = inner
                .members
                .iter()
                .find(|(_, member)| is_it(&member.conn, member.epoch));
            if let Some((key, _)) = found {
                inner.members.remove(key);
                self.counts.left(reason);
            }
        }
        let Some(shared) = &mut inner.shared else {
            return;
        };
        let lists = [Some(&mut shared.elsewhere), shared.reported.as_mut()];
        for list in lists.into_iter().flatten() {
            match kind {
                Kind::Leave(_) => {
                    list.remove(&numbered.conn);
                }
                Kind::Join | Kind::Update => {
                    let remote = Remote {
                        stored: numbered.stored.clone(),
                        last_seen_ms: numbered.ts,
                        ends_ms: None,
                    };
                    list.insert(numbered.conn.clone(), remote);
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
        snapshot: &Elsewhere,
    ) {
        let Some(caller) = &op.caller else {
            return;
        };
        match op.write {
            Write::Join | Write::Resume { .. } => {
                let (key, holder) = op.slot;
                let is_resumed = op.write != Write::Join && kind != Some(Kind::Join);
                let answer = JoinAnswer {
                    conn: &op.conn,
                    epoch: op.epoch,
                    seq,
                    token: inner.member(key, holder).and_then(|member| member.token),
                    is_resumed,
                    is_degraded: false,
                };
                self.answer_join(caller, &answer, |out| write_members(snapshot, out));
            }
            Write::Update | Write::Touch => {
                let is_changed = op.write == Write::Update;
                self.answer_heartbeat(caller, is_changed, op.epoch, false);
            }
            _ => caller.answer(write_ok),
        }
    }

    /// Handles a write about a member that the store does not know: another node has removed it.
    fn miss(&self, inner: &mut Inner<S>, op: &Op<S>) {
        let is_heartbeat = matches!(op.write, Write::Update | Write::Touch);
        if let Some(caller) = op.caller.as_ref().filter(|_| is_heartbeat) {
            self.refuse_lost(caller);
            let (key, holder) = op.slot;
            if inner
                .member(key, holder)
                .is_some_and(|member| member.epoch == op.epoch)
            {
                inner.members.remove(key);
                self.counts.left(Reason::Expired);
            }
        } else {
            self.answer_write(inner, op, 0, None, &Elsewhere::new());
        }
    }

    /// Refuses a heartbeat of a member that is gone.
    pub(crate) fn refuse_lost(&self, caller: &Caller<S>) {
        if let Err(refusal) = self.answer_stray(caller, Refusal::Expired) {
            self.refuse(caller, &refusal);
        }
    }
}

/// Returns the members of a snapshot that are not on this node.
pub(crate) fn remote_members<'a>(
    snapshot: &Elsewhere,
    own: impl Iterator<Item = &'a str>,
) -> Elsewhere {
    let mut remote = snapshot.clone();
    for conn in own {
        remote.remove(conn);
    }
    remote
}

/// Returns the kind of event that the members of this node are told. A node that writes its members again after the store
/// has lost them adds them to the store, but they have not joined again.
fn news<S>(inner: &Inner<S>, kind: Kind, numbered: &Numbered<S>) -> Option<Kind> {
    let told = inner.shared.as_ref();
    let told = told.map(|shared| shared.reported.as_ref().unwrap_or(&shared.elsewhere));
    match told.and_then(|told| told.get(&numbered.conn)) {
        Some(known) if kind == Kind::Join => {
            (known.stored != numbered.stored).then_some(Kind::Update)
        }
        _ => Some(kind),
    }
}

fn shown<'a, S>(
    room: &'a Room<S>,
    numbered: &'a Numbered<S>,
    kind: Kind,
    stored: Stored<'a>,
    seq: u64,
) -> Event<'a> {
    Event {
        kind,
        room_json: &room.json,
        user_json: stored.user_json,
        conn: &numbered.conn,
        state: stored.state,
        ts: numbered.ts,
        epoch: stored.epoch,
        seq,
        is_degraded: false,
    }
}

/// Appends members, separated by commas.
fn write_members(members: &Elsewhere, out: &mut Vec<u8>) {
    let shown = members
        .iter()
        .filter_map(|(conn, remote)| remote.shown(conn));
    for (index, member) in shown.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        member.write(out);
    }
}
