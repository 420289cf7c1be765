//! The sessions that began with long-polling.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disconnect_reason::DisconnectReason;
use crate::session::Session;
use crate::socket::Id;

/// The sessions that began with long-polling, of all workers: requests name them, and may come to any worker.
#[derive(Debug, Default)]
pub(crate) struct PolledSessions(Mutex<HashMap<Id, Arc<Session>>>);

impl PolledSessions {
    /// Stores a session for the requests that name it.
    pub(crate) fn insert(&self, session: &Arc<Session>) {
        self.lock().insert(session.id, Arc::clone(session));
    }

    /// Returns a session that is still open, or was closed by its client a moment ago.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<Session>> {
        let id = Id::parse(id)?;
        let found = self.lock().get(&id).cloned();
        // Its worker may not have removed it yet.
        found.filter(|session| {
            matches!(
                session.connection.end(),
                None | Some(DisconnectReason::Client)
            )
        })
    }

    /// Removes a session that has ended.
    pub(crate) fn remove(&self, id: Id) {
        self.lock().remove(&id);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Id, Arc<Session>>> {
        // A map is consistent whenever its lock is free.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
