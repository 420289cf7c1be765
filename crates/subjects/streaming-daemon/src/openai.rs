//! The backend `openai`: an OpenAI-compatible streaming chat API.
//!
//! ```text
//! handoff ─► Chat ─► Clients (HTTP/1.1 or 2, TCP or Unix socket) ─► Exchange ─► sse ─► Reading ─► events
//! ```
//!
//! The module `relay` passes the events on to the client.

mod address;
mod chat;
mod client;
mod exchange;
mod failure;
mod key;
mod reading;
mod sse;

use std::time::Duration;

use tokio::time::timeout;

pub use self::address::BackendAddress;
pub(crate) use self::chat::{BackendRequest, Chat};
use self::client::Clients;
pub use self::client::Http;
pub(crate) use self::exchange::Exchange;
pub(crate) use self::failure::BackendFailure;
pub use self::key::Key;
pub(crate) use self::reading::Reading;

/// The configuration of the backend.
#[derive(Debug, Clone)]
pub struct OpenAiConfig {
    /// The address of the API.
    pub base: BackendAddress,
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
    clients: Clients,
}

impl OpenAi {
    pub(crate) fn new(config: OpenAiConfig) -> Self {
        Self {
            model: config.model,
            timeout: config.timeout,
            clients: Clients::new(config.base, config.http, config.key),
        }
    }

    /// Builds the request of a handoff.
    pub(crate) fn request(&self, chat: &Chat<'_>) -> BackendRequest {
        chat.request(self.model.as_deref())
    }

    /// Sends a request and waits for the head of its response, which must announce an event stream. Dropping the future
    /// cancels the request.
    pub(crate) async fn send(&self, request: BackendRequest) -> Result<Exchange, BackendFailure> {
        let sent = timeout(self.timeout, self.clients.send(request)).await;
        let (response, client) = sent.map_err(|_| BackendFailure::Timeout)??;
        Exchange::new(response, client, self.timeout)
    }
}
