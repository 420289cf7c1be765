//! The rooms by their ids.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::room::Room;
use super::sink::Sink;

/// Number of parts with a lock of their own.
const SHARDS: usize = 64;
/// Rooms below which a part keeps its memory.
const KEPT: usize = 64;

type Rooms<S> = HashMap<Arc<str>, Arc<Room<S>>>;

/// The rooms by their ids, in parts with a lock each. A part is locked before a room, never after it.
#[derive(Debug)]
pub(crate) struct Registry<S> {
    shards: Box<[Mutex<Rooms<S>>]>,
    hasher: RandomState,
    count: AtomicUsize,
}

impl<S: Sink> Registry<S> {
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            count: AtomicUsize::new(0),
        }
    }

    /// Returns the number of rooms.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Relaxed)
    }

    pub(crate) fn find(&self, id: &str) -> Option<Arc<Room<S>>> {
        self.shard(id).get(id).map(Arc::clone)
    }

    /// Returns the room, which is created if there are fewer than `most`.
    pub(crate) fn find_or_create(
        &self,
        id: &str,
        most: usize,
        is_shared: bool,
    ) -> Option<Arc<Room<S>>> {
        let mut shard = self.shard(id);
        if let Some(room) = shard.get(id) {
            return Some(Arc::clone(room));
        }
        if self.count.fetch_add(1, Relaxed) >= most {
            self.count.fetch_sub(1, Relaxed);
            return None;
        }
        let room = Arc::new(Room::new(id, is_shared));
        shard.insert(Arc::clone(&room.id), Arc::clone(&room));
        Some(room)
    }

    /// Removes a room without members.
    pub(crate) fn remove_if_empty(&self, room: &Room<S>) {
        let mut shard = self.shard(&room.id);
        let mut inner = room.lock();
        if inner.is_closed || !inner.members.is_empty() {
            return;
        }
        inner.is_closed = true;
        let found = shard.get(&room.id).map(Arc::as_ptr);
        if found != Some(std::ptr::from_ref(room)) {
            return;
        }
        shard.remove(&room.id);
        if shard.capacity() > KEPT && shard.len() < shard.capacity() / 4 {
            shard.shrink_to_fit();
        }
        self.count.fetch_sub(1, Relaxed);
    }

    /// Calls `visit` with each room. No part is locked meanwhile.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&Arc<Room<S>>)) {
        for shard in &self.shards {
            let rooms: Vec<_> = lock(shard).values().map(Arc::clone).collect();
            rooms.iter().for_each(&mut visit);
        }
    }

    fn shard(&self, id: &str) -> MutexGuard<'_, Rooms<S>> {
        let hash = self.hasher.hash_one(id) as usize;
        lock(&self.shards[hash % SHARDS])
    }
}

fn lock<S>(shard: &Mutex<Rooms<S>>) -> MutexGuard<'_, Rooms<S>> {
    // A panic of another thread cannot leave a map half changed.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
