//! The knowledge of a client about its room: the members, and the number of the last event.

use std::sync::Arc;

use crate::event::{Event, LeaveReason, MemberEvent};
use crate::member::{Member, Snapshot, State};
use crate::message::{Answer, WireEvent, WireMember};

/// An event of a room with its kind.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) kind: Kind,
    pub(crate) event: MemberEvent,
}

/// The effect of an event on a member.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Join,
    Update,
    Leave(LeaveReason),
}

impl Change {
    pub(crate) fn into_event(self) -> Event {
        match self.kind {
            Kind::Join => Event::Join(self.event),
            Kind::Update => Event::Update(self.event),
            Kind::Leave(reason) => Event::Leave(self.event, reason),
        }
    }
}

/// The position of an event in the sequence of its room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// The next event, or one of a server that does not number its events.
    Next,
    /// An event that is included in the snapshot, or arrived before.
    Duplicate,
    /// An event after lost ones.
    Gap { expected: u64, got: u64 },
}

/// The room of a client.
#[derive(Debug)]
pub(crate) struct RoomView {
    pub(crate) room: Arc<str>,
    pub(crate) generation: u64,
    conn_id: Arc<str>,
    epoch: u64,
    /// The number of the last event. `None` while it is unknown: before the first answer, and after a disconnection.
    seq: Option<u64>,
    /// The number of this client's own join, until its event has arrived.
    own_join: Option<u64>,
    /// Ordered by connection id: a sorted list needs less memory than a tree, and rooms are small.
    members: Vec<Member>,
    tracks_members: bool,
    is_current: bool,
    is_degraded: bool,
}

impl RoomView {
    pub(crate) fn new(room: Arc<str>, generation: u64, tracks_members: bool) -> Self {
        Self {
            room,
            generation,
            conn_id: "".into(),
            epoch: 0,
            seq: None,
            own_join: None,
            members: Vec::new(),
            tracks_members,
            is_current: false,
            is_degraded: false,
        }
    }

