//! The end of a worker: all users leave.

use load::clock;
use presence_sdk::{Error, RoomHandle};
use tokio::task::{JoinError, JoinSet};

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
            let room = self.load.borrow_mut().rooms[user].take();
            let is_joined = self.load.borrow().users[user].phase == Phase::Joined;
            let Some(room) = room.filter(|_| is_joined) else {
                continue;
            };
            leaving.spawn_local(leave(room));
            if leaving.len() >= LEAVING_AT_ONCE {
                self.count_leave(leaving.join_next().await);
            }
        }
        while let Some(left) = leaving.join_next().await {
            self.count_leave(Some(left));
        }
    }

    fn count_leave(&self, left: Option<Result<Left, JoinError>>) {
        let Some(Ok(left)) = left else {
            return;
        };
        let state = self.loop_state.borrow();
        let kind = match left.outcome {
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
struct Left {
    /// The time that it took, in nanoseconds.
    ns: u64,
    outcome: Result<(), Error>,
}

async fn leave(room: RoomHandle) -> Left {
    let began = clock::now();
    let outcome = room.leave().await;
    Left {
        ns: clock::now() - began,
        outcome,
    }
}
