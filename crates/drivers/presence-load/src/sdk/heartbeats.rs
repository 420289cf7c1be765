//! The heartbeats of the load: updates of the state.

use load::clock;
use load::event_loop::LoopState;
use load::pacer::Start;
use presence_sdk::{Error, Heartbeat};

use super::session::Marked;
use super::{Engine, Job, Load, Next};
use crate::outcome;
use crate::series::{HEARTBEAT, SERVICE};
use crate::work::is_over;

impl Engine<'_> {
    /// Begins a heartbeat of the sender with this index.
    pub(super) fn begin_heartbeat(
        sender: u32,
        start: Start,
        load: &mut Load,
        state: &LoopState<Next>,
    ) {
        if let Some(closed) = &mut load.closed {
            closed.begin(sender, start);
        }
        load.open += 1;
        load.open_counted += u64::from(state.phases.counts(start.at));
        load.jobs.push_back(Job::Heartbeat(sender, start.at));
    }

    /// Sends a heartbeat that was due at `at`, and records its end.
    pub(super) async fn heartbeat(&self, sender: u32, at: u64) {
        let (user, room) = {
            let load = self.load.borrow();
            let user = load.sender_for(sender);
            (user, load.rooms[user as usize].clone())
        };
        let Some(room) = room else {
            return self.end_heartbeat(sender, (at, at), Err(outcome::NOT_JOINED));
        };
        let sent = clock::now();
        let n = {
            let load = &mut *self.load.borrow_mut();
            load.counts.heartbeats += 1;
            load.users[user as usize].sender.change(at)
        };
        let padding = "x".repeat(self.shared.settings().padding as usize);
        let state = Marked {
            n,
            t: at,
            padding: &padding,
        };
        let ended = outcome_of(&room.update_state(&state).await);
        if ended.is_ok() {
            let load = &mut *self.load.borrow_mut();
            load.audit.still_joined(user, sent, &load.users);
            let sender = &mut load.users[user as usize].sender;
            sender.acked = sender.acked.max(n);
        }
        self.end_heartbeat(sender, (at, sent), ended);
    }

    /// Ends a heartbeat of a sender that was due at `at` and sent at `sent`.
    fn end_heartbeat(&self, sender: u32, (at, sent): (u64, u64), ended: Result<(), &'static str>) {
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
        if let Some(closed) = &load.closed {
            state.timers.set(closed.next_at(now), Next(sender));
            // The loop waits for an earlier or a later time.
            state.wake();
        } else if load.open == 0 && is_over(state, now) {
            // The turn of the loop decides if this was the last one.
            state.wake();
        }
    }
}

impl Load {
    /// Returns the user that sends the heartbeat of a sender: another one if it is away because the plan asks for that.
    fn sender_for(&self, sender: u32) -> u32 {
        let user = self.senders[sender as usize];
        // A closed loop is the loop of one user.
        if !self.users[user as usize].is_churning || self.closed.is_some() {
            return user;
        }
        let (before, from) = self.senders.split_at(sender as usize);
        let mut others = from.iter().chain(before);
        let other = others.find(|user| self.users[**user as usize].can_send());
        other.copied().unwrap_or(user)
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
