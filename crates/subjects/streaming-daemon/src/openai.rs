//! The backend `openai`: an OpenAI-compatible streaming chat API.
//!
//! ```text
//! handoff ─► Chat ─► Pool (HTTP/1.1 or 2, TCP or Unix socket) ─► Exchange ─► sse ─► Reading ─► events
//! ```
//!
//! The module `relay` passes the events on to the client.

mod base;
mod chat;
mod exchange;
mod failure;
mod key;
mod pool;
mod reading;
mod sse;
mod wire;

use std::time::Duration;

use tokio::time::timeout;

pub use self::base::Base;
pub(crate) use self::chat::{Ask, Chat};
pub(crate) use self::exchange::Exchange;
pub(crate) use self::failure::BackendFailure;
pub use self::key::Key;
use self::pool::Pool;
pub(crate) use self::reading::Reading;
pub use self::wire::Http;

/// The configuration of the backend.
#[derive(Debug, Clone)]
pub struct OpenAiConfig {
    /// The address of the API.
    pub base: Base,
    /// The HTTP version of the API.
    pub http: Http,
    /// The bearer token of the API.
    pub key: Option<Key>,
    /// The model of handoffs that name none. Without it, such requests name none either.
    pub model: Option<String>,
    /// Timeout for the head of the response, and for each pause between two pieces.
    pub timeout: Duration,
}

/// Maximum number of descriptors of one stream: its client, and its own connection.
pub(crate) const FILES_PER_STREAM: u64 = 2;

/// The backend of a daemon.
#[derive(Debug)]
pub(crate) struct OpenAi {
    model: Option<String>,
    timeout: Duration,
    pool: Pool,
}

impl OpenAi {
    pub(crate) fn new(config: OpenAiConfig) -> Self {
        Self {
            model: config.model,
            timeout: config.timeout,
            pool: Pool::new(config.base, config.http, config.key),
        }
    }

    /// Builds the request of a handoff.
    pub(crate) fn request(&self, chat: &Chat<'_>) -> Ask {
        chat.ask(self.model.as_deref())
    }

    /// Sends a request and waits for the head of its response, which must announce an event stream. Dropping the future
    /// cancels the request.
    pub(crate) async fn ask(&self, ask: Ask) -> Result<Exchange<'_>, BackendFailure> {
        let sent = timeout(self.timeout, self.pool.send(ask)).await;
        let (response, lease) = sent.map_err(|_| BackendFailure::Timeout)??;
        Exchange::new(response, lease, &self.pool, self.timeout)
    }
}
