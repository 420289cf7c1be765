//! A connection during the whole run: served, lost, reopened, closed.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use ::lapin::protocol::AMQPErrorKind;
use ::lapin::{ErrorKind, Event};
use futures_util::{Stream, StreamExt as _};
use load::clock;

use super::{LapinWorker, OpenedChannels};
use crate::layout::ClientIndex;
use crate::outcome;
use crate::roles::connection::{Blocked, CONNECTION_FORCED, Lost};
use crate::roles::worker::Stage;

/// Time that a broker may take to close a connection at the end.
const CLOSING: Duration = Duration::from_secs(2);

impl From<::lapin::Error> for Lost {
    fn from(error: ::lapin::Error) -> Self {
        let (kind, is_refusal) = match error.kind() {
            ErrorKind::ProtocolError(error) if matches!(error.kind(), AMQPErrorKind::Soft(_)) => {
                (outcome::CHANNEL_CLOSED, true)
            }
            ErrorKind::ProtocolError(error) => (
                outcome::CONNECTION_LOST,
                error.get_id() != CONNECTION_FORCED,
            ),
            // A channel that the broker has closed takes no further message.
            ErrorKind::InvalidChannelState(..) => (outcome::CHANNEL_CLOSED, true),
            _ => (outcome::CONNECTION_LOST, false),
        };
        Self {
            kind,
            is_refusal,
            why: error.to_string(),
        }
    }
}

struct LapinConnection<'a, 'r> {
    engine: &'a LapinWorker<'r>,
    connection: ::lapin::Connection,
    clients: Vec<ClientIndex>,
    events: Pin<Box<dyn Stream<Item = Event>>>,
    blocked: Blocked,
}

/// Serves connection `number` until the run is over, and reopens it if it is lost.
pub(super) async fn serve(engine: &LapinWorker<'_>, number: u64) {
    let mut opened = engine.dialer.opened.take(number);
    let clients = engine.clients.borrow().indices.of_connection(number);
    loop {
        let lost = match opened.take() {
            Some(opened) => {
                let attached = LapinConnection::attach(engine, opened, clients.clone());
                match until_closing(engine, &clients, attached).await {
                    None => return,
                    Some(Ok(connection)) => match connection.run().await {
                        None => return,
                        Some(lost) => lost,
                    },
                    Some(Err(lost)) => lost,
                }
            }
            None => "it was never established".into(),
        };
        lose(engine, number, &clients, &lost);
        while opened.is_none() {
            let attempt = redial(engine, number);
            // Attempts end with the run.
            match until_closing(engine, &clients, attempt).await {
                Some(reopened) => opened = reopened,
                None => return,
            }
        }
        let state = &mut engine.clients.borrow_mut().state;
        state.lost.on_reopened(number, clock::now());
    }
}

fn lose(engine: &LapinWorker<'_>, number: u64, clients: &[ClientIndex], lost: &Lost) {
    let all = &mut *engine.clients.borrow_mut();
    all.state.on_lost(number, lost);
    for client in clients {
        match *client {
            ClientIndex::Producer(index) => {
                all.producers[index].give_up(&mut all.state, Some(lost));
            }
            ClientIndex::Consumer(index) => all.consumers[index].leave(&all.state),
        }
    }
}

async fn redial(engine: &LapinWorker<'_>, number: u64) -> Option<OpenedChannels> {
    let run = engine.clients.borrow().state.run;
    let after = run.plan.driver.reconnect_after;
    tokio::time::sleep(after.max(Duration::from_millis(1))).await;
    match engine.dialer.again(number).await.ok()? {
        Ok(opened) => Some(opened),
        Err(error) => {
            let state = &mut engine.clients.borrow_mut().state;
            state.lost.on_failed_attempt(&error);
            None
        }
    }
}

/// Returns the result of an attempt, or `None` if the run ends first.
async fn until_closing<T>(
    engine: &LapinWorker<'_>,
    clients: &[ClientIndex],
    attempt: impl Future<Output = T>,
) -> Option<T> {
    let mut attempt = std::pin::pin!(attempt);
    poll_fn(|context| {
        if engine.wait_for(clients, context) {
            return Poll::Ready(None);
        }
        attempt.as_mut().poll(context).map(Some)
    })
    .await
}

