//! The stream of events.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;

use crate::event::Event;
use crate::shared::Shared;

/// A stream of the events of a client.
///
/// Each stream gets all events since it was created. The queue is bounded by
/// [`Options::event_capacity`](crate::Options::event_capacity): when a reader is too slow, the oldest events are dropped,
/// and the reader gets [`Event::Lagged`] with their number, then the events that are left. The list of members is not
/// affected. The stream ends when the client is closed; it does not keep the client open.
///
/// [`next`](Self::next) needs no further crate; with `futures_util::StreamExt` the adapters of streams can be used.
///
/// ```
/// # #[path = "../tests/suite/server.rs"] mod server;
/// use futures_util::StreamExt as _;
/// use presence_sdk::{Event, RealtimeClient};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), presence_sdk::Error> {
/// # let url = server::start().await;
/// let client = RealtimeClient::connect(&url).await?;
/// let joins = client.events().filter_map(|event| async move {
///     match event {
///         Event::Join(event) => Some(event.member.user_id),
///         _ => None,
///     }
/// });
/// let _ada = client.join_room("lobby", "ada").await?;
/// let bob = RealtimeClient::connect(&url).await?;
/// let _bob = bob.join_room("lobby", "bob").await?;
/// let users: Vec<_> = joins.take(2).collect().await;
/// assert_eq!(users.iter().map(AsRef::as_ref).collect::<Vec<&str>>(), ["ada", "bob"]);
/// # Ok(())
/// # }
/// ```
pub struct Events {
    shared: Arc<Shared>,
    reader: u64,
}

impl Events {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let reader = shared.lock().log.subscribe();
        Self { shared, reader }
    }

    /// Waits for the next event. Returns `None` once the client is closed.
    ///
    /// Cancel safety: dropping the future loses no event.
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Returns the next event if one is waiting, without waiting.
    pub fn try_next(&mut self) -> Option<Event> {
        let polled = self
            .shared
            .lock()
            .log
            .poll(self.reader, std::task::Waker::noop());
        match polled {
            Poll::Ready(event) => event,
            Poll::Pending => None,
        }
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.shared.lock().log.poll(self.reader, cx.waker())
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.shared.lock().log.unsubscribe(self.reader);
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Events").finish_non_exhaustive()
    }
}
