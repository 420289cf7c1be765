//! The slots of a worker's sessions, which timers name.

use std::sync::Arc;

use slab::Slab;

use crate::session::Session;

/// The slot of a session. The generation distinguishes it from a later session with the same index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    index: u32,
    generation: u32,
}

/// The sessions of a worker by their slots.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    sessions: Slab<(u32, Arc<Session>)>,
    generation: u32,
}

impl Slots {
    pub(crate) fn insert(&mut self, session: Arc<Session>) -> Slot {
        let generation = self.generation;
        self.generation = generation.wrapping_add(1);
        let index = self.sessions.insert((generation, session));
        Slot {
            index: u32::try_from(index).expect("descriptors are far fewer"),
            generation,
        }
    }

    /// Returns the session at a slot, unless it has ended.
    pub(crate) fn get(&self, slot: Slot) -> Option<Arc<Session>> {
        let (generation, session) = self.sessions.get(slot.index as usize)?;
        (*generation == slot.generation).then(|| Arc::clone(session))
    }

    /// Removes the session of a slot that was not removed before.
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<Arc<Session>> {
        let entry = self.sessions.try_remove(slot.index as usize);
        entry.map(|(_, session)| session)
    }

    /// Returns all sessions.
    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        let sessions = self.sessions.iter();
        sessions
            .map(|(_, (_, session))| Arc::clone(session))
            .collect()
    }
}