impl LapinWorker<'_> {
    /// Lets the loop wake a connection. Returns true if the run is over.
    fn wait_for(&self, clients: &[ClientIndex], context: &Context<'_>) -> bool {
        let all = &mut *self.clients.borrow_mut();
        for client in clients {
            match *client {
                ClientIndex::Producer(index) => {
                    all.producers[index].waker.clone_from(context.waker())
                }
                ClientIndex::Consumer(index) => {
                    all.consumers[index].io.waker.clone_from(context.waker())
                }
            }
        }
        all.state.stage != Stage::Load
    }
}

impl<'a, 'r> LapinConnection<'a, 'r> {
    async fn attach(
        engine: &'a LapinWorker<'r>,
        opened: OpenedChannels,
        clients: Vec<ClientIndex>,
    ) -> Result<Self, Lost> {
        let OpenedChannels {
            connection,
            channels,
        } = opened;
        let events = Box::pin(connection.events_listener());
        for (client, channel) in clients.iter().zip(channels) {
            let channel = Rc::new(channel);
            match *client {
                ClientIndex::Producer(index) => {
                    let all = &mut *engine.clients.borrow_mut();
                    all.producers[index].attach(&all.state.run.plan.driver, channel);
                }
                ClientIndex::Consumer(index) => {
                    super::consumer::attach(engine, index, channel).await?;
                }
            }
        }
        Ok(Self {
            engine,
            connection,
            clients,
            events,
            blocked: Blocked::default(),
        })
    }

    /// Serves the connection until it is lost. Closes it if the run is over, and returns `None`.
    async fn run(mut self) -> Option<Lost> {
        let lost = poll_fn(|context| self.poll(context)).await;
        let record = self.engine.clients.borrow().state.record.clone();
        self.blocked.unblock(clock::now(), &record);
        if lost.is_none() {
            self.close().await;
        }
        lost
    }

    /// Makes all possible progress on this connection. Ready with the reason once it is lost, and with none once the run
    /// is over.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Lost>> {
        if self.engine.wait_for(&self.clients, context) {
            return Poll::Ready(None);
        }
        let all = &mut *self.engine.clients.borrow_mut();
        while let Poll::Ready(Some(event)) = self.events.poll_next_unpin(context) {
            let record = &all.state.record;
            match event {
                Event::ConnectionBlocked(_) => self.blocked.block(clock::now(), record),
                Event::ConnectionUnblocked => self.blocked.unblock(clock::now(), record),
                Event::Error(error) => return Poll::Ready(Some(error.into())),
                _ => {}
            }
        }
        if !self.connection.status().connected() {
            return Poll::Ready(Some("it is no longer connected".into()));
        }
        let shared = &mut *self.engine.shared.borrow_mut();
        let is_blocked = self.blocked.is_blocked();
        if is_blocked {
            self.blocked.count(clock::now(), &all.state.record);
        }
        for client in &self.clients {
            let polled = all.poll(*client, shared, is_blocked, context);
            if let Err(lost) = polled {
                // Channels end with their connection.
                let lost = if self.connection.status().connected() {
                    lost
                } else {
                    "it is no longer connected".into()
                };
                return Poll::Ready(Some(lost));
            }
        }
        Poll::Pending
    }

    /// Closes the connection. Its consumers are cancelled first and take the deliveries under way, which have left
    /// their queue.
    async fn close(self) {
        let engine = self.engine;
        let close = async {
            for client in &self.clients {
                if let ClientIndex::Consumer(index) = client {
                    super::consumer::take_rest(engine, *index).await;
                }
            }
            // A closed connection returns an error, which does not matter here.
            let _ = self.connection.close(200, "done".into()).await;
        };
        // A broker that does not answer is abandoned.
        let timeout = tokio::time::timeout(CLOSING, close).await;
        let all = &mut *engine.clients.borrow_mut();
        if timeout.is_err() {
            // How much it took of the last messages is unknown.
            all.state.run.close_timed_out(true);
        }
        for client in &self.clients {
            if let ClientIndex::Consumer(index) = client {
                all.consumers[*index].leave(&all.state);
            }
        }
    }
}
