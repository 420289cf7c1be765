//! Rooms: their members, and the order of their events.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use slab::Slab;
use socketio_server::Frame;

use super::cluster::Shared;
use super::json::quoted;
use super::member::Member;
use super::sink::Sink;

/// A room. Whoever holds its lock sends its events, so every member gets them in the order of their numbers.
#[derive(Debug)]
pub(crate) struct Room<S> {
    pub(crate) id: Arc<str>,
    /// The id with its quotes.
    pub(crate) json: Box<str>,
    inner: Mutex<Inner<S>>,
}

/// The part of a room that changes.
#[derive(Debug)]
pub(crate) struct Inner<S> {
    /// True once the room was removed from the registry: whoever still finds it must look again.
    pub(crate) is_closed: bool,
    /// The number of the last event that was sent to the members.
    pub(crate) seq: u64,
    /// The members on this node.
    pub(crate) members: Slab<Member<S>>,
    /// The room's part on other nodes, if there may be any.
    pub(crate) shared: Option<Box<Shared<S>>>,
}

/// The slot of a member in its room. A key is used again, a generation is not.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Slot {
    pub(crate) key: usize,
    pub(crate) generation: u64,
}

impl<S: Sink> Room<S> {
    pub(crate) fn new(id: &str, is_shared: bool) -> Self {
        let inner = Inner {
            is_closed: false,
            seq: 0,
            members: Slab::new(),
            shared: is_shared.then(Box::default),
        };
        Self {
            id: id.into(),
            json: quoted(id),
            inner: Mutex::new(inner),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner<S>> {
        // A panic of another thread leaves at worst one event unsent.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Sink> Inner<S> {
    /// Returns the member of a slot, unless another membership has it by now.
    pub(crate) fn member(&mut self, slot: Slot) -> Option<&mut Member<S>> {
        let member = self.members.get_mut(slot.key);
        member.filter(|member| member.generation == slot.generation)
    }

    /// Sends an event to all visible members. Returns their number.
    pub(crate) fn deliver(&self, frame: &Frame) -> u64 {
        let members = self.members.iter();
        members.filter(|(_, member)| member.send(frame)).count() as u64
    }

    /// Returns true if other nodes cannot be reached, though there should be some.
    pub(crate) fn is_degraded(&self) -> bool {
        self.shared
            .as_ref()
            .is_some_and(|shared| !shared.is_linked())
    }

    /// Returns the number of members on all nodes, as far as this one knows.
    pub(crate) fn member_count(&self) -> usize {
        let remote = self
            .shared
            .as_ref()
            .map_or(0, |shared| shared.member_count());
        self.members.len() + remote
    }
}
