//! Users that leave and come back during the load.

use load::clock;
use load::event_loop::LoopState;
use rand::RngExt as _;

use super::leaving::leave;
use super::{Engine, Job, Load, Next};
use crate::users::Phase;
use crate::work::{LEFT_PER_TURN, TRIES};

impl Engine<'_> {
    /// Lets the users leave that are due. Returns when the next one is.
    pub(super) fn churn_users(&self, load: &mut Load, state: &LoopState<Next>) -> u64 {
        for _ in 0..LEFT_PER_TURN {
            let Some(churn) = &mut load.churn else {
                return u64::MAX;
            };
            match churn.take_due(state, &mut load.random) {
                Ok(cuts) => self.churn_one(cuts, load),
                Err(next) => return next,
            }
        }
        state.now
    }

    fn churn_one(&self, cuts: bool, load: &mut Load) {
        for _ in 0..TRIES {
            let sender = load.random.random_range(0..load.senders.len());
            let user = load.senders[sender];
            let closed = load.closed.as_ref();
            // The first heartbeat of a closed loop has its time, so its user must be there.
            let has_begun = closed.is_none_or(|closed| closed.has_begun(sender));
            let state = &mut load.users[user as usize];
            let client = load.clients[user as usize].clone();
            let Some(client) = client.filter(|_| has_begun && state.can_send()) else {
                continue;
            };
            state.is_churning = true;
            if cuts {
                load.counts.cut += 1;
                self.suspend(user, load);
                client.reconnect();
            } else {
                state.phase = Phase::Leaving;
                load.counts.left += 1;
                load.joined -= 1;
                load.unsettled += 1;
                load.jobs.push_back(Job::Leave(user));
            }
            return;
        }
    }

    /// Lets a user leave, and closes its client. Its session reads the last events, and connects again.
    pub(super) async fn leave_and_close(&self, user: u32) {
        let (client, room) = {
            let load = &mut *self.load.borrow_mut();
            let client = load.clients[user as usize].take();
            (client, load.rooms[user as usize].take())
        };
        let Some((client, room)) = client.zip(room) else {
            return;
        };
        let left = leave(room).await;
        self.count_leave(&left);
        if left.outcome.is_err() {
            self.lose(user, &mut self.load.borrow_mut());
        }
        client.close().await;
    }

    /// Notes that a connection was lost.
    pub(super) fn lose(&self, user: u32, load: &mut Load) {
        let state = &mut load.users[user as usize];
        if state.lost_at == 0 {
            state.lost_at = clock::now();
            load.counts.connections_lost += 1;
        }
    }

    /// Ends the membership of a user whose client was closed. Returns true if the user left to come back.
    pub(super) fn has_left(&self, user: u32) -> bool {
        let load = &mut *self.load.borrow_mut();
        let state = &mut load.users[user as usize];
        if state.phase != Phase::Leaving {
            return false;
        }
        let is_orderly = state.lost_at == 0;
        state.sender.end(!is_orderly);
        if is_orderly {
            let sender = &mut state.sender;
            (sender.left, sender.left_at) = (sender.connection, clock::now());
            load.audit.leave(user, &load.users);
        } else {
            load.audit.end(user)
        }
        true
    }
}
