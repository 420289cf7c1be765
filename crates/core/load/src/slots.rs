//! A slab with ids that stay unique: an event for a connection that has ended never reaches the connection that reuses
//! its slot.

use slab::Slab;

/// The id of an entry: its index in the slab, and the generation of the entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    key: u32,
    generation: u32,
}

/// Number of token bits that hold the index in the slab.
const KEY_BITS: u32 = 30;

impl Id {
    /// Packs the id and a two-bit side (which of the descriptors of one entry) into the token of a readiness event.
    #[must_use]
    pub fn token(self, side: u8) -> u64 {
        u64::from(self.generation) << 32 | u64::from(side & 3) << KEY_BITS | u64::from(self.key)
    }

    /// Unpacks a token of [`token`](Self::token).
    #[must_use]
    pub fn from_token(token: u64) -> (Self, u8) {
        let low = token as u32;
        (
            Self {
                key: low & ((1 << KEY_BITS) - 1),
                generation: (token >> 32) as u32,
            },
            (low >> KEY_BITS) as u8,
        )
    }
}

/// Entries by [`Id`].
#[derive(Debug)]
pub struct Slots<T> {
    slab: Slab<(u32, T)>,
    generation: u32,
}

impl<T> Slots<T> {
    /// Creates an empty slab with address space for `capacity` entries; pages become resident as entries are used.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            slab: Slab::with_capacity(capacity),
            generation: 0,
        }
    }

    /// Adds an entry and returns its id.
    ///
    /// # Panics
    /// At 2^30 entries, which no process can open.
    pub fn insert(&mut self, entry: T) -> Id {
        // The top generation is left to the reactor's own tokens.
        self.generation = (self.generation + 1) & (u32::MAX >> 1);
        let key = u32::try_from(self.slab.insert((self.generation, entry)))
            .expect("no process opens 2^32 connections");
        assert!(key >> KEY_BITS == 0, "no process opens 2^30 connections");
        Id {
            key,
            generation: self.generation,
        }
    }

    /// Returns the entry of an id, or `None` after it was removed.
    pub fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        self.slab
            .get_mut(id.key as usize)
            .filter(|(generation, _)| *generation == id.generation)
            .map(|(_, entry)| entry)
    }

    /// Removes an entry and returns it.
    pub fn remove(&mut self, id: Id) -> Option<T> {
        self.get_mut(id)?;
        Some(self.slab.remove(id.key as usize).1)
    }

    /// Returns all entries with their ids, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        self.slab.iter().map(|(key, (generation, entry))| {
            (
                Id {
                    key: key as u32,
                    generation: *generation,
                },
                entry,
            )
        })
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Returns true if there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_does_not_reach_the_entry_that_took_its_place() {
        let mut slots = Slots::with_capacity(1);
        let old = slots.insert("old");
        assert_eq!(slots.remove(old), Some("old"));
        let new = slots.insert("new");
        assert_eq!(slots.get_mut(old), None);
        assert_eq!(slots.get_mut(new), Some(&mut "new"));
        assert_eq!(slots.remove(old), None);
        assert_eq!(slots.len(), 1);
    }

    #[test]
    fn a_token_gives_back_its_id_and_side() {
        let mut slots = Slots::with_capacity(4);
        for side in 0..4 {
            let id = slots.insert(());
            assert_eq!(Id::from_token(id.token(side)), (id, side));
        }
    }
}
