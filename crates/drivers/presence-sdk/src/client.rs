//! The client.

use std::fmt;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::events::Events;
use crate::options::Options;
use crate::room::{RoomHandle, RoomInner};
use crate::shared::{Command, JoinCommand, Shared, Status};
use crate::task::Task;
use crate::wire::Wire;

/// A connection to a presence server that is kept open.
///
/// A client is a cheap handle: clones share one connection and one task of the current Tokio runtime. The task ends, and
/// the connection is closed, when [`close`](Self::close) is called or when the last `RealtimeClient` and
/// [`RoomHandle`] is dropped. A client is in one room at a time, because the protocol has it so.
///
/// | call | while disconnected |
/// | --- | --- |
/// | [`connect`](Self::connect) | fails; the first connection is tried once |
/// | [`join_room`](Self::join_room) | waits for the connection, up to the ack timeout |
/// | [`RoomHandle::update_state`] | is kept, and sent with the join that follows the reconnection |
/// | [`RoomHandle::heartbeat`] | fails with [`Error::Disconnected`] |
/// | [`RoomHandle::leave`] | succeeds: a disconnection is a leave, and the room is not joined again |
/// | [`RoomHandle::members`], [`RoomHandle::snapshot`] | return what was last known |
/// | [`reconnect`](Self::reconnect) | has no effect |
/// | [`close`](Self::close) | succeeds |
#[derive(Clone)]
pub struct RealtimeClient {
    inner: Arc<ClientInner>,
}

/// Closes the client when the last handle is dropped.
pub(crate) struct ClientInner {
    pub(crate) shared: Arc<Shared>,
}

impl Drop for ClientInner {
    fn drop(&mut self) {
        // It fails if the client is closed already.
        let _ = self.shared.push(Command::Close(None));
    }
}

/// The longest id of a room or a user, in bytes.
const LONGEST_ID: usize = 200;

impl RealtimeClient {
    /// Connects with the default [`Options`].
    ///
    /// The URL has the scheme `http`, `https`, `ws` or `wss`; without a path, `/socket.io/` is used.
    ///
    /// # Errors
    /// As [`connect_with`](Self::connect_with).
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::connect_with(url, Options::new()).await
    }

    /// Connects with options. Pass an `Arc<Options>` to share them between clients.
    ///
    /// It must be called in a Tokio runtime, which runs the task of the client. Cancel safety: dropping the future
    /// closes the connection.
    ///
    /// # Errors
    /// [`Error::InvalidUrl`], [`Error::InvalidArgument`] for a header; [`Error::Connect`] if the server can't be reached
    /// or is not a Socket.IO server, [`Error::Refused`], and [`Error::Timeout`].
    pub async fn connect_with(url: &str, options: impl Into<Arc<Options>>) -> Result<Self, Error> {
        let options = options.into();
        let endpoint = Endpoint::parse(url, &options)?;
        let wire = Box::pin(Wire::open(&endpoint, &options)).await?;
        let shared = Arc::new(Shared::new(options.event_capacity, options.queue_capacity));
        let task = Task::new(wire, endpoint, options, Arc::clone(&shared));
        tokio::spawn(Box::new(task).run());
        let inner = Arc::new(ClientInner { shared });
        Ok(Self { inner })
    }

    /// Joins a room as a user, with an empty state.
    ///
    /// While disconnected it waits for the connection. Cancel safety: if the future is dropped, the room is left again,
    /// even if the server has not answered yet; a further join may follow at once.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if an id is empty or has more than 200 bytes, [`Error::AlreadyJoined`],
    /// [`Error::Rejected`], [`Error::Timeout`] and [`Error::Closed`].
    pub async fn join_room(&self, room: &str, user: &str) -> Result<RoomHandle, Error> {
        self.join(room, user, "{}".to_owned()).await
    }

    /// Joins a room as a user with a state, a value that serializes to a JSON object.
    ///
    /// # Errors
    /// As [`join_room`](Self::join_room), and [`Error::InvalidArgument`] if the state is not an object.
    pub async fn join_room_with(
        &self,
        room: &str,
        user: &str,
        state: &(impl serde::Serialize + ?Sized),
    ) -> Result<RoomHandle, Error> {
        let state = crate::object::to_text(state, "the state")?;
        self.join(room, user, state).await
    }

    async fn join(&self, room: &str, user: &str, state: String) -> Result<RoomHandle, Error> {
        check_id(room, "the room")?;
        check_id(user, "the user")?;
        let generation = self.inner.shared.next_generation();
        // It leaves the room if this future is dropped.
        let inner = Arc::new(RoomInner::new(
            Arc::clone(&self.inner),
            generation,
            room,
            user,
        ));
        let (reply, answer) = oneshot::channel();
        let join = JoinCommand {
            generation,
            room: room.into(),
            user: user.into(),
            state,
            reply,
        };
        self.inner.shared.push(Command::Join(Box::new(join)))?;
        answer.await.map_err(|_| Error::Closed)??;
        Ok(RoomHandle::new(inner))
    }

    /// Returns a stream of all events from now on: of the connection, and of any room that the client joins.
    ///
    /// Call it before [`join_room`](Self::join_room) to miss no event of the room.
    #[must_use]
    pub fn events(&self) -> Events {
        Events::new(Arc::clone(&self.inner.shared))
    }

    /// Returns true while the connection is open.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.inner.shared.lock().status == Status::Connected
    }

    /// Returns true once the client was closed, or has used up its attempts to reconnect.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.inner.shared.lock().status == Status::Closed
    }

    /// Drops the connection without a farewell, and opens a new one at once: for a program that knows earlier than the
    /// timeouts that the connection is dead or slow, because the network has changed or the machine has slept.
    ///
    /// All follows as if the connection had broken: [`Event::Disconnected`](crate::Event::Disconnected) with
    /// [`DisconnectCause::Requested`](crate::DisconnectCause::Requested), the calls as in the table above, the new join,
    /// and [`Event::Reconnected`](crate::Event::Reconnected). Only the first attempt has no delay; it counts among the
    /// attempts of [`Reconnect`](crate::Reconnect). While disconnected it has no effect. It does not wait.
    pub fn reconnect(&self) {
        // It fails if the client is closed.
        let _ = self.inner.shared.push(Command::Reconnect);
    }

    /// Leaves the room, closes the connection, and waits until the last frames were sent, for 1 s at most.
    ///
    /// Calls that wait for an answer fail with [`Error::Closed`], and so do later calls of other handles. Cancel safety:
    /// the client is closed even if the future is dropped.
    pub async fn close(&self) {
        let (reply, answer) = oneshot::channel();
        if self.inner.shared.push(Command::Close(Some(reply))).is_ok() {
            // An error means that the task has ended, too.
            let _ = answer.await;
        }
    }
}

fn check_id(id: &str, argument: &'static str) -> Result<(), Error> {
    if (1..=LONGEST_ID).contains(&id.len()) {
        return Ok(());
    }
    Err(Error::InvalidArgument {
        argument,
        reason: format!("it has {} bytes; 1 to {LONGEST_ID} are allowed", id.len()),
    })
}

impl fmt::Debug for RealtimeClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RealtimeClient")
            .field("status", &self.inner.shared.lock().status)
            .finish_non_exhaustive()
    }
}
