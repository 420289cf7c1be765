//! The place of a connection.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::room::Room;

/// The state of one connection, for the presence service: the room that it is in.
#[derive(Debug)]
pub struct Session<S>(Mutex<Membership<S>>);

/// The place of a connection.
#[derive(Debug)]
pub(crate) enum Membership<S> {
    /// The connection has joined no room, or has left it.
    Outside,
    /// The connection joined; the room knows whether the place is still its own.
    Joined {
        room: Arc<Room<S>>,
        key: usize,
        holder: u64,
    },
    /// The connection was removed from its room.
    Expired,
}

impl<S> Session<S> {
    /// Locks the place. Only the requests of one connection do so, one after the other: nobody waits.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Membership<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Default for Session<S> {
    fn default() -> Self {
        Self(Mutex::new(Membership::Outside))
    }
}
