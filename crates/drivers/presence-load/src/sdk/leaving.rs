//! The end of a worker: all users leave.

use load::clock;
use presence_sdk::{Error, RoomHandle};
use tokio::task::JoinSet;

use super::Engine;
use crate::outcome;
use crate::series::LEAVE;
use crate::users::Phase;

/// Leaves that are not acknowledged at once: each causes an event for each other member.
const LEAVING_AT_ONCE: usize = 128;

impl Engine<'_> {
    /// Lets all users leave, and closes their clients.
    pub(super) async fn leave_all(&self) {
        let mut leaving = JoinSet::new();
        let users = self.part.users() as usize;
        for user in 0..users {
            let (client, room) = {
                let load = &mut *self.load.borrow_mut();
                if load.users[user].phase != Phase::Joined {
                    continue;
                }
                (load.clients[user].take(), load.rooms[user].take())
            };
            let Some(room) = room else {
                continue;
            };
            leaving.spawn_local(async move {
                let left = leave(room).await;
                drop(client);
                left
            });
            if leaving.len() >= LEAVING_AT_ONCE
                && let Some(Ok(left)) = leaving.join_next().await
            {
                self.count_leave(&left);
            }
        }
        while let Some(left) = leaving.join_next().await {
            if let Ok(left) = left {
                self.count_leave(&left);
            }
        }
    }

    pub(super) fn count_leave(&self, left: &Left) {
        let state = self.loop_state.borrow();
        let kind = match &left.outcome {
            Ok(()) => {
                self.load.borrow_mut().counts.leaves += 1;
                return state.record.value(LEAVE, left.ns);
            }
            Err(Error::Timeout { .. }) => outcome::LEAVE_TIMEOUT,
            Err(Error::Rejected { .. }) => outcome::LEAVE_REJECTED,
            Err(_) => outcome::CONNECTION_LOST,
        };
        state.record.begin();
        state.record.error(kind);
    }
}

/// A leave that has ended.
pub(super) struct Left {
    /// The time that it took, in nanoseconds.
    ns: u64,
    pub(super) outcome: Result<(), Error>,
}

/// Leaves a room, and waits for the answer.
pub(super) async fn leave(room: RoomHandle) -> Left {
    let began = clock::now();
    let outcome = room.leave().await;
    Left {
        ns: clock::now() - began,
        outcome,
    }
}