    /// Returns the members that are known.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            members: self.members.clone(),
            seq: self.seq,
            conn_id: Arc::clone(&self.conn_id),
            epoch: self.epoch,
            is_current: self.is_current,
            is_degraded: self.is_degraded,
        }
    }

    fn index(&self, conn_id: &str) -> Result<usize, usize> {
        self.members
            .binary_search_by(|member| (*member.conn_id).cmp(conn_id))
    }

    /// Converts an event. Returns `None` if its kind is unknown.
    pub(crate) fn change(&self, wire: &WireEvent<'_>) -> Option<Change> {
        let kind = match &*wire.kind {
            "join" => Kind::Join,
            "update" => Kind::Update,
            "leave" => Kind::Leave(LeaveReason::from_wire(wire.reason.as_deref())),
            _ => return None,
        };
        let known = self
            .index(&wire.conn_id)
            .ok()
            .map(|index| &self.members[index]);
        let state = match (wire.state, known) {
            (Some(state), _) => State::from_text(state.get()),
            (None, Some(known)) => known.state.clone(),
            (None, None) => State::default(),
        };
        let member = Member {
            conn_id: known.map_or_else(|| (*wire.conn_id).into(), |known| known.conn_id.clone()),
            user_id: known
                .filter(|known| *known.user_id == *wire.user_id)
                .map_or_else(|| (*wire.user_id).into(), |known| known.user_id.clone()),
            state,
            last_seen_ms: wire.ts,
            epoch: wire.epoch,
        };
        let event = MemberEvent {
            room: Arc::clone(&self.room),
            member,
            ts_ms: wire.ts,
            seq: wire.seq,
            is_degraded: wire.degraded,
        };
        Some(Change { kind, event })
    }

    /// Applies an event to the members, and returns its position in the sequence.
    pub(crate) fn apply(&mut self, change: &Change) -> Order {
        let order = self.order(change);
        if order != Order::Duplicate {
            self.change_members(change);
        }
        order
    }

    fn order(&mut self, change: &Change) -> Order {
        let (Some(last), Some(seq)) = (self.seq, change.event.seq) else {
            return Order::Next;
        };
        if seq <= last {
            let is_own = self.own_join == Some(seq) && self.is_own(&change.event.member);
            if is_own {
                self.own_join = None;
            }
            return if is_own {
                Order::Next
            } else {
                Order::Duplicate
            };
        }
        self.seq = Some(seq);
        if seq == last + 1 {
            Order::Next
        } else {
            Order::Gap {
                expected: last + 1,
                got: seq,
            }
        }
    }

    fn is_own(&self, member: &Member) -> bool {
        member.conn_id == self.conn_id
    }

    /// Returns true if the event says that this client's present membership ended.
    pub(crate) fn ends_own(&self, change: &Change) -> bool {
        let member = &change.event.member;
        matches!(change.kind, Kind::Leave(_)) && self.is_own(member) && member.epoch >= self.epoch
    }

    fn change_members(&mut self, change: &Change) {
        let member = &change.event.member;
        let index = self.index(&member.conn_id);
        match (&change.kind, index) {
            (Kind::Leave(_), Ok(index)) if self.members[index].epoch <= member.epoch => {
                self.members.remove(index);
            }
            (Kind::Leave(_), _) => {}
            (_, Ok(index)) if self.members[index].epoch <= member.epoch => {
                self.members[index] = member.clone();
            }
            (_, Err(index)) if self.tracks_members || self.is_own(member) => {
                self.insert(index, member.clone());
            }
            _ => {}
        }
    }

    fn insert(&mut self, index: usize, member: Member) {
        // Doubling would waste a third of the memory of small rooms.
        if self.members.len() == self.members.capacity() {
            self.members.reserve_exact(1 + self.members.len() / 8);
        }
        self.members.insert(index, member);
    }

    /// Takes over the answer to a join, and applies the events that arrived before it. Returns lost events, if any.
    pub(crate) fn joined(&mut self, answer: &Answer<'_>, early: &[Change]) -> Option<Order> {
        let own = answer
            .own
            .as_ref()
            .expect("the caller has checked the answer");
        self.conn_id = (*own.conn_id).into();
        self.epoch = own.epoch;
        self.is_current = true;
        self.is_degraded = answer.degraded;
        self.take_members(answer.snapshot.as_deref().unwrap_or_default());
        self.seq = answer.seq;
        self.own_join = None;
        let mut lost = None;
        for change in early {
            if let gap @ Order::Gap { .. } = self.apply(change) {
                lost = Some(gap);
            }
        }
        // A resumed membership is not published as a join.
        let has_own_join =
            answer.resumed || early.iter().any(|change| change.event.seq == answer.seq);
        self.own_join = answer.seq.filter(|_| !has_own_join);
        lost
    }

    fn take_members(&mut self, snapshot: &[WireMember<'_>]) {
        let kept = snapshot
            .iter()
            .filter(|member| self.tracks_members || *member.conn_id == *self.conn_id);
        let mut members = Vec::with_capacity(kept.clone().count());
        members.extend(kept.map(|member| {
            Member {
                conn_id: (*member.conn_id).into(),
                user_id: (*member.user_id).into(),
                state: member
                    .state
                    .map_or_else(State::default, |state| State::from_text(state.get())),
                last_seen_ms: member.last_seen_ms,
                epoch: member.epoch,
            }
        }));
        members.sort_unstable_by(|a, b| a.conn_id.cmp(&b.conn_id));
        self.members = members;
    }

    /// Notes that the membership is uncertain. `forgets` the number of the last event if the next one need not follow it.
    pub(crate) fn suspend(&mut self, forgets: bool) {
        self.is_current = false;
        if forgets {
            self.seq = None;
            self.own_join = None;
        }
    }
}
