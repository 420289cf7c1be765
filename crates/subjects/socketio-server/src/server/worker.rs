//! The state of a worker: its sessions, their heartbeats, and the number of its open connections.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::sync::{Notify, watch};

use crate::disconnect_reason::DisconnectReason;
use crate::server::heartbeats::{Due, Heartbeats};
use crate::server::polled::PolledSessions;
use crate::server::slots::{Slot, Slots};
use crate::session::Session;
use crate::session::engine::Engine;

/// The state that the tasks of one worker share.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) engine: Arc<Engine>,
    pub(crate) polled: Arc<PolledSessions>,
    pub(crate) heartbeats: Heartbeats,
    /// Becomes true when the server stops.
    stop: watch::Receiver<bool>,
    sessions: RefCell<Slots>,
    /// The number of open sessions and HTTP connections.
    pub(super) open: Cell<usize>,
    /// Notified when a session or an HTTP connection has ended.
    ended: Notify,
}

impl Worker {
    /// Creates the state of a worker without sessions.
    pub(crate) fn new(
        engine: Arc<Engine>,
        polled: Arc<PolledSessions>,
        stop: watch::Receiver<bool>,
    ) -> Self {
        Self {
            engine,
            polled,
            heartbeats: Heartbeats::default(),
            stop,
            sessions: RefCell::default(),
            open: Cell::new(0),
            ended: Notify::new(),
        }
    }

    /// Waits until the server stops.
    pub(crate) async fn stopped(&self) {
        // An error means that the server is gone.
        let _ = self.stop.clone().wait_for(|stops| *stops).await;
    }

    /// Returns true once the server stops.
    pub(crate) fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// Ends all sessions because the server stops.
    pub(crate) fn shut_down_sessions(&self) {
        // The end of a session may send, so the slots are not borrowed meanwhile.
        let sessions = self.sessions.borrow().all();
        for session in sessions {
            session.shut_down();
        }
    }

    /// Waits until no session and no HTTP connection is open.
    pub(crate) async fn all_ended(&self) {
        while self.open.get() > 0 {
            self.ended.notified().await;
        }
    }

    /// Returns the session at a slot, unless it has ended.
    pub(crate) fn session(&self, slot: Slot) -> Option<Arc<Session>> {
        self.sessions.borrow().get(slot)
    }

    /// Frees the queue and the transport of a session that has ended. Its id is unknown from now on.
    pub(crate) fn free(&self, session: &Session) {
        self.polled.remove(session.id);
        session.connection.release();
    }

    /// Adds a session, and has it pinged, until the returned value is dropped.
    pub(crate) fn hold(self: &Rc<Self>, session: Arc<Session>) -> Held {
        let slot = self.sessions.borrow_mut().insert(Arc::clone(&session));
        let next_ping = session.next_ping.load(Relaxed);
        self.heartbeats.add(next_ping, Due::Ping, slot);
        self.heartbeats
            .add(session.connect_due(), Due::Connect, slot);
        Held {
            session: Some(session),
            slot,
            open: Open::new(self),
        }
    }
}

/// A guard that counts a session or an HTTP connection as open until it is dropped.
#[derive(Debug)]
pub(crate) struct Open(Rc<Worker>);

impl Open {
    pub(crate) fn new(worker: &Rc<Worker>) -> Self {
        worker.open.set(worker.open.get() + 1);
        Self(Rc::clone(worker))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
        self.0.ended.notify_one();
    }
}

/// A session in a slot of its worker. Dropping this value ends the session, also after a panic of the application.
#[derive(Debug)]
pub(crate) struct Held {
    session: Option<Arc<Session>>,
    slot: Slot,
    open: Open,
}

impl Held {
    pub(crate) fn session(&self) -> &Arc<Session> {
        self.session.as_ref().expect("it is taken only at the end")
    }

    pub(crate) fn worker(&self) -> &Rc<Worker> {
        &self.open.0
    }

    /// Leaves the session to the worker whose WebSocket has taken over.
    pub(crate) fn hand_over(mut self) {
        self.session = None;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Not dropped while the slots are borrowed: its end may send.
        let removed = self.worker().sessions.borrow_mut().remove(self.slot);
        drop(removed);
        if let Some(session) = self.session.take() {
            let reason = session.connection.end();
            session.finish(reason.unwrap_or(DisconnectReason::ConnectionLost));
            // Last: a client that sees the end of its connection finds it counted.
            self.worker().free(&session);
        }
    }
}
