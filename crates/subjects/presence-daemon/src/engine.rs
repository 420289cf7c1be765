//! Engine.IO 4: sessions over WebSocket and long-polling.

pub(crate) mod batch;
pub(crate) mod connection;
pub(crate) mod disconnect_reason;
pub mod frame;
pub(crate) mod payload;
pub(crate) mod session;
pub mod websocket;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::app::App;
use crate::config::ServerConfig;
use crate::counts::Counts;
use crate::engine::disconnect_reason::DisconnectReason;
use crate::engine::session::{Session, millis};
use crate::socket::Id;

/// The state that all sessions of a server share.
pub(crate) struct Engine {
    pub(crate) config: ServerConfig,
    pub(crate) app: Arc<dyn App>,
    pub(crate) counts: Arc<Counts>,
    started: Instant,
    /// The sessions that began with long-polling: their requests name them.
    polled: Mutex<HashMap<Id, Arc<Session>>>,
}

impl Engine {
    /// Creates the state of a server without sessions. Its clock starts now.
    pub(crate) fn new(config: ServerConfig, app: Arc<dyn App>) -> Arc<Self> {
        Arc::new(Self {
            counts: Arc::new(Counts::new(config.workers.get())),
            config,
            app,
            started: Instant::now(),
            polled: Mutex::default(),
        })
    }

    /// Returns the milliseconds since the start.
    pub(crate) fn now(&self) -> u64 {
        millis(self.started.elapsed())
    }

    /// Converts milliseconds since the start to an instant.
    pub(crate) fn instant(&self, time: u64) -> Instant {
        self.started + std::time::Duration::from_millis(time)
    }

    /// Stores a session for the requests that name it.
    pub(crate) fn keep(&self, session: &Arc<Session>) {
        self.polled().insert(session.id, Arc::clone(session));
    }

    /// Returns a session that began with long-polling and is still open, or was closed by its client a moment ago.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<Session>> {
        let id = Id::parse(id)?;
        let found = self.polled().get(&id).cloned();
        // Its worker may not have removed it yet.
        found.filter(|session| {
            matches!(
                session.connection.end(),
                None | Some(DisconnectReason::Client)
            )
        })
    }

    /// Removes a session that has ended.
    pub(crate) fn forget(&self, id: Id) {
        self.polled().remove(&id);
    }

    fn polled(&self) -> MutexGuard<'_, HashMap<Id, Arc<Session>>> {
        // A map is consistent whenever its lock is free.
        self.polled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Engine")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
