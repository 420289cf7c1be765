//! The heartbeats of the load: updates of the state.

use load::clock;
use presence_sdk::{Error, Heartbeat};

use super::Engine;
use super::session::Marked;
use crate::outcome;
use crate::series::{HEARTBEAT, SERVICE};

impl Engine<'_> {
    /// Sends a heartbeat that was due at `at`, and records its end.
    pub(super) async fn heartbeat(&self, user: u32, at: u64) {
        let room = self.load.borrow().rooms[user as usize].clone();
        let Some(room) = room else {
            return self.end_heartbeat(at, at, Err(outcome::NOT_JOINED));
        };
        let sent = clock::now();
        let n = {
            let load = &mut *self.load.borrow_mut();
            load.counts.heartbeats += 1;
            let state = &mut load.users[user as usize];
            state.sender.n += 1;
            state.sender.n
        };
        let padding = "x".repeat(self.shared.settings().padding as usize);
        let state = Marked {
            n,
            t: at,
            padding: &padding,
        };
        let ended = outcome_of(&room.update_state(&state).await);
        if ended.is_ok() {
            let sender = &mut self.load.borrow_mut().users[user as usize].sender;
            sender.acked = sender.acked.max(n);
        }
        self.end_heartbeat(at, sent, ended);
    }

    fn end_heartbeat(&self, at: u64, sent: u64, ended: Result<(), &'static str>) {
        let now = clock::now();
        let state = &mut *self.loop_state.borrow_mut();
        let load = &mut *self.load.borrow_mut();
        let is_counted = state.phases.counts(at);
        load.open -= 1;
        load.open_counted -= u64::from(is_counted);
        match (ended, is_counted) {
            (Ok(()), true) => {
                load.counts.ok += 1;
                state.record.value(HEARTBEAT, now - at);
                state.record.value(SERVICE, now - sent);
            }
            (Ok(()), false) => load.counts.ok_of_warmup += 1,
            (Err(kind), true) => state.record.error(kind),
            (Err(_), false) => state.record.error_of_warmup(),
        }
        if load.open == 0 && state.pacer.over(now) {
            // The turn of the loop decides if this was the last one.
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
