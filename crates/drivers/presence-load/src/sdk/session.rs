//! A user from its connection to the end of the load.

use std::sync::Arc;
use std::time::Duration;

use load::clock;
use presence_sdk::{Error, Events, RealtimeClient};
use rand::RngExt as _;
use serde::Serialize;

use super::Engine;
use crate::outcome;
use crate::population::{Behaviour, Names};
use crate::series::CONNECT;
use crate::users::Phase;

/// The state of a user: the driver's mark.
#[derive(Serialize)]
pub(super) struct Marked<'a> {
    pub(super) n: u32,
    pub(super) t: u64,
    #[serde(rename = "p", skip_serializing_if = "str::is_empty")]
    pub(super) padding: &'a str,
}

impl Engine<'_> {
    /// Connects and joins, again and again until it succeeds, and reads events. A user of the churn that has left connects
    /// again at once.
    pub(super) async fn session(&self, user: u32) {
        loop {
            match self.open(user).await {
                Ok(events) => {
                    self.read(user, events).await;
                    if self.has_left(user) {
                        continue;
                    } else {
                        return;
                    }
                }
                Err(kind) => self.count_failed_attempt(user, kind),
            }
            let delay: f64 = rand::rng().random_range(1.0..5.0);
            tokio::time::sleep(Duration::from_secs_f64(delay)).await;
        }
    }

    async fn open(&self, user: u32) -> Result<Events, &'static str> {
        let began = clock::now();
        {
            let state = &mut self.load.borrow_mut().users[user as usize];
            state.phase = Phase::Connecting;
            state.connecting_since = began;
        }
        let server = &self.servers[self.shared.server_of(self.part.index_of(user), 0)];
        let options = match self.load.borrow().users[user as usize].behaviour {
            Behaviour::Active => &server.options,
            Behaviour::SlowConsumer | Behaviour::HalfOpen => &server.slow,
        };
        let client = RealtimeClient::connect_with(&server.url, Arc::clone(options)).await;
        let client = client.map_err(|error| connect_outcome(&error))?;
        let now = clock::now();
        self.loop_state.borrow().record.value(CONNECT, now - began);
        {
            let load = &mut *self.load.borrow_mut();
            load.counts.connected += 1;
            load.clients[user as usize] = Some(client.clone());
        }
        let mut events = client.events();
        let mut names = Names::default();
        self.part.write_names(user, &mut names);
        let n = self.begin_join(user, now);
        self.load.borrow_mut().users[user as usize]
            .sender
            .join_stamp = now;
        let state = Marked {
            n,
            t: now,
            padding: "",
        };
        let room = client
            .join_room_with(&names.room, &names.user, &state)
            .await;
        let room = room.map_err(|error| {
            let load = &mut *self.load.borrow_mut();
            load.audit.end(user);
            load.clients[user as usize] = None;
            join_outcome(&error)
        })?;
        // Events before the snapshot are taken first: the snapshot includes them.
        self.drain(user, &mut events);
        self.take_snapshot(user, &room, now);
        self.load.borrow_mut().rooms[user as usize] = Some(room);
        self.has_opened(user);
        Ok(events)
    }

    /// Begins a membership in the audit. Returns the number of the user's last change.
    pub(super) fn begin_join(&self, user: u32, now: u64) -> u32 {
        let load = &mut *self.load.borrow_mut();
        load.audit.begin_join(user, &load.users);
        let state = &mut load.users[user as usize];
        state.phase = Phase::Joining;
        state.sent = now;
        state.sender.joined_at = u64::MAX;
        state.sender.begin_join()
    }

    fn count_failed_attempt(&self, user: u32, kind: &'static str) {
        self.debug(user, &format!("cannot join: {kind}"));
        let is_first = {
            let load = &mut *self.load.borrow_mut();
            let state = &mut load.users[user as usize];
            state.phase = Phase::Backoff;
            load.counts.retries += u64::from(state.has_opened);
            !state.has_opened
        };
        if is_first {
            let state = self.loop_state.borrow();
            state.record.begin();
            state.record.error(kind);
            drop(state);
            self.has_opened(user);
        }
    }
}

fn connect_outcome(error: &Error) -> &'static str {
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

fn join_outcome(error: &Error) -> &'static str {
    match error {
        Error::Rejected { code, .. } => outcome::join_rejected(Some(code.as_str())),
        Error::Timeout { .. } => outcome::JOIN_TIMEOUT,
        Error::Closed | Error::Disconnected => outcome::CONNECTION_LOST,
        _ => outcome::JOIN_REJECTED,
    }
}
