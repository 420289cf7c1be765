//! The events of a user, for the audit.

use std::borrow::Cow;

use load::clock;
use presence_sdk::{DisconnectCause, Event, Events, LeaveReason, MemberEvent, RoomHandle, State};

use super::Engine;
use crate::population::Behaviour;
use crate::protocol::json::Scanner;
use crate::protocol::presence::{EventType, Member, PresenceEvent, Reason, Stamp};
use crate::series::{JOIN, PROPAGATION, RECONNECT};
use crate::users::{Memberships, Phase, hash};

impl Engine<'_> {
    /// Reads the events of a user until its client is closed, or until a slow consumer is joined.
    pub(super) async fn read(&self, user: u32, mut events: Events) {
        loop {
            {
                let load = &mut *self.load.borrow_mut();
                let state = &load.users[user as usize];
                if state.behaviour != Behaviour::Active && state.phase == Phase::Joined {
                    return load.unread.push((user, events));
                }
            }
            let Some(event) = events.next().await else {
                return;
            };
            if self.event(user, &event) {
                let room = self.load.borrow().rooms[user as usize].clone();
                let sent = self.load.borrow().users[user as usize].sent;
                let Some(room) = room else { return };
                // Its answer comes after the events of all changes that were acknowledged when the membership began in
                // the audit. If it fails, the connection is lost again.
                let _ = room.heartbeat().await;
                self.drain(user, &mut events);
                self.take_snapshot(user, &room, sent);
            }
        }
    }

    /// Takes the events that have arrived.
    pub(super) fn drain(&self, user: u32, events: &mut Events) {
        while let Some(event) = events.try_next() {
            self.event(user, &event);
        }
    }

    /// Handles an event. Returns true if the room was joined again.
    fn event(&self, user: u32, event: &Event) -> bool {
        match event {
            Event::Join(event) => self.presence(user, EventType::Join, event, None),
            Event::Update(event) => self.presence(user, EventType::Update, event, None),
            Event::Leave(event, reason) => {
                self.presence(user, EventType::Leave, event, Some(convert(reason)));
            }
            // The churn has ended the membership.
            Event::Disconnected(DisconnectCause::Requested) => {}
            Event::Disconnected(cause) => {
                self.debug(user, &format!("the connection was lost: {cause}"));
                let load = &mut *self.load.borrow_mut();
                self.lose(user, load);
                self.suspend(user, load);
            }
            Event::Gap { expected, got } => {
                let load = &mut *self.load.borrow_mut();
                load.audit.counts.sequence_gaps += got.saturating_sub(*expected);
                self.suspend(user, load);
            }
            Event::Reconnected { .. } => {
                self.load.borrow_mut().counts.connected += 1;
                return true;
            }
            Event::Rejoined(_) => return true,
            Event::MembershipLost(cause) => {
                self.debug(user, &format!("joins again: {cause:?}"));
                let load = &mut *self.load.borrow_mut();
                load.counts.expired += 1;
                self.suspend(user, load);
            }
            Event::Lagged(lost) => self.load.borrow_mut().audit.counts.lost += lost,
            Event::ReconnectFailed { error, .. } => {
                self.debug(user, &format!("cannot connect again: {error}"));
                self.load.borrow_mut().counts.retries += 1;
            }
            Event::RejoinFailed(error) => {
                self.debug(user, &format!("cannot join again: {error}"));
                self.load.borrow_mut().counts.retries += 1;
            }
            Event::RejoinRejected { message, .. } => {
                self.debug(user, &format!("the join was refused: {message}"));
                self.load.borrow_mut().counts.retries += 1;
            }
            _ => self.load.borrow_mut().counts.ignored += 1,
        }
        false
    }

    /// Ends the membership of a joined user, which the client begins again by itself.
    pub(super) fn suspend(&self, user: u32, load: &mut super::Load) {
        if load.users[user as usize].phase != Phase::Joined {
            return;
        }
        load.audit.end(user);
        load.audit.begin_join(user, &load.users);
        load.joined -= 1;
        load.unsettled += 1;
        let state = &mut load.users[user as usize];
        state.phase = Phase::Joining;
        state.sent = clock::now();
        state.sender.end(true);
        state.sender.memberships.set_uncertain();
        state.sender.begin_join();
    }

    fn presence(&self, user: u32, kind: EventType, event: &MemberEvent, reason: Option<Reason>) {
        let now = clock::now();
        let (stamp, padding) = match kind {
            EventType::Leave => (None, None),
            EventType::Join | EventType::Update => marks(&event.member.state),
        };
        let event = PresenceEvent {
            kind,
            room_id: Cow::Borrowed(&event.room),
            user_id: Cow::Borrowed(&event.member.user_id),
            conn_id: Cow::Borrowed(&event.member.conn_id),
            stamp,
            padding,
            has_state: kind != EventType::Leave,
            seq: event.seq,
            epoch: Some(event.member.epoch),
            ts: Some(event.ts_ms),
            reason,
            degraded: event.is_degraded,
        };
        let load = &mut *self.load.borrow_mut();
        if kind == EventType::Join {
            self.learn_connection(user, (&event.user_id, &event.conn_id), load);
        }
        let begun = load.audit.event(user, &event, &load.users, now);
        let state = self.loop_state.borrow();
        if let Some(at) = begun.filter(|at| state.phases.counts(*at)) {
            state.record.value(PROPAGATION, (now - at).max(1));
        }
    }

    /// Takes over the connection of a user whose join is under way: the client reports it only with the answer, and the
    /// others may have the event, or a snapshot that shows it, before.
    fn learn_connection(
        &self,
        receiver: u32,
        (user_id, conn_id): (&str, &str),
        load: &mut super::Load,
    ) {
        let room = self.part.room_of(receiver);
        let Some(member) = self.part.member_named(room, user_id) else {
            return;
        };
        let first = receiver - self.part.member_of(receiver);
        let state = &mut load.users[(first + member) as usize];
        // A receiver that is late has the join of the connection before.
        if state.phase == Phase::Joining && hash(conn_id) != state.sender.previous {
            state.sender.connect(conn_id);
        }
    }

    /// Checks the members after a join that was sent at `sent`, and begins the membership.
    pub(super) fn take_snapshot(&self, user: u32, room: &RoomHandle, sent: u64) {
        let Some(snapshot) = room.snapshot().filter(|snapshot| snapshot.is_current) else {
            return;
        };
        let now = clock::now();
        let load = &mut *self.load.borrow_mut();
        let state = &mut load.users[user as usize];
        if state.phase != Phase::Joining {
            return;
        }
        state.sender.connect(&snapshot.conn_id);
        for member in &snapshot.members {
            self.learn_connection(user, (&member.user_id, &member.conn_id), load);
        }
        let members = snapshot.members.iter().map(|member| {
            let (stamp, padding) = marks(&member.state);
            Ok(Member {
                conn_id: Cow::Borrowed(&*member.conn_id),
                user_id: Cow::Borrowed(&*member.user_id),
                stamp,
                padding,
                last_seen_ms: Some(member.last_seen_ms),
                epoch: Some(member.epoch),
            })
        });
        let shown = load
            .audit
            .joined(user, (sent, now, snapshot.seq), members, &load.users);
        load.counts.snapshot_members += shown.unwrap_or_default();
        load.counts.joins += 1;
        load.joined += 1;
        load.unsettled -= 1;
        let state = &mut load.users[user as usize];
        state.phase = Phase::Joined;
        state.epoch = snapshot.epoch;
        state.sender.joined_at = now;
        state.sender.memberships.publish(Memberships::JOIN);
        let lost_at = std::mem::take(&mut state.lost_at);
        let is_back = std::mem::take(&mut state.is_churning);
        // The client of a cut connection has its room all the time, and `sent` is the time of the cut.
        let was_cut = is_back && load.rooms[user as usize].is_some();
        let loop_state = self.loop_state.borrow();
        if lost_at > 0 {
            loop_state.record.value(RECONNECT, now - lost_at);
            load.counts.reconnects += 1;
        } else if !was_cut {
            loop_state.record.value(JOIN, now - sent);
        }
    }
}

/// Returns the stamp of a state, and the number of letters that are added to it.
fn marks(state: &State) -> (Option<Stamp>, Option<u32>) {
    let scanned = Stamp::scan(&mut Scanner::new(state.as_json()));
    scanned.map_or((None, None), |(_, stamp, padding)| (stamp, padding))
}

fn convert(reason: &LeaveReason) -> Reason {
    match reason {
        LeaveReason::Leave => Reason::Leave,
        LeaveReason::Disconnect => Reason::Disconnect,
        LeaveReason::Expired => Reason::Expired,
        LeaveReason::NodeDown => Reason::NodeDown,
        _ => Reason::Other,
    }
}
