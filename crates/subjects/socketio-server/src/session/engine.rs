//! The state that all sessions of a server share.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::app::App;
use crate::config::ServerConfig;
use crate::counts::Counts;

/// The state that all sessions of a server share.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) config: ServerConfig,
    pub(crate) app: Arc<dyn App>,
    pub(crate) counts: Arc<Counts>,
    started: Instant,
}

impl Engine {
    /// Creates the state of a server. Its clock starts now.
    pub(crate) fn new(config: ServerConfig, app: Arc<dyn App>) -> Arc<Self> {
        Arc::new(Self {
            counts: Arc::new(Counts::new(config.workers.get())),
            config,
            app,
            started: Instant::now(),
        })
    }

    /// Returns the milliseconds since the start.
    pub(crate) fn now(&self) -> u64 {
        millis(self.started.elapsed())
    }
}

/// Returns a duration in milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
