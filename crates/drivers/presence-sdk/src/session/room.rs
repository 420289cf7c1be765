//! The membership of a client, as its task sees it.

use std::time::Duration;

use tokio::time::Instant;

use crate::event::RejoinCause;
use crate::object;
use crate::reconnect::Reconnect;
use crate::room_view::Change;
use crate::shared::{JoinCommand, Reply};

/// A membership that exists or is wanted.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) generation: u64,
    pub(super) room: Box<str>,
    pub(super) user: Box<str>,
    /// The state with all patches that the server has acknowledged.
    pub(super) state: String,
    /// The state that the join in flight carries.
    pub(super) joining_state: Option<String>,
    /// The number of held calls whose patches the join in flight carries.
    pub(super) carried: usize,
    pub(super) resume: Option<Box<str>>,
    pub(super) epoch: u64,
    pub(super) phase: Phase,
    pub(super) cause: Cause,
    /// The time until which the first join waits for a connection.
    pub(super) deadline: Instant,
    /// The caller that waits for the first join.
    pub(super) reply: Option<Reply<()>>,
    /// Events that arrived before the answer to a join, for the members.
    pub(super) early: Vec<Change>,
    /// Automatic joins in quick succession.
    attempts: u32,
    last_rejoin: Option<Instant>,
    is_leave_wanted: bool,
    pub(super) leave_replies: Vec<Reply<()>>,
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
