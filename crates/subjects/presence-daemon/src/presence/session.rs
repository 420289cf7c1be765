//! The membership of a connection.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::room::{Room, Slot};

/// The state of one connection, for the presence service: the room that it is in.
#[derive(Debug)]
pub struct Session<S>(Mutex<Membership<S>>);

/// The membership of a connection.
#[derive(Debug)]
pub(crate) enum Membership<S> {
    /// The connection has joined no room, or has left it.
    Outside,
    /// The connection joined; the room knows whether it still is a member.
    Joined { room: Arc<Room<S>>, slot: Slot },
    /// The connection was removed from its room.
    Expired,
}

impl<S> Session<S> {
    /// Locks the membership. It is uncontended: a connection's requests are handled in sequence.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Membership<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the membership, and returns it.
    pub(crate) fn take(&self) -> Membership<S> {
        std::mem::replace(&mut *self.lock(), Membership::Outside)
    }
}

impl<S> Default for Session<S> {
    fn default() -> Self {
        Self(Mutex::new(Membership::Outside))
    }
}
