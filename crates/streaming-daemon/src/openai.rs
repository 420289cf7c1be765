//! The backend `openai`: an OpenAI-compatible chat API that streams.
//!
//! ```text
//! handoff ─► Chat ─► Pool (HTTP/1.1 or 2, TCP or Unix socket) ─► Exchange ─► sse ─► Reading ─► events
//! ```
//!
//! How the events come to the client stands in the module `relay`.

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

/// What the backend needs to know.
#[derive(Debug, Clone)]
pub struct OpenAiConfig {
    /// Where the API is.
    pub base: Base,
    /// The version of HTTP that it speaks.
    pub http: Http,
    /// What it wants as a bearer token.
    pub key: Option<Key>,
    /// The model of handoffs that name none. Without it such requests name none either.
    pub model: Option<String>,
    /// How long the answer's head may take, and then each pause between two pieces.
    pub timeout: Duration,
}

/// How many descriptors one stream may need: its client, and a connection of its own.
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

    /// The request of a handoff.
    pub(crate) fn request(&self, chat: &Chat<'_>) -> Ask {
        chat.ask(self.model.as_deref())
    }

    /// Sends a request and waits for the head of its answer, which has to promise an event stream.
    /// Dropping the future takes the request back.
    pub(crate) async fn ask(&self, ask: Ask) -> Result<Exchange<'_>, BackendFailure> {
        let sent = timeout(self.timeout, self.pool.send(ask)).await;
        let (response, lease) = sent.map_err(|_| BackendFailure::Timeout)??;
        Exchange::new(response, lease, &self.pool, self.timeout)
    }
}
