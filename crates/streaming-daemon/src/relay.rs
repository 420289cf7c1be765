//! Passing a backend's answer on to one client.
//!
//! Unlike a stream of the mock backend this is a task with its own buffers: what it costs is
//! dominated by the connection to the backend. It reads a piece, writes the events in it, and reads
//! the next one when the client has taken them: a client that is slow holds back its own backend
//! request, and nothing else.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::timeout;

use crate::client::{gone, write_all};
use crate::clock;
use crate::failure::StreamFailure;
use crate::head::{BAD_GATEWAY, GATEWAY_TIMEOUT, HEAD};
use crate::log::Log;
use crate::metrics::Metrics;
use crate::openai::{Ask, BackendFailure, Exchange, OpenAi, Reading};
use crate::shard::Shared;
use crate::socket::watch;

/// Room for events that is kept while the next piece is waited for.
const KEPT: usize = 4 << 10;

/// What a client gets and the backend is asked for.
#[derive(Debug)]
pub(crate) struct Order {
    /// `None` stands for the plain [`HEAD`].
    pub(crate) head: Option<Vec<u8>>,
    /// The request to the backend.
    pub(crate) ask: Ask,
}

/// Serves a client for which a place has been taken at `started`. Dropping the future closes the
/// client and counts it as canceled.
pub(crate) async fn relay(
    shared: Arc<Shared>,
    openai: Arc<OpenAi>,
    client: OwnedFd,
    order: Order,
    started: u64,
) {
    let place = Place::new(&shared.metrics);
    let client = match watch(client, Interest::READABLE | Interest::WRITABLE) {
        Ok(client) => client,
        Err(_) => return place.failed(StreamFailure::Other),
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
        // Also while nothing comes that could be written: the backend need not go on.
        () = gone(&client) => Err(StreamFailure::ClientDisconnected),
    };
    // Counted before the client is closed: what it has seen to its end is on the page, and its
    // place is free.
    match passed {
        Ok((exchange, backend_took)) => {
            place.completed(clock::now().saturating_sub(started), backend_took);
            drop(client);
            exchange.close().await;
        }
        Err(failure) => place.failed(failure),
    }
}

/// The way to one client.
struct Relay<'a> {
    metrics: &'a Metrics,
    log: &'a Log,
    write_timeout: Duration,
    client: &'a AsyncFd<OwnedFd>,
}

impl Relay<'_> {
    /// Asks the backend and writes its answer to the end. Returns the exchange, and how long the
    /// backend took in nanoseconds.
    async fn pass<'a>(
        &self,
        openai: &'a OpenAi,
        order: Order,
    ) -> Result<(Exchange<'a>, u64), StreamFailure> {
        let asked = clock::now();
        let mut exchange = match openai.ask(order.ask).await {
            Ok(exchange) => exchange,
            Err(failure) => {
                let failure = self.blame(&failure);
                self.write(refusal(failure), 0).await?;
                return Err(failure);
            }
        };
        let head = order.head.as_deref().unwrap_or(HEAD.as_bytes());
        self.write(head, 0).await?;
        self.write_events(&mut exchange, asked).await?;
        Ok((exchange, clock::now().saturating_sub(asked)))
    }

    async fn write_events(
        &self,
        exchange: &mut Exchange<'_>,
        asked: u64,
    ) -> Result<(), StreamFailure> {
        let (mut reading, mut out) = (Reading::default(), Vec::new());
        let mut is_first = true;
        while !reading.is_done() {
            let next = exchange.next().await;
            let Some(piece) = next.map_err(|failure| self.blame(&failure))? else {
                break;
            };
            let (events, taken) = reading.take(&piece, &mut out);
            if is_first && events > 0 {
                is_first = false;
                self.metrics.first_event(clock::now().saturating_sub(asked));
            }
            self.write(&out, events).await?;
            taken.map_err(|failure| self.blame(&failure))?;
            out.clear();
            out.shrink_to(KEPT);
        }
        let events = reading.finish(&mut out);
        let events = events.map_err(|failure| self.blame(&failure))?;
        self.write(&out, events).await
    }

    /// Writes all of it as the client makes room, and counts what was written.
    async fn write(&self, bytes: &[u8], events: u64) -> Result<(), StreamFailure> {
        let mut left = bytes;
        let written = timeout(self.write_timeout, write_all(self.client, &mut left)).await;
        let sent = (bytes.len() - left.len()) as u64;
        let whole = if left.is_empty() { events } else { 0 };
        self.metrics.wrote(whole, sent);
        written.unwrap_or(Err(StreamFailure::Timeout))
    }

    /// Counts and logs a failure of the backend, which ends the stream.
    fn blame(&self, failure: &BackendFailure) -> StreamFailure {
        self.metrics.backend_failed();
        self.log
            .warn(format_args!("the backend failed: {}", failure.chain()));
        match failure {
            BackendFailure::Timeout => StreamFailure::BackendTimeout,
            _ => StreamFailure::Backend,
        }
    }
}

/// What a client is answered whose backend failed before the head.
fn refusal(failure: StreamFailure) -> &'static [u8] {
    match failure {
        StreamFailure::BackendTimeout => GATEWAY_TIMEOUT.as_bytes(),
        _ => BAD_GATEWAY.as_bytes(),
    }
}

/// A place that a stream has. It is counted as given back exactly once.
struct Place<'a> {
    /// `None` once it has been given back.
    metrics: Option<&'a Metrics>,
}

impl<'a> Place<'a> {
    fn new(metrics: &'a Metrics) -> Self {
        Self {
            metrics: Some(metrics),
        }
    }

    fn completed(mut self, took: u64, backend_took: u64) {
        if let Some(metrics) = self.metrics.take() {
            metrics.stream_completed(took, backend_took);
        }
    }

    fn failed(mut self, failure: StreamFailure) {
        if let Some(metrics) = self.metrics.take() {
            metrics.stream_failed(failure);
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(metrics) = self.metrics.take() {
            metrics.stream_failed(StreamFailure::Canceled);
        }
    }
}
