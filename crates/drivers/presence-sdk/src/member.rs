//! Members of a room and their states.

use std::sync::Arc;

use serde::de::DeserializeOwned;

/// The state of a member: a JSON object, kept as its text.
///
/// ```
/// use presence_sdk::State;
///
/// #[derive(serde::Deserialize)]
/// struct Cursor { x: u32, y: u32 }
///
/// let state = State::from_value(&serde_json::json!({"x": 3, "y": 4}))?;
/// let cursor: Cursor = state.parse()?;
/// assert_eq!((cursor.x, cursor.y), (3, 4));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State(Arc<str>);

impl State {
    pub(crate) fn from_text(text: &str) -> Self {
        Self(text.into())
    }

    /// Creates a state from a value that serializes to a JSON object.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the value serializes to something else.
    pub fn from_value(value: &(impl serde::Serialize + ?Sized)) -> Result<Self, crate::Error> {
        crate::object::to_text(value, "the state").map(|text| Self(text.into()))
    }

    /// Returns the JSON text.
    #[must_use]
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// Parses the state as a value of the caller's type.
    ///
    /// # Errors
    /// The state does not have the shape of `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }
}

impl Default for State {
    fn default() -> Self {
        Self("{}".into())
    }
}

/// A member of a room: one connection of one user.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// The id of the connection. A user with several devices has several members.
    pub conn_id: Arc<str>,
    /// The id of the user, as it was passed when joining.
    pub user_id: Arc<str>,
    /// The whole state of the member.
    pub state: State,
    /// The time of the member's last heartbeat that this client knows of, in milliseconds since 1970.
    pub last_seen_ms: u64,
    /// The number that the server issued for this membership. It rises with each join.
    pub epoch: u64,
}

/// The members of a room at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The members, ordered by connection id. It includes this client.
    pub members: Vec<Member>,
    /// The sequence number of the last event that the snapshot includes, if the server numbers its events.
    pub seq: Option<u64>,
    /// The connection id of this client.
    pub conn_id: Arc<str>,
    /// The epoch of this client.
    pub epoch: u64,
    /// True while the client is joined. Otherwise the members are those last known.
    pub is_current: bool,
    /// True while the server knows only the members of its own node.
    pub is_degraded: bool,
}
