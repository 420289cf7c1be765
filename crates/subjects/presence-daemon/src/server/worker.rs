//! The state of a worker: its sessions, their heartbeats, and the number of its open connections.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use slab::Slab;
use tokio::sync::{Notify, watch};

use crate::engine::Engine;
use crate::engine::disconnect_reason::DisconnectReason;
use crate::engine::session::Session;
use crate::server::heartbeats::Heartbeats;

/// The state that the tasks of one worker share.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) engine: Arc<Engine>,
    pub(crate) heartbeats: Heartbeats,
    /// Becomes true when the server stops.
    stop: watch::Receiver<bool>,
    sessions: RefCell<Slab<Entry>>,
    generation: Cell<u32>,
    /// The number of open sessions and HTTP connections.
    open: Cell<usize>,
    /// Notified when a session or an HTTP connection has ended.
    ended: Notify,
}

/// The slot of a session. The generation distinguishes it from a later session with the same index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    index: u32,
    generation: u32,
}

#[derive(Debug)]
struct Entry {
    session: Arc<Session>,
    generation: u32,
}

impl Worker {
    /// Creates the state of a worker without sessions.
    pub(crate) fn new(engine: Arc<Engine>, stop: watch::Receiver<bool>) -> Self {
        Self {
            engine,
            heartbeats: Heartbeats::default(),
            stop,
            sessions: RefCell::default(),
            generation: Cell::new(0),
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
        let sessions: Vec<_> = self
            .sessions
            .borrow()
            .iter()
            .map(|(_, entry)| Arc::clone(&entry.session))
            .collect();
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
        let sessions = self.sessions.borrow();
        let entry = sessions.get(slot.index as usize)?;
        (entry.generation == slot.generation).then(|| Arc::clone(&entry.session))
    }

    /// Adds a session, and has it pinged, until the returned value is dropped.
    pub(crate) fn hold(self: &Rc<Self>, session: Arc<Session>) -> Held {
        let generation = self.generation.get();
        self.generation.set(generation.wrapping_add(1));
        let next_ping = session.next_ping.load(Relaxed);
        let connect_due = session.connect_due();
        let index = self.sessions.borrow_mut().insert(Entry {
            session: Arc::clone(&session),
            generation,
        });
        let slot = Slot {
            index: u32::try_from(index).expect("descriptors are far fewer"),
            generation,
        };
        self.heartbeats.add(next_ping, slot);
        self.heartbeats.add_connect(connect_due, slot);
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

/// A session in the slab of its worker. Dropping this value ends the session, also after a panic of the application.
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
        let index = self.slot.index as usize;
        // Not dropped while the slab is borrowed: its end may send.
        let entry = self.worker().sessions.borrow_mut().try_remove(index);
        drop(entry);
        if let Some(session) = self.session.take() {
            let reason = session.connection.end();
            session.finish(reason.unwrap_or(DisconnectReason::ConnectionLost));
            // Last: a client that sees the end of its connection finds it counted.
            session.free();
        }
    }
}
