//! The events of a user, for the audit.

use std::borrow::Cow;

use load::clock;
use presence_sdk::{DisconnectCause, Event, Events, MemberEvent, RoomHandle, State};

use super::Sdk;
use super::session::{connect_outcome, join_outcome};
use crate::outcome::{self, count};
use crate::protocol::json::Scanner;
use crate::protocol::presence::{EventType, Member, PresenceEvent, Stamp};
use crate::roles::{ConnectionEnd, JoinAnswer, Phase};
use crate::spec::JOIN;

/// The step that follows an event.
enum Next {
    Read,
    /// The room was joined again.
    TakeSnapshot,
    /// The user goes to another node.
    ChangeNode(&'static str),
}

impl Sdk<'_> {
    /// Reads the events of a user until its client is closed, until a slow consumer is joined, or until the user goes to
    /// another node. Returns why the client ends.
    pub(super) async fn read(&self, user: u32, mut events: Events) -> Option<ConnectionEnd> {
        loop {
            if self.users().user(user).has_stopped_reading() {
                self.clients().unread.push((user, events));
                return None;
            }
            let Some(event) = events.next().await else {
                return self.client(user).end;
            };
            match self.event(user, &event) {
                Next::Read => {}
                Next::TakeSnapshot => {
                    let Some(room) = self.client(user).room.clone() else {
                        continue;
                    };
                    let sent = self.users().user(user).sent;
                    // Its answer comes after the events of all changes that were acknowledged when the membership began
                    // in the audit. If it fails, the connection is lost again.
                    let _ = room.heartbeat().await;
                    self.drain(user, &mut events);
                    self.take_snapshot(user, &room, sent);
                }
                Next::ChangeNode(kind) => return Some(ConnectionEnd::Lost(kind)),
            }
        }
    }

    /// Takes the events that have arrived.
    pub(super) fn drain(&self, user: u32, events: &mut Events) {
        while let Some(event) = events.try_next() {
            self.event(user, &event);
        }
    }

    fn event(&self, user: u32, event: &Event) -> Next {
        match event {
            Event::Join(event) => self.presence(user, EventType::Join, event),
            Event::Update(event) => self.presence(user, EventType::Update, event),
            Event::Leave(event, _) => self.presence(user, EventType::Leave, event),
            // The churn has ended the membership.
            Event::Disconnected(DisconnectCause::Requested) => {}
            Event::Disconnected(cause) => {
                self.users().lose(user, &cause.to_string());
                self.suspend(user);
            }
            Event::Gap { expected, got } => {
                let gap = got.saturating_sub(*expected);
                self.users().counts.add(count::SEQUENCE_GAPS, gap);
                self.suspend(user);
            }
            Event::Reconnected { .. } => {
                self.users().counts.add(count::CONNECTED, 1);
                self.clients().opened += 1;
                return Next::TakeSnapshot;
            }
            Event::Rejoined(_) => return Next::TakeSnapshot,
            Event::MembershipLost(cause) => {
                self.debug(user, &format!("joins again: {cause:?}"));
                self.users().counts.add(count::EXPIRED, 1);
                self.suspend(user);
            }
            Event::Lagged(lost) => self.users().counts.add(count::LOST, *lost),
            Event::ReconnectFailed { error, .. } => {
                self.debug(user, &format!("cannot connect again: {error}"));
                return self.fail_attempt(user, connect_outcome(error));
            }
            Event::RejoinFailed(error) => {
                self.debug(user, &format!("cannot join again: {error}"));
                return self.fail_attempt(user, join_outcome(error));
            }
            Event::RejoinRejected { code, message } => {
                self.debug(user, &format!("the join was refused: {message}"));
                return self.fail_attempt(user, outcome::join_rejected(Some(code.as_str())));
            }
            _ => self.users().counts.add(count::IGNORED, 1),
        }
        Next::Read
    }

    /// Takes an attempt of the library to come back that failed. It would try the same node again and again.
    fn fail_attempt(&self, user: u32, kind: &'static str) -> Next {
        let is_joining = self.users().user(user).phase == Phase::Joining;
        if self.shared.settings().spread_rooms && is_joining {
            return Next::ChangeNode(kind);
        }
        let state = &mut self.loop_state.borrow_mut();
        self.users().fail_attempt(user, kind, state);
        Next::Read
    }

    /// Ends the membership of a joined user, which the client begins again by itself.
    pub(super) fn suspend(&self, user: u32) {
        let mut users = self.users();
        if users.suspend(user) {
            users.begin_rejoin(user, clock::now());
        }
    }

    fn presence(&self, user: u32, kind: EventType, event: &MemberEvent) {
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
            seq: event.seq,
            epoch: Some(event.member.epoch),
            ts: Some(event.ts_ms),
            degraded: event.is_degraded,
        };
        let mut users = self.users();
        if kind == EventType::Join {
            users.learn_connection(user, &event.user_id, &event.conn_id);
        }
        users.event(user, &event, now, &self.loop_state.borrow());
    }

    /// Checks the members after a join that was sent at `sent`, and begins the membership.
    pub(super) fn take_snapshot(&self, user: u32, room: &RoomHandle, sent: u64) {
        let Some(snapshot) = room.snapshot().filter(|snapshot| snapshot.is_current) else {
            return;
        };
        let mut users = self.users();
        if users.user(user).phase != Phase::Joining {
            return;
        }
        for member in &snapshot.members {
            users.learn_connection(user, &member.user_id, &member.conn_id);
        }
        let members = snapshot.members.iter().map(|member| {
            let (stamp, padding) = marks(&member.state);
            Member {
                conn_id: Cow::Borrowed(&*member.conn_id),
                user_id: Cow::Borrowed(&*member.user_id),
                stamp,
                padding,
                last_seen_ms: Some(member.last_seen_ms),
                epoch: Some(member.epoch),
            }
        });
        let answer = JoinAnswer {
            connection: Some(&snapshot.conn_id),
            epoch: snapshot.epoch,
            seq: snapshot.seq,
            is_degraded: false,
            sent,
            now: clock::now(),
        };
        // The client of a cut connection has its room all the time, and `sent` is the time of the cut.
        let was_cut = users.user(user).is_churning && self.client(user).room.is_some();
        let state = &mut *self.loop_state.borrow_mut();
        let was_lost = users.joined(user, answer, members, state);
        if !was_cut && !was_lost {
            state.record.value(JOIN, answer.now - sent);
        }
    }
}

/// Returns the stamp of a state, and the number of letters that are added to it.
fn marks(state: &State) -> (Option<Stamp>, Option<u32>) {
    Stamp::scan(&mut Scanner::new(state.as_json())).unwrap_or_default()
}
