//! The handle of a joined room.

use std::fmt;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::client::ClientInner;
use crate::error::Error;
use crate::events::Events;
use crate::member::{Member, Snapshot};
use crate::object;
use crate::shared::{Command, Heartbeat};

/// A room that the client has joined.
///
/// The membership is kept: the client sends heartbeats, and joins again after a reconnection, an expiry or a lost event,
/// with the last state. A handle is cheap to clone. The room is left when [`leave`](Self::leave) is called or when the
/// last clone is dropped; a handle also keeps its client open.
///
/// ```
/// # #[path = "../tests/suite/server.rs"] mod server;
/// use presence_sdk::{Error, RealtimeClient};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// # let url = server::start().await;
/// let client = RealtimeClient::connect(&url).await?;
/// let room = client.join_room("lobby", "ada").await?;
/// assert!(room.update_state(&json!({"n": 1})).await?.changed);
/// assert!(!room.update_state(&json!({"n": 1})).await?.changed);
///
/// let snapshot = room.snapshot().expect("the room was not left");
/// assert_eq!(snapshot.members.len(), 1);
/// assert!(snapshot.is_current);
///
/// room.leave().await?;
/// assert!(room.members().is_empty());
/// assert!(matches!(room.heartbeat().await, Err(Error::NotJoined)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RoomHandle {
    inner: Arc<RoomInner>,
}

/// Leaves the room when the last handle is dropped.
pub(crate) struct RoomInner {
    client: Arc<ClientInner>,
    generation: u64,
    room: Box<str>,
    user: Box<str>,
}

impl RoomInner {
    pub(crate) fn new(client: Arc<ClientInner>, generation: u64, room: &str, user: &str) -> Self {
        Self {
            client,
            generation,
            room: room.into(),
            user: user.into(),
        }
    }
}

impl Drop for RoomInner {
    fn drop(&mut self) {
        let leave = Command::Leave {
            generation: self.generation,
            reply: None,
        };
        // It fails if the client is closed, and is ignored if the room was left.
        let _ = self.client.shared.push(leave);
    }
}

impl RoomHandle {
    pub(crate) fn new(inner: Arc<RoomInner>) -> Self {
        Self { inner }
    }

    /// Returns the id of the room.
    #[must_use]
    pub fn room_id(&self) -> &str {
        &self.inner.room
    }

    /// Returns the id of the user.
    #[must_use]
    pub fn user_id(&self) -> &str {
        &self.inner.user
    }

    /// Sends a heartbeat without a change, in addition to the automatic ones.
    ///
    /// While disconnected it fails at once; a heartbeat in flight fails when the connection breaks. While the client
    /// joins again it waits. Cancel safety: if the future is dropped, the heartbeat may still be sent; its answer is
    /// dropped.
    ///
    /// # Errors
    /// [`Error::Disconnected`], [`Error::Timeout`], [`Error::QueueFull`], [`Error::NotJoined`] after a leave,
    /// [`Error::Closed`], and [`Error::Rejected`]: after the codes `expired`, `not_joined` and `stale_epoch` the client
    /// joins again by itself.
    pub async fn heartbeat(&self) -> Result<Heartbeat, Error> {
        self.send(None).await
    }

    /// Merges the fields of `patch` into the state of this member, and tells the room. It counts as a heartbeat.
    ///
    /// The patch replaces whole values at the top level of the state. While disconnected, the patch is kept, and the call
    /// ends with the join that follows the reconnection. So does a patch in flight when the connection breaks, and one
    /// that the server rejects with `expired`, `not_joined` or `stale_epoch`. Patches are applied in the order of the
    /// calls. Cancel safety: if the future is dropped after it was first polled, the patch is still applied; its answer
    /// is dropped.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the patch does not serialize to a JSON object, [`Error::Timeout`] (a patch that was
    /// sent may still be applied; one that was not sent is dropped), [`Error::Rejected`], [`Error::QueueFull`],
    /// [`Error::NotJoined`] after a leave, and [`Error::Closed`].
    pub async fn update_state(
        &self,
        patch: &(impl serde::Serialize + ?Sized),
    ) -> Result<Heartbeat, Error> {
        let patch = object::to_text(patch, "the patch")?;
        self.send(Some(patch.into())).await
    }

    async fn send(&self, patch: Option<Box<str>>) -> Result<Heartbeat, Error> {
        let (reply, answer) = oneshot::channel();
        self.inner.client.shared.push(Command::Heartbeat {
            generation: self.inner.generation,
            patch,
            reply,
        })?;
        answer.await.map_err(|_| Error::Closed)?
    }

    /// Leaves the room and waits for the server's answer. The client stays connected, and can join another room.
    ///
    /// While disconnected it succeeds at once, and so does the second leave of a room. Cancel safety: the room is left
    /// even if the future is dropped after it was first polled.
    ///
    /// # Errors
    /// [`Error::Timeout`] and [`Error::Rejected`]; the client considers the room left even so. [`Error::Closed`].
    pub async fn leave(&self) -> Result<(), Error> {
        let (reply, answer) = oneshot::channel();
        self.inner.client.shared.push(Command::Leave {
            generation: self.inner.generation,
            reply: Some(reply),
        })?;
        answer.await.map_err(|_| Error::Closed)?
    }

    /// Returns the members of the room that this client knows, with itself, ordered by connection id. It is empty after
    /// a leave. It sends nothing.
    #[must_use]
    pub fn members(&self) -> Vec<Member> {
        self.snapshot()
            .map(|snapshot| snapshot.members)
            .unwrap_or_default()
    }

    /// Returns the members with the number of the last event that they include, or `None` after a leave. It sends
    /// nothing.
    #[must_use]
    pub fn snapshot(&self) -> Option<Snapshot> {
        let inner = self.inner.client.shared.lock();
        let view = inner.view.as_ref();
        view.filter(|view| view.generation == self.inner.generation)
            .map(|view| view.snapshot())
    }

    /// Returns a stream of the events from now on, of the room and of the connection.
    ///
    /// Subscribe first and read [`members`](Self::members) afterwards to miss nothing.
    #[must_use]
    pub fn events(&self) -> Events {
        Events::new(Arc::clone(&self.inner.client.shared))
    }
}

impl fmt::Debug for RoomHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RoomHandle")
            .field("room", &self.inner.room)
            .field("user", &self.inner.user)
            .finish_non_exhaustive()
    }
}
