//! The membership of a client, as its task sees it.

use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::error::Error;
use crate::event::RejoinCause;
use crate::message::{self, JoinRequest};
use crate::object;
use crate::reconnect::Reconnect;
use crate::room_view::Change;
use crate::shared::{JoinCommand, Reply};

/// A membership that exists or is wanted.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) generation: u64,
    pub(super) room: Box<str>,
    user: Box<str>,
    /// The state with all patches that the server has acknowledged.
    state: String,
    /// The state that the join in flight carries.
    joining_state: Option<String>,
    /// The number of held calls whose patches the join in flight carries.
    carried: usize,
    resume: Option<Box<str>>,
    pub(super) epoch: u64,
    pub(super) phase: Phase,
    pub(super) cause: Cause,
    /// The time until which the first join waits for a connection.
    deadline: Instant,
    /// The caller that waits for the first join.
    pub(super) reply: Option<Reply<()>>,
    /// Events that arrived before the answer to a join, for the members.
    early: Vec<Change>,
    /// Automatic joins in quick succession.
    attempts: u32,
    last_rejoin: Option<Instant>,
    is_leave_wanted: bool,
    leave_replies: Vec<Reply<()>>,
}

/// The progress of a membership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The join was not sent: it waits for a connection, or until a time.
    Waiting { until: Option<Instant> },
    /// The join was sent.
    Joining,
    /// The join was answered.
    Joined,
    /// The leave was sent.
    Leaving,
}

/// The reason for a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    First,
    Reconnect,
    Rejoin(RejoinCause),
}

/// Events beyond this number that arrive before the answer to a join are left out; they show as a gap.
const MOST_EARLY: usize = 4096;

impl Room {
    pub(super) fn new(join: JoinCommand, deadline: Instant) -> Self {
        Self {
            generation: join.generation,
            room: join.room,
            user: join.user,
            state: join.state,
            joining_state: None,
            carried: 0,
            resume: None,
            epoch: 0,
            phase: Phase::Waiting { until: None },
            cause: Cause::First,
            deadline,
            reply: Some(join.reply),
            early: Vec::new(),
            attempts: 0,
            last_rejoin: None,
            is_leave_wanted: false,
            leave_replies: Vec::new(),
        }
    }

    pub(super) fn is_first_join(&self) -> bool {
        self.cause == Cause::First
    }

    /// Returns true once a leave was asked for.
    pub(super) fn is_leaving(&self) -> bool {
        self.is_leave_wanted
    }

    pub(super) fn want_leave(&mut self, reply: Option<Reply<()>>) {
        self.is_leave_wanted = true;
        self.leave_replies.extend(reply);
    }

    /// Returns the time at which something of the room is due.
    pub(super) fn due(&self) -> Option<Instant> {
        match self.phase {
            Phase::Waiting { until: Some(until) } => Some(until),
            Phase::Waiting { until: None } if self.is_first_join() => Some(self.deadline),
            _ => None,
        }
    }

    /// Returns true if a delayed join is due.
    pub(super) fn is_join_due(&self, now: Instant) -> bool {
        matches!(self.phase, Phase::Waiting { until: Some(until) } if until <= now)
    }

    /// Returns true if the first join has waited too long for a connection.
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        self.phase == Phase::Waiting { until: None } && self.is_first_join() && self.deadline <= now
    }

    /// Waits for the next connection.
    pub(super) fn disconnect(&mut self) {
        self.phase = Phase::Waiting { until: None };
        self.early = Vec::new();
        if !self.is_first_join() {
            self.cause = Cause::Reconnect;
        }
    }

    /// Waits with the next join until a time.
    pub(super) fn wait_until(&mut self, until: Instant) {
        self.phase = Phase::Waiting { until: Some(until) };
        self.joining_state = None;
    }

    /// Begins a join with the state that all calls make: with the `patches` that are not acknowledged, `carried` of them
    /// of held calls. Returns the frame.
    pub(super) fn begin_join(&mut self, id: u64, patches: &[Box<str>], carried: usize) -> String {
        let mut state = self.state.clone();
        for patch in patches {
            // Both are objects that were serialized, so merging them can't fail.
            state = object::merge(&state, patch).unwrap_or(state);
        }
        let sent = match state.as_str() {
            "{}" => None,
            text => serde_json::from_str::<&RawValue>(text).ok(),
        };
        // A token belongs to a connection that broke.
        let resume = self.resume.as_deref();
        let request = JoinRequest {
            room_id: &self.room,
            user_id: &self.user,
            state: sent,
            resume: resume.filter(|_| self.cause == Cause::Reconnect),
        };
        let frame = message::join_frame(id, &request);
        self.joining_state = Some(state);
        self.carried = carried;
        self.phase = Phase::Joining;
        frame
    }

    /// Takes an answered join. Returns the events that arrived before the answer.
    pub(super) fn joined(&mut self, epoch: u64, resume: Option<Box<str>>) -> Vec<Change> {
        (self.epoch, self.resume) = (epoch, resume);
        self.state = self.joining_state.take().unwrap_or_default();
        self.phase = Phase::Joined;
        std::mem::take(&mut self.early)
    }

    /// Returns the number of held calls whose patches the join in flight carries.
    pub(super) fn carried(&self) -> usize {
        match self.phase {
            Phase::Joining => self.carried,
            _ => 0,
        }
    }

    /// Takes that number, once the join was answered.
    pub(super) fn take_carried(&mut self) -> usize {
        std::mem::take(&mut self.carried)
    }

    /// Registers the end of the held call that has waited longest.
    pub(super) fn expire_held(&mut self) {
        self.carried = self.carried.saturating_sub(1);
    }

    /// Answers those who wait for the leave.
    pub(super) fn end(self, outcome: &Result<(), Error>) {
        for reply in self.leave_replies {
            let _ = reply.send(outcome.clone());
        }
    }

    /// Keeps an event that arrives before the answer to a join.
    pub(super) fn keep_early(&mut self, change: &Change) {
        if self.phase == Phase::Joining && self.early.len() < MOST_EARLY {
            self.early.push(change.clone());
        }
    }

    /// Returns the delay before the next automatic join: none, unless the last one was a short time ago.
    pub(super) fn rejoin_delay(&mut self, reconnect: &Reconnect, now: Instant) -> Duration {
        let is_recent = self
            .last_rejoin
            .is_some_and(|last| now.duration_since(last) < reconnect.max);
        self.last_rejoin = Some(now);
        if !is_recent {
            self.attempts = 0;
            return Duration::ZERO;
        }
        self.attempts = self.attempts.saturating_add(1);
        reconnect.delay(self.attempts - 1)
    }

    /// Merges an acknowledged patch into the state.
    pub(super) fn acknowledge(&mut self, patch: &str) {
        if let Ok(merged) = object::merge(&self.state, patch) {
            self.state = merged;
        }
    }
}
