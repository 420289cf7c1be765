//! One connection through the whole run: served, lost, made again, closed.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use ::lapin::protocol::AMQPErrorKind;
use ::lapin::{Connection, ErrorKind, Event};
use futures_util::{Stream, StreamExt as _};
use harness::{clock, output};

use super::{Desk, Opened};
use crate::layout::Client;
use crate::outcome::{self, count};
use crate::topology;

/// How long a broker may take to close a connection at the end.
const CLOSING: Duration = Duration::from_secs(2);

/// Why a connection is not served any more.
#[derive(Debug)]
pub(super) enum End {
    /// The run is over.
    Over,
    /// It is lost: how messages end that it did not confirm, and why.
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

/// A connection while it is there.
struct Link<'a> {
    desk: &'a Desk<'a>,
    connection: Connection,
    clients: Vec<Client>,
    events: Pin<Box<dyn Stream<Item = Event>>>,
    /// Since when the broker asks to publish nothing.
    blocked: Option<u64>,
}

/// Serves connection `number` until the run is over, and makes it again where it is lost.
pub(super) async fn serve(desk: &Desk<'_>, number: u64, first: Option<Opened>) {
    let mut opened = first;
    loop {
        let end = match opened.take() {
            Some(opened) => match until_closing(desk, number, Link::join(desk, opened)).await {
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
            None => End::Lost(outcome::CONNECTION_LOST, "it was never made".to_owned()),
        };
        if let End::Lost(kind, why) = end {
            lose(desk, number, kind, &why);
        }
        while opened.is_none() {
            let again = redial(desk, number);
            // The end of the run ends the attempts.
            match until_closing(desk, number, again).await {
                Some(made) => opened = made,
                None => return,
            }
        }
        let since = desk.gone.borrow_mut().remove(&number);
        if let Some(since) = since {
            let ms = clock::now().saturating_sub(since) / 1_000_000;
            desk.record.count(count::RECONNECTS, 1);
            desk.record.count(count::GAP_MS, ms);
        }
    }
}

fn lose(desk: &Desk<'_>, number: u64, kind: &'static str, why: &str) {
    let now = clock::now();
    if desk.worker.phases.origin <= now && desk.gone.borrow().is_empty() {
        output::remark(&outcome::remark(number, kind, why));
    }
    why.clone_into(&mut desk.why.borrow_mut());
    desk.record.count(outcome::end_of(kind), 1);
    // What has arrived must not be taken for what was lost with its confirm.
    desk.hand_in();
    for client in desk.driver.layout.clients(number) {
        match client {
            Client::Producer(number) => desk
                .producer(u64::from(number))
                .borrow_mut()
                .forsake(desk, Some(kind)),
            Client::Consumer(number) => consumer_leaves(desk, number),
        }
    }
    desk.gone.borrow_mut().entry(number).or_insert(now);
}

fn consumer_leaves(desk: &Desk<'_>, number: u32) {
    let given_back = desk.consumers[&number].borrow_mut().leave();
    desk.driver.ledger.given_back(given_back);
}

/// One attempt to make a connection again.
async fn redial(desk: &Desk<'_>, number: u64) -> Option<Opened> {
    let after = desk.driver.plan.driver.reconnect_after;
    tokio::time::sleep(after.max(Duration::from_millis(1))).await;
    match desk.driver.dialer()?.again(number).await.ok()? {
        Ok(made) => Some(made),
        Err(error) => {
            if let Some(kind) = error.exhausted() {
                desk.record.count(kind, 1);
            }
            *desk.why.borrow_mut() = error.to_string();
            None
        }
    }
}

/// What comes of an attempt, or nothing where the run is over before.
async fn until_closing<T>(
    desk: &Desk<'_>,
    number: u64,
    attempt: impl Future<Output = T>,
) -> Option<T> {
    let mut attempt = std::pin::pin!(attempt);
    poll_fn(|context| {
        if desk.closing.get() {
            return Poll::Ready(None);
        }
        for client in desk.driver.layout.clients(number) {
            client_waits(desk, client, context);
        }
        attempt.as_mut().poll(context).map(Some)
    })
    .await
}

/// Lets the worker's loop wake the connection of a client.
fn client_waits(desk: &Desk<'_>, client: Client, context: &Context<'_>) {
    match client {
        Client::Producer(number) => desk
            .producer(u64::from(number))
            .borrow_mut()
            .waits(context.waker()),
        Client::Consumer(number) => desk.consumers[&number].borrow_mut().waits(context.waker()),
    }
}

impl<'a> Link<'a> {
    /// Gives the clients their channels.
    async fn join(desk: &'a Desk<'a>, opened: Opened) -> Result<Self, End> {
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
                Client::Producer(number) => desk
                    .producer(u64::from(number))
                    .borrow_mut()
                    .join(desk, channel),
                Client::Consumer(number) => {
                    let settings = &desk.driver.plan.driver;
                    let full = desk.consumers[&number].borrow().quota.is_full();
                    let stream = if settings.polling || full {
                        None
                    } else {
                        let consume = topology::consume(settings, u64::from(number));
                        Some(super::consumer::consume(&channel, consume).await?)
                    };
                    desk.consumers[&number].borrow_mut().join(channel, stream);
                }
            }
        }
        Ok(Self {
            desk,
            connection,
            clients,
            events,
            blocked: None,
        })
    }

    /// Does whatever can be done on this connection now.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<End> {
        if self.desk.closing.get() {
            return Poll::Ready(End::Over);
        }
        while let Poll::Ready(Some(event)) = self.events.poll_next_unpin(context) {
            match event {
                Event::ConnectionBlocked(_) => {
                    self.desk.record.count(count::BLOCKED, 1);
                    self.blocked.get_or_insert_with(clock::now);
                }
                Event::ConnectionUnblocked => self.unblock(),
                Event::Error(error) => return Poll::Ready(error.into()),
                _ => {}
            }
        }
        let state = self.connection.status();
        if !state.connected() {
            let why = "it is not connected any more".to_owned();
            return Poll::Ready(End::Lost(outcome::CONNECTION_LOST, why));
        }
        for client in &self.clients {
            client_waits(self.desk, *client, context);
            let polled = match *client {
                Client::Producer(number) => self
                    .desk
                    .producer(u64::from(number))
                    .borrow_mut()
                    .poll(self.desk, context),
                Client::Consumer(number) => self.desk.consumers[&number]
                    .borrow_mut()
                    .poll(self.desk, context),
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
            self.desk.record.count(count::BLOCKED_MS, ms);
        }
    }

    /// The end. Consumers are cancelled first and take what was on its way to them: it left its queue.
    async fn close(self) {
        let close = async {
            for client in &self.clients {
                if let Client::Consumer(number) = client {
                    super::consumer::take_rest(self.desk, *number).await;
                }
            }
            // A broker that is gone closes nothing.
            let _ = self.connection.close(200, "done".into()).await;
        };
        // One that does not answer is left.
        if tokio::time::timeout(CLOSING, close).await.is_err() {
            // What it took of the last messages is not known.
            self.desk.driver.fell_silent(true);
        }
        for client in &self.clients {
            if let Client::Consumer(number) = client {
                consumer_leaves(self.desk, *number);
            }
        }
    }
}
