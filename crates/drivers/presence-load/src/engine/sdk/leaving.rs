//! Users that leave.

use load::clock;
use presence_sdk::{Error, RoomHandle};
use tokio::task::JoinSet;

use super::Sdk;
use crate::outcome;
use crate::roles::{ConnectionEnd, LEAVING_AT_ONCE, Phase};

impl Sdk<'_> {
    /// Lets a user leave, and closes its client. Its session reads the last events.
    pub(super) async fn leave_and_close(&self, user: u32) {
        let (client, room) = {
            let client = &mut *self.client(user);
            (client.handle.take(), client.room.take())
        };
        let Some((client, room)) = client.zip(room) else {
            return;
        };
        let end = match leave(room).await {
            Ok(took_ns) => {
                self.users().left(took_ns, &self.loop_state.borrow());
                ConnectionEnd::Left
            }
            Err(kind) => ConnectionEnd::Lost(kind),
        };
        self.client(user).end = Some(end);
        client.close().await;
    }

    /// Lets all users leave, and closes their clients.
    pub(super) async fn leave_all(&self) {
        let mut leaving = JoinSet::new();
        let users = self.users().part().users() as u32;
        for user in 0..users {
            if self.users().user(user).phase != Phase::Joined {
                continue;
            }
            let client = std::mem::take(&mut *self.client(user));
            let Some(room) = client.room else {
                continue;
            };
            leaving.spawn_local(async move {
                let left = leave(room).await;
                drop(client.handle);
                left
            });
            if leaving.len() >= LEAVING_AT_ONCE {
                self.count_next(&mut leaving).await;
            }
        }
        while !leaving.is_empty() {
            self.count_next(&mut leaving).await;
        }
    }

    /// Waits for the next leave of all users.
    async fn count_next(&self, leaving: &mut JoinSet<Result<u64, &'static str>>) {
        let left = leaving.join_next().await;
        let state = self.loop_state.borrow();
        match left {
            Some(Ok(Ok(took_ns))) => self.users().left(took_ns, &state),
            Some(Ok(Err(kind))) => {
                state.record.begin();
                state.record.error(kind);
            }
            Some(Err(_)) | None => {}
        }
    }
}

/// Leaves a room, and waits for the answer. Returns the nanoseconds that it took.
///
/// # Errors
/// The outcome of a leave that failed.
async fn leave(room: RoomHandle) -> Result<u64, &'static str> {
    let began = clock::now();
    match room.leave().await {
        Ok(()) => Ok(clock::now() - began),
        Err(Error::Timeout { .. }) => Err(outcome::LEAVE_TIMEOUT),
        Err(Error::Rejected { .. }) => Err(outcome::LEAVE_REJECTED),
        Err(_) => Err(outcome::CONNECTION_LOST),
    }
}
