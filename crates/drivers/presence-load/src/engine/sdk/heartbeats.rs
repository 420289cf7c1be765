//! The heartbeats of the load: updates of the state.

use load::clock;
use presence_sdk::{Error, Heartbeat};

use super::Sdk;
use super::session::Marked;
use crate::outcome;
use crate::roles::Change;

impl Sdk<'_> {
    /// Sends a heartbeat that was due at `at`, and records its end.
    pub(super) async fn heartbeat(&self, user: u32, at: u64) {
        let room = self.client(user).room.clone();
        let Some(room) = room else {
            let never = Change { n: 0, at, sent: at };
            return self.end_heartbeat(user, never, Err(outcome::NOT_JOINED));
        };
        let change = self.users().change(user, at, clock::now());
        let padding = "x".repeat(self.shared.settings().padding as usize);
        let state = Marked {
            n: change.n,
            t: at,
            padding: &padding,
        };
        let outcome = outcome_of(&room.update_state(&state).await);
        self.end_heartbeat(user, change, outcome);
    }

    fn end_heartbeat(&self, user: u32, change: Change, outcome: Result<(), &'static str>) {
        let state = &mut *self.loop_state.borrow_mut();
        let now = clock::now();
        self.users()
            .end_heartbeat(user, change, outcome, now, state);
        // The loop may wait for a later time, or for this heartbeat alone.
        if self.shared.is_closed || self.users().is_over(now, state) {
            state.wake();
        }
    }
}

/// Returns how a heartbeat ended.
fn outcome_of(answer: &Result<Heartbeat, Error>) -> Result<(), &'static str> {
    match answer {
        Ok(heartbeat) if heartbeat.changed => Ok(()),
        // A server that keeps to the model's answers accepts heartbeats of members that it has removed.
        Ok(_) => Err(outcome::HEARTBEAT_WITHOUT_EFFECT),
        Err(Error::Timeout { .. }) => Err(outcome::HEARTBEAT_TIMEOUT),
        Err(Error::Rejected { code, .. }) => Err(outcome::heartbeat_rejected(Some(code.as_str()))),
        Err(Error::NotJoined) => Err(outcome::NOT_JOINED),
        Err(Error::Closed | Error::Disconnected) => Err(outcome::CONNECTION_LOST),
        Err(_) => Err(outcome::HEARTBEAT_REJECTED),
    }
}
