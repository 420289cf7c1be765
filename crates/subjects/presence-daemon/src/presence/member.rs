//! Members of rooms: the connections of users.

use socketio_server::Frame;

use super::event::{Event, Kind, push};
use super::json::{Entries, push_number, quoted};
use super::refusal::Refusal;
use super::request::too_deep;
use super::sink::Sink;
use super::state::{State, TooDeep};

/// A connection in a room.
#[derive(Debug)]
pub(crate) struct Member<S> {
    /// The client, unless its connection broke and the membership is kept.
    sink: Option<S>,
    /// The number of the join or resumption, which is never used again.
    pub(crate) generation: u64,
    pub(crate) conn: Box<str>,
    user_json: Box<str>,
    state: State,
    /// Time of the last join or heartbeat.
    last_seen_ms: u64,
    pub(crate) epoch: u64,
    pub(crate) token: Option<Token>,
    /// Time until which the membership of a broken connection is kept.
    kept_until_ms: Option<u64>,
    /// True once its join was published: from then on it gets events and is in snapshots.
    pub(crate) is_visible: bool,
    /// True if the other nodes may know of it.
    pub(crate) is_shared: bool,
}

impl<S> Member<S> {
    /// Creates a member that no client has yet.
    pub(crate) fn new(conn: &str, user: &str, state: State, now_ms: u64) -> Self {
        Self {
            sink: None,
            generation: 0,
            conn: conn.into(),
            user_json: quoted(user),
            state,
            last_seen_ms: now_ms,
            epoch: now_ms,
            token: None,
            kept_until_ms: None,
            is_visible: false,
            is_shared: false,
        }
    }

    /// Gives the membership to a client.
    pub(crate) fn connect(&mut self, generation: u64, sink: S, token: Option<Token>) {
        self.generation = generation;
        self.sink = Some(sink);
        self.token = token;
        self.kept_until_ms = None;
    }

    /// Keeps the membership of a connection that broke.
    pub(crate) fn keep_until(&mut self, until_ms: u64) {
        self.sink = None;
        self.kept_until_ms = Some(until_ms);
    }

    /// Joins the same room again.
    pub(crate) fn rejoin(&mut self, user: &str, state: State, now_ms: u64) {
        self.user_json = quoted(user);
        self.state = state;
        self.epoch = now_ms.max(self.epoch + 1);
        self.last_seen_ms = now_ms;
    }

    /// Goes on with a kept membership. Returns true if that changed the state.
    pub(crate) fn resume(&mut self, state: Option<&State>, now_ms: u64) -> bool {
        self.epoch += 1;
        self.last_seen_ms = now_ms;
        let changed = state.filter(|state| **state != self.state);
        if let Some(state) = changed {
            self.state = state.clone();
        }
        changed.is_some()
    }

    /// Merges the patch of a heartbeat. Returns true if that changed a value.
    pub(crate) fn heartbeat(
        &mut self,
        patch: Option<Entries<'_>>,
        max_state_bytes: usize,
        now_ms: u64,
    ) -> Result<bool, Refusal> {
        let merged = patch.map(|patch| self.state.merged(patch)).transpose();
        let merged = merged.map_err(|TooDeep| too_deep("patchState"))?.flatten();
        let is_changed = merged.is_some();
        if let Some(merged) = merged {
            if merged.as_str().len() > max_state_bytes {
                return Err(Refusal::StateTooLarge(max_state_bytes));
            }
            self.state = merged;
        }
        self.last_seen_ms = now_ms;
        Ok(is_changed)
    }

    /// Sends an event to the client. Returns false if the member gets no events.
    pub(crate) fn send(&self, frame: &Frame) -> bool
    where
        S: Sink,
    {
        let sink = self.sink.as_ref().filter(|_| self.is_visible);
        sink.inspect(|sink| sink.send(frame)).is_some()
    }

    /// Returns true if a client that has this token, and is this user, may resume the membership.
    pub(crate) fn is_resumed_by(&self, token: Token, user_json: &str) -> bool {
        self.token == Some(token) && *self.user_json == *user_json
    }

    /// Returns true if no heartbeat came within the TTL.
    pub(crate) fn is_expired(&self, now_ms: u64, ttl_ms: u64) -> bool {
        now_ms >= self.last_seen_ms.saturating_add(ttl_ms)
    }

    /// Returns true if its connection broke and did not come back within the grace time.
    pub(crate) fn is_abandoned(&self, now_ms: u64) -> bool {
        self.kept_until_ms.is_some_and(|until| now_ms >= until)
    }

    /// Returns an event about the member, without its number.
    pub(crate) fn event<'a>(&'a self, kind: Kind, room_json: &'a str, ts: u64) -> Event<'a> {
        Event {
            kind,
            room_json,
            user_json: &self.user_json,
            conn: &self.conn,
            state: self.state.as_str(),
            ts,
            epoch: self.epoch,
            seq: 0,
            is_degraded: false,
        }
    }

    /// Returns the member as it stands in snapshots.
    pub(crate) fn shown(&self) -> Shown<'_> {
        Shown {
            conn: &self.conn,
            user_json: &self.user_json,
            state: self.state.as_str(),
            last_seen_ms: self.last_seen_ms,
            epoch: self.epoch,
        }
    }
}

/// A member as it stands in snapshots.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub(crate) conn: &'a str,
    pub(crate) user_json: &'a str,
    pub(crate) state: &'a str,
    pub(crate) last_seen_ms: u64,
    pub(crate) epoch: u64,
}

impl Shown<'_> {
    /// Appends the member as JSON.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        push(out, "{\"connId\":\"");
        push(out, self.conn);
        push(out, "\",\"userId\":");
        push(out, self.user_json);
        push(out, ",\"state\":");
        push(out, self.state);
        push(out, ",\"lastSeenMs\":");
        push_number(self.last_seen_ms, out);
        push(out, ",\"epoch\":");
        push_number(self.epoch, out);
        push(out, "}");
    }
}

/// Proves that a client had a membership: 128 random bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token(u128);

impl Token {
    pub(crate) fn new() -> Self {
        Self(rand::random())
    }

    /// Parses what [`Token::to_text`] returned.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok();
        number.filter(|_| is_hex).map(Self)
    }

    pub(crate) fn to_text(self) -> String {
        format!("{:032x}", self.0)
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Token(…)")
    }
}
