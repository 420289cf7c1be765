//! Relays a backend's response to one client.
//!
//! Unlike a stream of the mock backend this is a task with its own buffers: its cost is dominated by the connection to
//! the backend. It reads a piece, writes the events in it, and reads the next one when the client has accepted them. A
//! slow client holds back its own backend request, and nothing else.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use daemon_kit::{RateLimitedLog, watch};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::timeout;

use crate::client::{disconnected, has_unread, linger, write_all};
use crate::failure::StreamFailure;
use crate::head::{BAD_GATEWAY, GATEWAY_TIMEOUT, HEAD};
use crate::metrics::Metrics;
use crate::openai::{BackendFailure, BackendRequest, Exchange, OpenAi, Reading};
use crate::shared::Shared;
use daemon_kit::clock;

/// Buffer capacity for events that is kept while the next piece is awaited.
const KEPT: usize = 4 << 10;

/// The head for the client, and the request to the backend.
#[derive(Debug)]
pub(crate) struct Order {
    /// The head; `None` stands for the plain [`HEAD`].
    pub(crate) head: Option<Vec<u8>>,
    /// The request to the backend.
    pub(crate) request: BackendRequest,
}

/// Serves a client whose stream slot was taken at `started`. Dropping the future closes the client and counts it as
/// canceled.
pub(crate) async fn relay(
    shared: Arc<Shared>,
    openai: Arc<OpenAi>,
    client: OwnedFd,
    order: Order,
    started: u64,
) {
    let mut slot = StreamSlot {
        metrics: &shared.metrics,
        end: Err(StreamFailure::Canceled),
    };
    let Ok(client) = watch(client, Interest::READABLE | Interest::WRITABLE) else {
        slot.end = Err(StreamFailure::Other);
        return;
    };
    let relay = Relay {
        metrics: &shared.metrics,
        log: &shared.log,
        write_timeout: shared.write_timeout,
        client: &client,
    };
    let passed = tokio::select! {
        biased;
        passed = relay.pass(&openai, order) => passed,
        // Checked even if there is nothing to write: the backend need not go on.
        () = disconnected(&client) => Err(StreamFailure::ClientDisconnected),
    };
    // Counted before the client is closed, so that the page already includes it when the client sees its end, and its
    // slot is free.
    slot.end = match &passed {
        Ok((_, backend_took)) => Ok((clock::now().saturating_sub(started), *backend_took)),
        Err(failure) => Err(*failure),
    };
    drop(slot);
    let client = client.into_inner();
    let close_client = async {
        if has_unread(&client) {
            linger(client, &shared.lingering).await;
        }
    };
    let close_exchange = async {
        if let Ok((exchange, _)) = passed {
            exchange.close().await;
        }
    };
    tokio::join!(close_client, close_exchange);
}

/// The relay to one client.
struct Relay<'a> {
    metrics: &'a Metrics,
    log: &'a RateLimitedLog,
    write_timeout: Duration,
    client: &'a AsyncFd<OwnedFd>,
}

impl Relay<'_> {
    /// Sends the request to the backend and writes its response to the end. Returns the exchange, and the backend's
    /// time in nanoseconds.
    async fn pass(&self, openai: &OpenAi, order: Order) -> Result<(Exchange, u64), StreamFailure> {
        let asked = clock::now();
        let mut exchange = match openai.send(order.request).await {
            Ok(exchange) => exchange,
            Err(failure) => {
                let failure = self.backend_failure(failure);
                self.write(refusal(failure), 0).await?;
                return Err(failure);
            }
        };
        let head = order.head.as_deref().unwrap_or(HEAD.as_bytes());
        self.write(head, 0).await?;
        self.write_events(&mut exchange, asked).await?;
        Ok((exchange, clock::now().saturating_sub(asked)))
    }

    async fn write_events(&self, exchange: &mut Exchange, asked: u64) -> Result<(), StreamFailure> {
        let (mut reading, mut out) = (Reading::default(), Vec::new());
        let mut is_first = true;
        while !reading.is_done() {
            let next = exchange.next().await;
            let Some(piece) = next.map_err(|failure| self.backend_failure(failure))? else {
                break;
            };
            let (events, taken) = reading.take(&piece, &mut out);
            if is_first && events > 0 {
                is_first = false;
                self.metrics.first_event(clock::now().saturating_sub(asked));
            }
            self.write(&out, events).await?;
            taken.map_err(|failure| self.backend_failure(failure))?;
            out.clear();
            out.shrink_to(KEPT);
        }
        let events = reading.finish(&mut out);
        let events = events.map_err(|failure| self.backend_failure(failure))?;
        self.write(&out, events).await
    }

    /// Writes all bytes as the client makes room, and counts them.
    async fn write(&self, bytes: &[u8], events: u64) -> Result<(), StreamFailure> {
        let mut left = bytes;
        let written = timeout(self.write_timeout, write_all(self.client, &mut left)).await;
        let sent = (bytes.len() - left.len()) as u64;
        let whole = if left.is_empty() { events } else { 0 };
        self.metrics.wrote(whole, sent);
        written.unwrap_or(Err(StreamFailure::Timeout))
    }

    /// Counts and logs a failure of the backend, which ends the stream.
    fn backend_failure(&self, failure: BackendFailure) -> StreamFailure {
        let ended = match failure {
            BackendFailure::Timeout => StreamFailure::BackendTimeout,
            _ => StreamFailure::Backend,
        };
        self.metrics.backend_failed();
        let failure = anyhow::Error::new(failure);
        self.log
            .warn(format_args!("the backend failed: {failure:#}"));
        ended
    }
}

/// Returns the response to a client whose backend failed before the head.
fn refusal(failure: StreamFailure) -> &'static [u8] {
    match failure {
        StreamFailure::BackendTimeout => GATEWAY_TIMEOUT.as_bytes(),
        _ => BAD_GATEWAY.as_bytes(),
    }
}

/// The slot of a stream. Dropping it counts the end of the stream.
struct StreamSlot<'a> {
    metrics: &'a Metrics,
    /// The durations of the stream and of the backend in nanoseconds, or the failure.
    end: Result<(u64, u64), StreamFailure>,
}

impl Drop for StreamSlot<'_> {
    fn drop(&mut self) {
        match self.end {
            Ok((took, backend_took)) => self.metrics.stream_completed(took, backend_took),
            Err(failure) => self.metrics.stream_failed(failure),
        }
    }
}
