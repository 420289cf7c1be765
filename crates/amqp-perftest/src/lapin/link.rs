//! A connection during the whole run: served, lost, reopened, closed.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use ::lapin::protocol::AMQPErrorKind;
use ::lapin::{Connection, ErrorKind, Event};
use futures_util::{Stream, StreamExt as _};
use harness::output;
use load::clock;

use super::{Opened, WorkerState};
use crate::layout::Client;
use crate::outcome::{self, count};
use crate::topology;

/// Time that a broker may take to close a connection at the end.
const CLOSING: Duration = Duration::from_secs(2);

/// Reason why a connection is no longer served.
#[derive(Debug)]
pub(super) enum End {
    /// The run is over.
    Over,
    /// The connection is lost. Holds the outcome of its unconfirmed messages, and the reason.
    Lost(&'static str, String),
}

impl From<::lapin::Error> for End {
    fn from(error: ::lapin::Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::ProtocolError(error) if matches!(error.kind(), AMQPErrorKind::Soft(_)) => {
                outcome::CHANNEL_CLOSED
            }
            _ => outcome::CONNECTION_LOST,
        };
        Self::Lost(kind, error.to_string())
    }
}

/// An established connection.
struct Link<'a> {
    state: &'a WorkerState<'a>,
    connection: Connection,
    clients: Vec<Client>,
    events: Pin<Box<dyn Stream<Item = Event>>>,
    /// Time since which the broker asks to publish nothing.
    blocked: Option<u64>,
}

/// Serves connection `number` until the run is over, and reopens it if it is lost.
pub(super) async fn serve(state: &WorkerState<'_>, number: u64, first: Option<Opened>) {
    let mut opened = first;
    loop {
        let end = match opened.take() {
            Some(opened) => match until_closing(state, number, Link::attach(state, opened)).await {
                None => return,
                Some(Ok(mut link)) => {
                    let end = poll_fn(|context| link.poll(context)).await;
                    link.unblock();
                    if matches!(end, End::Over) {
                        return link.close().await;
                    }
                    end
                }
                Some(Err(end)) => end,
            },
            None => End::Lost(
                outcome::CONNECTION_LOST,
                "it was never established".to_owned(),
            ),
        };
        if let End::Lost(kind, why) = end {
            lose(state, number, kind, &why);
        }
        while opened.is_none() {
            let again = redial(state, number);
            // Attempts end with the run.
            match until_closing(state, number, again).await {
                Some(made) => opened = made,
                None => return,
            }
        }
        let since = state.gone.borrow_mut().remove(&number);
        if let Some(since) = since {
            let ms = clock::now().saturating_sub(since) / 1_000_000;
            state.record.count(count::RECONNECTS, 1);
            state.record.count(count::GAP_MS, ms);
        }
    }
}

fn lose(state: &WorkerState<'_>, number: u64, kind: &'static str, why: &str) {
    let now = clock::now();
    if state.worker.phases.origin <= now && state.gone.borrow().is_empty() {
        output::remark(&outcome::remark(number, kind, why));
    }
    why.clone_into(&mut state.why.borrow_mut());
    state.record.count(outcome::end_of(kind), 1);
    // Arrived messages must not be counted as lost with their confirm.
    state.hand_in();
    for client in state.driver.layout.clients(number) {
        match client {
            Client::Producer(number) => state
                .producer(u64::from(number))
                .borrow_mut()
                .fail_unconfirmed(state, Some(kind)),
            Client::Consumer(number) => consumer_leaves(state, number),
        }
    }
    state.gone.borrow_mut().entry(number).or_insert(now);
}

fn consumer_leaves(state: &WorkerState<'_>, number: u32) {
    let given_back = state.consumers[&number].borrow_mut().leave();
    state.driver.ledger.given_back(given_back);
}

/// Makes one attempt to reopen a connection.
async fn redial(state: &WorkerState<'_>, number: u64) -> Option<Opened> {
    let after = state.driver.plan.driver.reconnect_after;
    tokio::time::sleep(after.max(Duration::from_millis(1))).await;
    match state.driver.dialer()?.again(number).await.ok()? {
        Ok(made) => Some(made),
        Err(error) => {
            if let Some(kind) = outcome::exhausted(&error) {
                state.record.count(kind, 1);
            }
            *state.why.borrow_mut() = error.to_string();
            None
        }
    }
}

