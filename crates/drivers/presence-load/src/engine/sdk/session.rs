//! A user from its connection to the end of its client.

use std::sync::Arc;

use load::clock;
use presence_sdk::{Error, Events, RealtimeClient};
use serde::Serialize;

use super::Sdk;
use crate::outcome;
use crate::roles::ConnectionEnd;
use crate::roles::population::Behaviour;

/// The state of a user: the driver's mark.
#[derive(Serialize)]
pub(super) struct Marked<'a> {
    pub(super) n: u32,
    pub(super) t: u64,
    #[serde(rename = "p", skip_serializing_if = "str::is_empty")]
    pub(super) padding: &'a str,
}

impl Sdk<'_> {
    /// Connects, joins, and reads events until the client of a user is closed. The user comes back later, unless it is the
    /// end of the load.
    pub(super) async fn session(&self, user: u32) {
        let end = match self.open(user).await {
            Ok(events) => self.read(user, events).await,
            Err(kind) => Some(ConnectionEnd::Lost(kind)),
        };
        let Some(end) = end else { return };
        let client = std::mem::take(&mut *self.client(user)).handle;
        if let Some(client) = client {
            client.close().await;
        }
        let state = &mut *self.loop_state.borrow_mut();
        self.users().disconnect(user, end, state);
        // The loop waits for an earlier or a later time.
        state.wake();
    }

    async fn open(&self, user: u32) -> Result<Events, &'static str> {
        let server = &self.servers[self.users().begin_connect(user)];
        let options = match self.users().user(user).behaviour {
            Behaviour::Active => &server.options,
            Behaviour::SlowConsumer | Behaviour::HalfOpen => &server.slow,
        };
        let client = RealtimeClient::connect_with(&server.url, Arc::clone(options)).await;
        let client = client.map_err(|error| connect_outcome(&error))?;
        let now = clock::now();
        self.users()
            .connected(user, None, now, &self.loop_state.borrow());
        self.clients().opened += 1;
        self.client(user).handle = Some(client.clone());
        let mut events = client.events();
        let names = self.users().part().names(user);
        let state = Marked {
            n: self.users().begin_join(user, now),
            t: now,
            padding: "",
        };
        let room = client
            .join_room_with(&names.room, &names.user, &state)
            .await
            .map_err(|error| join_outcome(&error))?;
        // Events before the snapshot are taken first: the snapshot includes them.
        self.drain(user, &mut events);
        self.take_snapshot(user, &room, now);
        self.client(user).room = Some(room);
        Ok(events)
    }
}

pub(super) fn connect_outcome(error: &Error) -> &'static str {
    match error {
        Error::Timeout { .. } => outcome::CONNECT_TIMEOUT,
        Error::Refused { .. } => outcome::NAMESPACE,
        Error::Connect(cause) => {
            let error = cause.downcast_ref::<std::io::Error>();
            let errno = error.and_then(std::io::Error::raw_os_error);
            errno.map_or(outcome::CONNECT, |errno| {
                outcome::connect_error(nix::errno::Errno::from_raw(errno))
            })
        }
        _ => outcome::CONNECT,
    }
}

pub(super) fn join_outcome(error: &Error) -> &'static str {
    match error {
        Error::Rejected { code, .. } => outcome::join_rejected(Some(code.as_str())),
        Error::Timeout { .. } => outcome::JOIN_TIMEOUT,
        Error::Closed | Error::Disconnected => outcome::CONNECTION_LOST,
        _ => outcome::JOIN_REJECTED,
    }
}
