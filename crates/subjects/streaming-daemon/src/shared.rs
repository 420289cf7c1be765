//! State that the shards of a daemon share.

use std::sync::Arc;
use std::time::Duration;

use daemon_kit::RateLimitedLog;
use tokio::sync::Semaphore;

use crate::accept_token::AcceptToken;
use crate::answer::Answer;
use crate::config::SocketType;
use crate::metrics::Metrics;
use crate::openai::OpenAi;
use crate::peers::Peers;

/// State that all shards of a daemon share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) answer: Answer,
    /// The backend; `None` for the mock backend, whose response is above.
    pub(crate) openai: Option<Arc<OpenAi>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) accept_token: AcceptToken,
    pub(crate) log: RateLimitedLog,
    pub(crate) socket_type: SocketType,
    pub(crate) peers: Peers,
    /// Maximum number of open streams.
    pub(crate) capacity: u64,
    pub(crate) write_timeout: Duration,
    /// Permits for clients that are closed with a delay: they use reserved descriptors.
    pub(crate) lingering: Semaphore,
}