/// Returns the result of an attempt, or `None` if the run ends first.
async fn until_closing<T>(
    state: &WorkerState<'_>,
    number: u64,
    attempt: impl Future<Output = T>,
) -> Option<T> {
    let mut attempt = std::pin::pin!(attempt);
    poll_fn(|context| {
        if state.closing.get() {
            return Poll::Ready(None);
        }
        for client in state.driver.layout.clients(number) {
            client_waits(state, client, context);
        }
        attempt.as_mut().poll(context).map(Some)
    })
    .await
}

/// Lets the worker's loop wake the connection of a client.
fn client_waits(state: &WorkerState<'_>, client: Client, context: &Context<'_>) {
    match client {
        Client::Producer(number) => state
            .producer(u64::from(number))
            .borrow_mut()
            .waits(context.waker()),
        Client::Consumer(number) => state.consumers[&number].borrow_mut().waits(context.waker()),
    }
}

impl<'a> Link<'a> {
    /// Attaches the channels to the clients.
    async fn attach(state: &'a WorkerState<'a>, opened: Opened) -> Result<Self, End> {
        let Opened {
            connection,
            channels,
        } = opened;
        let events = Box::pin(connection.events_listener());
        let mut clients = Vec::new();
        for (client, channel) in channels {
            clients.push(client);
            let channel = Rc::new(channel);
            match client {
                Client::Producer(number) => state
                    .producer(u64::from(number))
                    .borrow_mut()
                    .attach(state, channel),
                Client::Consumer(number) => {
                    let settings = &state.driver.plan.driver;
                    let full = state.consumers[&number].borrow().quota.is_full();
                    let stream = if settings.polling || full {
                        None
                    } else {
                        let consume = topology::consume(settings, u64::from(number));
                        Some(super::consumer::consume(&channel, consume).await?)
                    };
                    state.consumers[&number]
                        .borrow_mut()
                        .attach(channel, stream);
                }
            }
        }
        Ok(Self {
            state,
            connection,
            clients,
            events,
            blocked: None,
        })
    }

    /// Makes all possible progress on this connection.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<End> {
        if self.state.closing.get() {
            return Poll::Ready(End::Over);
        }
        while let Poll::Ready(Some(event)) = self.events.poll_next_unpin(context) {
            match event {
                Event::ConnectionBlocked(_) => {
                    self.state.record.count(count::BLOCKED, 1);
                    self.blocked.get_or_insert_with(clock::now);
                }
                Event::ConnectionUnblocked => self.unblock(),
                Event::Error(error) => return Poll::Ready(error.into()),
                _ => {}
            }
        }
        let status = self.connection.status();
        if !status.connected() {
            let why = "it is no longer connected".to_owned();
            return Poll::Ready(End::Lost(outcome::CONNECTION_LOST, why));
        }
        for client in &self.clients {
            client_waits(self.state, *client, context);
            let polled = match *client {
                Client::Producer(number) => self
                    .state
                    .producer(u64::from(number))
                    .borrow_mut()
                    .poll(self.state, context),
                Client::Consumer(number) => self.state.consumers[&number]
                    .borrow_mut()
                    .poll(self.state, context),
            };
            if let Err(end) = polled {
                return Poll::Ready(end);
            }
        }
        Poll::Pending
    }

    fn unblock(&mut self) {
        if let Some(since) = self.blocked.take() {
            let ms = clock::now().saturating_sub(since) / 1_000_000;
            self.state.record.count(count::BLOCKED_MS, ms);
        }
    }

    /// Closes the connection. Its consumers are cancelled first and take the deliveries under way, which have left
    /// their queue.
    async fn close(self) {
        let close = async {
            for client in &self.clients {
                if let Client::Consumer(number) = client {
                    super::consumer::take_rest(self.state, *number).await;
                }
            }
            // A closed connection returns an error, which does not matter here.
            let _ = self.connection.close(200, "done".into()).await;
        };
        // A broker that does not answer is abandoned.
        if tokio::time::timeout(CLOSING, close).await.is_err() {
            // How much it took of the last messages is unknown.
            self.state.driver.close_timed_out(true);
        }
        for client in &self.clients {
            if let Client::Consumer(number) = client {
                consumer_leaves(self.state, *number);
            }
        }
    }
}
